"""Says in a sentence what a Filter answer means for a pod, and what would help. Pure.

The verdict starts with one word: `gated`, `fits`, `busy` or `never`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np

from extender.cures import any_of, uncordoning, what_keeps_it_off
from extender.modelhints import unknown_wishes
from extender.packing.fit import Cause, Verdicts, static_verdicts
from extender.packing.resources import CPU, EPHEMERAL, MEMORY, PODS, total
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, IntVector
from extender.packing.types import PodInfo
from extender.packing.victims import eviction_helps
from extender.selectorhints import SelectorHints

_MIB: Final = 2**20
# Nodes on which evictions are tried out for a hint, and how many that help are enough.
_LOOKED_AT: Final = 500
_NAMED: Final = 3
WHICH_TO_MOVE: Final = "; which to move: "
"""What stands between a remedy and the command that finds the moves."""


def verdict(pod: PodInfo, verdicts: Verdicts) -> str:
    """Return the answer in one sentence."""
    total, fits, never = len(verdicts.codes), int(verdicts.fits.sum()), int(verdicts.never.sum())
    if pod.gated:
        return f"gated: waits outside the queue; {fits} of {total} nodes could take it"
    if pod.gpu.unread:
        return f"never: {pod.gpu.unread}"
    if fits:
        return f"fits: {fits} of {total} nodes can take it now"
    if busy := total - never:
        unsure = _unsure(verdicts)
        help_ = "once their labels say what GPUs they have" if unsure == busy else "if pods left"
        return f"busy: {busy} of {total} nodes could take it {help_}"
    cannot = "the only node cannot" if total == 1 else f"none of {total} nodes can"
    return f"never: {cannot} take it, whatever leaves"


def _unsure(verdicts: Verdicts) -> int:
    """Count the nodes that are refused only for what their labels do not say."""
    waits = [reason.cause is Cause.GPU_MODEL and reason.resolvable for reason in verdicts.reasons]
    return int(np.array(waits, dtype=np.bool_)[verdicts.codes].sum())


def remedy(
    view: Snapshot, pod: PodInfo, verdicts: Verdicts, hints: SelectorHints, finding_moves: str = ""
) -> str | None:
    """Return what would help the pod to start; None when it can.

    Args:
        view: the cluster without the pod.
        pod: the pod.
        verdicts: what Filter says of it.
        hints: of the same nodes.
        finding_moves: the command that finds pods to move for this one, "" where it is of no use.
    """
    if pod.gated:
        return "remove its scheduling gates; until then kube-scheduler does not look at it"
    if pod.gpu.unread:
        return "write a whole number there, such as 8; the API server takes no other"
    if verdicts.fits.any():
        return None
    busy, uncordon = ~verdicts.never, uncordoning(view, pod)
    if not busy.any():
        return uncordon or _for_never(view, pod, hints)
    ways = (uncordon, _preempting(view, pod, busy), _for_busy(view, pod, verdicts, busy, finding_moves))
    return "; or ".join(filter(None, ways))


# ---------------------------------------------------------------- busy


def _for_busy(view: Snapshot, pod: PodInfo, verdicts: Verdicts, busy: BoolVector, finding_moves: str) -> str:
    full = [row for row in np.flatnonzero(busy) if verdicts.reason(int(row)).cause is Cause.RESOURCES]
    if not full:
        return "wait until the nodes' GPU labels are there"
    lacks = {view.table.names[row]: _lacking(view, pod, int(row)) for row in full}
    name = min(lacks, key=lambda n: (lacks[n].get(pod.gpu.resource, 0), len(lacks[n]), sum(lacks[n].values()), n))
    if not lacks[name]:
        return f"wait: what is free on {name} is held for pods that were nominated to it"
    missing = " and ".join(_amount(resource, amount) for resource, amount in lacks[name].items())
    scarce = scarce_in_all(view, _wanted(pod), view.table.open | busy)
    if scarce:
        return f"wait for pods to leave: {name} comes closest, it lacks {missing}; moving pods would not do: {scarce}"
    which = f"{WHICH_TO_MOVE}{finding_moves}" if finding_moves else ""
    return f"wait for pods to leave, or move some: {name} comes closest, it lacks {missing}{which}"


def _preempting(view: Snapshot, pod: PodInfo, busy: BoolVector) -> str:
    """Return words about the nodes on which evicting pods of lower priority would let the pod in, "" without any."""
    lowest = view.remember("lowest priority", None, lambda: _lowest_priority(view))
    if not pod.may_preempt or lowest is None or pod.priority <= lowest:
        return ""
    rows = np.flatnonzero(busy)[:_LOOKED_AT].tolist()
    names = list(islice((view.table.names[row] for row in rows if eviction_helps(view, pod, [row])), _NAMED))
    return f"let kube-scheduler preempt: it may evict pods of lower priority on {any_of(names)}" if names else ""


def _lowest_priority(view: Snapshot) -> int | None:
    return min((pod.priority for group in view.pods for pod in group), default=None)


def scarce_in_all(view: Snapshot, amounts: Iterable[tuple[str, int]], rows: BoolVector) -> str:
    """Return words about what these rows have too little of all together, "" when they have enough of each.

    Moves between them change nothing about that.
    """
    for resource, amount in amounts:
        at = view.table.axis.index.get(resource)
        free = 0 if at is None else total(view.free[at][rows])
        if free < amount:
            return f"all nodes together have {_amount(resource, max(0, free))} free"
    return ""


def _lacking(view: Snapshot, pod: PodInfo, row: int) -> dict[str, int]:
    free = {name: int(view.free[at, row]) for name, at in view.table.axis.index.items()}
    return {name: amount - free.get(name, 0) for name, amount in _wanted(pod) if amount > free.get(name, 0)}


def _wanted(pod: PodInfo) -> Iterator[tuple[str, int]]:
    """Yield what the pod needs, GPUs first, its own place among the pods last."""
    first = pod.gpu.resource
    yield from sorted(pod.requests.items(), key=lambda item: (item[0] != first, item[0]))
    yield PODS, 1


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount / 1000:.12g} cpu"
    if resource in {MEMORY, EPHEMERAL}:
        return f"{-(-amount // _MIB) / 1024:.4g} GiB {resource}"
    return f"{amount} {resource}"


# ---------------------------------------------------------------- never


def _for_never(view: Snapshot, pod: PodInfo, hints: SelectorHints) -> str:
    """Say what is too large for the nodes the pod may use; if it may use none, what keeps it off those large enough."""
    if not len(view):
        return "the input has no nodes; `kubectl get nodes,pods -A -o json` prints nodes and pods"
    static = static_verdicts(view.table, pod.constraints, pod.gpu)
    large = np.ones(len(view), dtype=np.bool_)
    for resource, amount in _wanted(pod):
        large &= view.table.allocatable[view.table.axis.index[resource]] >= amount if _named(view, resource) else False
    words = _too_large(view, pod, ~static.never)
    if words is None and large.any():
        words = what_keeps_it_off(view, pod, large)
    hinted = (*(hints.of(pod) or hints.unmet(pod)), *unknown_wishes(pod, view.table))
    return "; ".join((words or _too_large_anywhere(view, pod), *hinted))


def _named(view: Snapshot, resource: str) -> bool:
    return resource in view.table.axis.index


def _too_large(view: Snapshot, pod: PodInfo, rows: BoolVector) -> str | None:
    """Return words about the first resource of which no row has enough but some row has some; None without one."""
    for resource, amount in _wanted(pod):
        have = view.allocatable_of(resource)
        most = int(have[rows].max(initial=0))
        if 0 < most < amount:
            largest = int(np.flatnonzero(rows & (have == most))[0])
            cure = f"split it into pods of at most {most}" if resource == pod.gpu.resource else "ask for less"
            return (
                f"the largest node it may use has {_amount(resource, most)} ({view.table.names[largest]}), a request "
                f"for {_amount(resource, amount)} can never fit: {cure}{_withdrawn(view, resource, amount, rows, have)}"
            )
    return None


def _withdrawn(view: Snapshot, resource: str, amount: int, rows: BoolVector, have: IntVector) -> str:
    """Return words about a node that was built large enough, "" if there is none."""
    for row in np.flatnonzero(rows):
        node = view.table.nodes[row]
        if node.capacity.get(resource, 0) >= amount:
            gone = node.capacity[resource] - int(have[row])
            return f", or repair {node.name}, where {gone} of {node.capacity[resource]} are withdrawn"
    return ""


def _too_large_anywhere(view: Snapshot, pod: PodInfo) -> str:
    everywhere = np.ones(len(view), dtype=np.bool_)
    if (words := _too_large(view, pod, everywhere)) is not None:
        return words
    missing = [resource for resource, _ in _wanted(pod) if not view.allocatable_of(resource).any()]
    if missing:
        return f"no node has any {missing[0]} to allocate"
    return "no single node has all it asks for"
