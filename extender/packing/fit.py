"""Filter: which nodes can run a pod, and for every other node why not.

Agrees with kube-scheduler's filters NodeUnschedulable, NodeName (as ``matchFields``), TaintToleration, NodeAffinity and
NodeResourcesFit, in that order, and adds one rule of ours: the GPU wishes of the pod's annotations. A node of which a
label is not known yet is refused for that only if it is large enough when empty. Not modelled, and said so by what
depends on it: affinity between pods, topology spread, volumes, host ports, resource claims.

Every node falls into one of three: it *fits*; it is *busy* (would fit if pods left); *never* (no departure helps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from extender.packing.gpu import GpuModel, GpuRequest, Match
from extender.packing.labels import Labels
from extender.packing.occupancy import held_by
from extender.packing.resources import PODS, minus
from extender.packing.selectors import UNSCHEDULABLE_TAINT, NodeConstraints, TolerationSet
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, Codes, IntMatrix, IntVector, NodeTable, Rows, frozen
from extender.packing.types import PodInfo

# kube-scheduler's wording: plugins/{nodeunschedulable,tainttoleration,nodeaffinity}, noderesources/fit.go.
UNSCHEDULABLE: Final = "node(s) were unschedulable"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS: Final = "Too many pods"
UNKNOWN_NODE: Final = "node is not known yet"

_MAX_LISTED_TYPES = 4
_MAX_LISTED_RESOURCES = 20
_LAST_BIT = 62
MAX_REASON: Final = 500
"""The longest reason, in characters: two of the longest names that the API server lets through, and a sentence."""


class Cause(IntEnum):
    """Why a node was rejected, in the order the filters run; metrics use the names in lower case."""

    NONE = 0
    UNSCHEDULABLE = 1
    TAINT = 2
    AFFINITY = 3
    GPU_MODEL = 4
    RESOURCES = 5
    UNKNOWN_NODE = 6
    HELD = 7


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence for a group of nodes; ``resolvable`` when a departure of pods (or time) could help."""

    cause: Cause
    text: str
    resolvable: bool


FITS: Final = Reason(Cause.NONE, "", resolvable=True)
NOT_KNOWN: Final = Reason(Cause.UNKNOWN_NODE, UNKNOWN_NODE, resolvable=True)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The answer for every row of a table: ``reasons[codes[row]]``; code 0 is FITS."""

    codes: Codes
    reasons: tuple[Reason, ...]

    @property
    def fits(self) -> BoolVector:
        """Return the rows that fit."""
        mask: BoolVector = self.codes == 0
        return mask

    @property
    def never(self) -> BoolVector:
        """Return the rows no departure of pods can help."""
        return np.array([not r.resolvable for r in self.reasons], dtype=np.bool_)[self.codes]

    def reason(self, row: int) -> Reason:
        """Return the reason of one row."""
        return self.reasons[int(self.codes[row])]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the value takes."""
        return self.codes.nbytes + sum(len(reason.text) for reason in self.reasons)


class _Ledger:
    """Collects reasons row by row; a row keeps its first, but one that no departure helps outdoes one that some may."""

    def __init__(self, size: int) -> None:
        self.codes = np.zeros(size, dtype=np.int32)
        self.reasons: list[Reason] = [FITS]
        self._final = np.zeros(size, dtype=np.bool_)

    @classmethod
    def of(cls, verdicts: Verdicts) -> _Ledger:
        """Return a ledger that goes on where these end."""
        ledger = cls(0)
        ledger.codes, ledger.reasons, ledger._final = verdicts.codes.copy(), [*verdicts.reasons], verdicts.never
        return ledger

    def reject(self, mask: BoolVector, reason: Reason) -> None:
        fresh = mask & (self.codes == 0 if reason.resolvable else ~self._final)
        if fresh.any():
            if not reason.resolvable:
                self._final |= fresh
            self.codes[fresh] = len(self.reasons)
            # Every node of the group repeats the text, and the names in it are the users' choice.
            self.reasons.append(replace(reason, text=shortened(reason.text)))

    def verdicts(self) -> Verdicts:
        return Verdicts(frozen(self.codes), tuple(self.reasons))


def shortened(text: str) -> str:
    """Return a text of at most MAX_REASON characters."""
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}..."


def filter_nodes(snapshot: Snapshot, pod: PodInfo) -> Verdicts:
    """Judge every node of the snapshot for a pod.

    Pods nominated to a node with at least this pod's priority hold their room there, as in kube-scheduler's
    ``RunFilterPluginsWithNominatedPods``.
    """
    static = static_verdicts(snapshot.table, pod.constraints, pod.gpu)
    ledger = _Ledger.of(static)
    for mask, reason in _resource_rejections(snapshot, pod):
        ledger.reject(mask, reason)
    return ledger.verdicts()


def fitting(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> BoolVector:
    """Tell which of some rows fit, as ``filter_nodes`` does; cheaper than that, as no reasons are asked for."""
    allowed: BoolVector = static_verdicts(snapshot.table, pod.constraints, pod.gpu).codes[rows] == 0
    return allowed & has_room(snapshot.table, _free_for(snapshot, pod), pod, rows)


def has_room(table: NodeTable, free: IntMatrix, pod: PodInfo, rows: Rows) -> BoolVector:
    """Tell on which of some rows the pod finds all it asks for in ``free``, int64 [resource, node]."""
    room = np.ones(len(rows), dtype=np.bool_)
    for name, amount in _wanted(pod):
        at = table.axis.index.get(name)
        if amount > 0:
            room &= np.False_ if at is None else free[at].take(rows) >= amount
    return room


def static_verdicts(table: NodeTable, constraints: NodeConstraints, gpu: GpuRequest) -> Verdicts:
    """Judge every node by what does not change as pods come and go; remembered per table while there is room."""
    return table.answers.recall(
        static_key(constraints, gpu),
        lambda: _static(table, constraints, gpu),
        lambda verdicts: verdicts.size_bytes + constraints.size_bytes,
    )


def static_key(constraints: NodeConstraints, gpu: GpuRequest) -> object:
    """Return what of a pod the static verdicts depend on."""
    if not gpu.wishful:
        return constraints, None
    return constraints, (gpu.resource, gpu.types, gpu.min_memory_mib, gpu.min_cuda, gpu.min_compute, gpu.unread)


def _static(table: NodeTable, constraints: NodeConstraints, gpu: GpuRequest) -> Verdicts:
    ledger, tolerated = _Ledger(len(table)), TolerationSet(constraints.tolerations)
    if gpu.unread:
        everywhere = np.ones(len(table), dtype=np.bool_)
        ledger.reject(everywhere, Reason(Cause.RESOURCES, gpu.unread, resolvable=False))
    if not tolerated.covers(UNSCHEDULABLE_TAINT):
        ledger.reject(table.unschedulable, Reason(Cause.UNSCHEDULABLE, UNSCHEDULABLE, resolvable=False))
    for mask, reason in _taint_rejections(table, tolerated):
        ledger.reject(mask, reason)
    ledger.reject(~Labels.of(table).selected(constraints), Reason(Cause.AFFINITY, AFFINITY, resolvable=False))
    if gpu.wishful:
        for mask, reason in _model_rejections(table, gpu):
            ledger.reject(mask, reason)
    return ledger.verdicts()


def _taint_rejections(table: NodeTable, tolerated: TolerationSet) -> Iterator[tuple[BoolVector, Reason]]:
    codes, taint_sets = table.taint_sets
    for code, taints in enumerate(taint_sets):
        if (taint := tolerated.uncovered(taints)) is not None:
            yield codes == code, Reason(Cause.TAINT, f"node(s) had untolerated taint {taint}", resolvable=False)


_MODEL_TEXT: Final[Mapping[Match, str]] = {
    Match.UNKNOWN: "GPU model of the node is not known yet",
    Match.UNKNOWN_MEMORY: "GPU memory of the node is not known yet",
    Match.UNKNOWN_CUDA: "CUDA level of the node is not known yet",
    Match.UNKNOWN_COMPUTE: "GPU compute capability of the node is not known yet",
}


def _model_rejections(table: NodeTable, gpu: GpuRequest) -> Iterator[tuple[BoolVector, Reason]]:
    column = table.models(gpu.resource)
    for code, model in enumerate(column.models):
        match gpu.match(model):
            case Match.YES:
                continue
            case Match.WRONG_MODEL:
                text = f"GPU model {model.label} is not one of {_listed(gpu)}"
                yield column.codes == code, Reason(Cause.GPU_MODEL, text, resolvable=False)
            case Match.TOO_LITTLE_MEMORY | Match.OLD_CUDA | Match.OLD_COMPUTE as level:
                text = _below(level, gpu, model)
                yield column.codes == code, Reason(Cause.GPU_MODEL, text, resolvable=False)
            case other:
                resolvable = other.unsure
                yield column.codes == code, Reason(Cause.GPU_MODEL, _MODEL_TEXT[other], resolvable=resolvable)


def _below(level: Match, gpu: GpuRequest, model: GpuModel) -> str:
    match level:
        case Match.TOO_LITTLE_MEMORY:
            # The tenth of a GiB below and above, so that the two differ.
            have, want = 10 * (model.memory_mib or 0) // 1024, -(-10 * (gpu.min_memory_mib or 0) // 1024)
            return f"GPU memory is below the pod's minimum ({have / 10:g}Gi of {want / 10:g}Gi)"
        case Match.OLD_CUDA:
            return f"CUDA level is below the pod's minimum ({_dotted(model.cuda)} of {_dotted(gpu.min_cuda)})"
        case _:
            levels = f"{_dotted(model.compute)} of {_dotted(gpu.min_compute)}"
            return f"GPU compute capability is below the pod's minimum ({levels})"


def _dotted(level: tuple[int, int] | None) -> str:
    return ".".join(map(str, level or ()))


def _listed(gpu: GpuRequest) -> str:
    names = [wish.name for wish in gpu.types]
    more = f" and {len(names) - _MAX_LISTED_TYPES} more" if len(names) > _MAX_LISTED_TYPES else ""
    return ", ".join(names[:_MAX_LISTED_TYPES]) + more


# ---------------------------------------------------------------- amounts


def _wanted(pod: PodInfo) -> tuple[tuple[str, int], ...]:
    """Return what NodeResourcesFit compares: the pod count always, all else only when more than zero is asked for."""
    return (PODS, 1), *pod.requests.items()


def _resource_rejections(snapshot: Snapshot, pod: PodInfo) -> Iterator[tuple[BoolVector, Reason]]:
    """Yield NodeResourcesFit's rejections, one per combination of scarce resources (noderesources/fit.go)."""
    free = _free_for(snapshot, pod)
    scarce: list[tuple[str, BoolVector]] = []
    hopeless = np.zeros(len(snapshot), dtype=np.bool_)
    for name, amount in sorted(_wanted(pod), key=lambda wanted: (wanted[0] != PODS, wanted[0])):
        short, never = _short(snapshot.table, free, name, amount)
        if short.any():
            scarce.append((name, short))
            hopeless |= never
    combination = _combinations([short for _, short in scarce], len(snapshot))
    for code in range(1, int(combination.max(initial=0)) + 1):
        mask = combination == code
        row = int(np.argmax(mask))
        text = _insufficient(name for name, short in scarce if short[row])
        yield mask & hopeless, Reason(Cause.RESOURCES, text, resolvable=False)
        yield mask & ~hopeless, Reason(Cause.RESOURCES, text, resolvable=True)


def _combinations(masks: Iterable[BoolVector], size: int) -> IntVector:
    """Return a code per row, counted from 1, that tells which of the masks hold there; 0 where none does."""
    found, bit = np.zeros(size, dtype=np.int64), 0
    for mask in masks:
        if bit == _LAST_BIT:
            found = _renumbered(found)
            bit = int(found.max(initial=0)).bit_length()
        found |= mask.astype(np.int64) << bit
        bit += 1
    return _renumbered(found)


def _renumbered(codes: IntVector) -> IntVector:
    """Return codes without gaps in the same order; 0 stays 0."""
    _, dense = np.unique(np.append(0, codes), return_inverse=True)
    return dense[1:].astype(np.int64)


def _short(table: NodeTable, free: IntMatrix, resource: str, amount: int) -> tuple[BoolVector, BoolVector]:
    """Return (rows that lack the amount now, rows that lack it even when empty) for one resource."""
    at = table.axis.index.get(resource)
    if amount <= 0 or at is None:
        lacking = np.full(len(table), fill_value=amount > 0, dtype=np.bool_)
        return lacking, lacking
    return amount > free[at], amount > table.allocatable[at]


def _free_for(snapshot: Snapshot, pod: PodInfo) -> IntMatrix:
    """Return int64 [resource, node]: what is free, less what nominated pods of at least the pod's priority hold."""
    if not snapshot.nominated:
        return snapshot.free
    reserved = np.zeros_like(snapshot.free)
    for row, group in snapshot.nominated.items():
        rivals = [p for p in group if p.priority >= pod.priority and p.uid != pod.uid]
        reserved[:, row] = held_by(snapshot.table, rivals)
    return minus(snapshot.free, reserved)


def _insufficient(resources: Iterable[str]) -> str:
    texts = [TOO_MANY_PODS if resource == PODS else f"Insufficient {resource}" for resource in resources]
    more = f" and {len(texts) - _MAX_LISTED_RESOURCES} more" if len(texts) > _MAX_LISTED_RESOURCES else ""
    return ", ".join(texts[:_MAX_LISTED_RESOURCES]) + more
