"""Why `defrag` has no moves to offer. Pure.

The first word is that of `fit`: `never`, when no departure of pods makes the room, or `busy`, when some would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypedDict

import numpy as np

from extender.advice import remedy, scarce_in_all, verdict
from extender.modelhints import labels_of, no_such_model
from extender.packing.defrag import Plan
from extender.packing.fit import Verdicts, filter_nodes
from extender.packing.holes import Ask, Hole, of_model
from extender.packing.plan import Status
from extender.packing.relocation import Relocation
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, NodeTable
from extender.packing.types import PodInfo
from extender.selectorhints import SelectorHints

_LISTED: Final = 4


class VetoRow(TypedDict):
    """A pod that may not be moved, on a node where it would have helped."""

    pod: str
    node: str
    reason: str


def never(snapshot: Snapshot, wanted: PodInfo | Hole) -> str:
    """Return why no departure of pods makes the room, "" when some would."""
    words = _never_a_hole(snapshot.table, wanted) if isinstance(wanted, Hole) else _never_a_pod(snapshot, wanted)
    return f"never: {words}" if words else ""


def busy(
    snapshot: Snapshot, wanted: PodInfo | Hole, asks: Sequence[Ask], problem: Relocation, plan: Plan
) -> tuple[str, list[VetoRow]]:
    """Return why there is no plan although departures would make the room, and the pods that must stay if it is them.

    Those that must stay hold something of which their node is short.
    """
    what = str(wanted) if isinstance(wanted, Hole) else f"pod {wanted.key}"
    candidates = sum(int(ask.rows.sum()) for ask in asks)
    if not candidates and isinstance(wanted, PodInfo):
        return _none_is_sure(snapshot, wanted), []
    words = f"busy: {candidates} of {len(snapshot)} nodes could take {what} if pods left, but "
    if scarce := _scarce(snapshot, asks):
        return f"{words}moving pods would not do: {scarce}", []
    staying = list(_vetoes(problem, asks))
    counted = _counted(staying)
    if plan.status is Status.UNKNOWN:
        return f"{words}no order of moves was found in the time there is, and none was ruled out", staying
    if not problem.targets:
        return f"{words}on none of them can enough pods be moved" + (f": {counted}" if counted else ""), staying
    nowhere = f"{words}for the pods on {len(problem.targets)} of them, which could be moved, no node has a place"
    return f"{nowhere}; {counted}" if counted else nowhere, staying


def _counted(staying: Iterable[VetoRow]) -> str:
    counts = Counter(row["reason"] for row in staying).most_common(_LISTED)
    return ", ".join(f"{count} {'pod' if count == 1 else 'pods'} must stay ({reason})" for reason, count in counts)


def _vetoes(problem: Relocation, asks: Iterable[Ask]) -> Iterator[VetoRow]:
    for ask in asks:
        for row in ask.rows.nonzero()[0].tolist():
            short = {name for name, amount in ask.amounts.items() if problem.room_of(row, name) < amount}
            for pod, reason in problem.vetoed.get(row, ()):
                if short & pod.requests.keys():
                    yield {"pod": pod.key, "node": problem.table.names[row], "reason": reason}


# ---------------------------------------------------------------- pods


def _never_a_pod(snapshot: Snapshot, pod: PodInfo) -> str:
    pod = replace(pod, gated=False)  # the gates are not what is asked about
    verdicts = filter_nodes(snapshot, pod)
    if not verdicts.never.all():
        return ""
    words = verdict(pod, verdicts).partition(": ")[2]
    helps = remedy(snapshot, pod, verdicts, SelectorHints(snapshot.table.nodes))
    return f"{words}; {helps}" if len(snapshot) else "there are no nodes"


def _none_is_sure(snapshot: Snapshot, pod: PodInfo) -> str:
    verdicts = filter_nodes(snapshot, replace(pod, gated=False))
    unready = _unready(snapshot.table, verdicts)
    return verdict(replace(pod, gated=False), verdicts) + (f"; {unready} of them not ready" if unready else "")


def _unready(table: NodeTable, verdicts: Verdicts) -> int:
    ready = np.array([node.ready for node in table.nodes], dtype=np.bool_)
    return int((~ready & ~verdicts.never).sum())


def _scarce(snapshot: Snapshot, asks: Sequence[Ask]) -> str:
    """Return words about what all nodes together have too little of, "" when one of the asks has enough."""
    asked = [ask for ask in asks if ask.rows.any()]
    words = [scarce_in_all(snapshot, ask.amounts.items(), snapshot.table.open | ask.rows) for ask in asked]
    return words[0] if words and all(words) else ""


# ---------------------------------------------------------------- holes


def _never_a_hole(table: NodeTable, hole: Hole) -> str:
    rows = {resource: of_model(table, resource, hole.model) for resource in table.whole_gpu_resources}
    of = f" of model {hole.model:.80}" if hole.model else ""
    if not any(some.any() for some in rows.values()):
        known = labels_of(table, table.gpu_resources)
        unknown = no_such_model(hole.model, known) if hole.model else None
        return unknown or f"no node has whole GPUs{of}" + (", only shared ones or slices" if of else "")
    large = {resource: some & (table.allocatable_of(resource) >= hole.gpus) for resource, some in rows.items()}
    if not any(some.any() for some in large.values()):
        most, name = max(_largest(table, resource, some) for resource, some in rows.items())
        return f"no node has {hole.gpus} GPUs{of}; the largest{' of that model' if of else ''} has {most} ({name})"
    if any((some & table.open).any() for some in large.values()):
        return ""
    closed = np.logical_or.reduce(list(large.values()))
    count = int(closed.sum())
    nodes = "the only node" if count == 1 else f"all {count} nodes"
    return f"{nodes} with {hole.gpus} GPUs{of}: {_closed(table, closed)}"


def _largest(table: NodeTable, resource: str, rows: BoolVector) -> tuple[int, str]:
    have = np.where(rows, table.allocatable_of(resource), -1)
    row = int(have.argmax())
    return int(have[row]), table.names[row]


def _closed(table: NodeTable, rows: BoolVector) -> str:
    """Say which of these rows are cordoned and which are not ready; all are one or the other."""
    nodes = [table.nodes[row] for row in rows.nonzero()[0].tolist()]
    sorts = {
        "cordoned": [node.name for node in nodes if node.unschedulable],
        "not ready": [node.name for node in nodes if not node.unschedulable],
    }
    words = [f"{len(names)} {sort} ({_some(names)})" for sort, names in sorts.items() if names]
    return ", ".join(words) + (": uncordon one" if any(node.ready for node in nodes) else "")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
