"""Filter: which nodes can run a pod, and for every other node why not.

Agrees with kube-scheduler's filters NodeUnschedulable, NodeName (as ``matchFields``), TaintToleration, NodeAffinity and
NodeResourcesFit, in that order, and adds one rule of ours: the GPU wishes of the pod's annotations. Not modelled, and
said so by what depends on it: affinity between pods, topology spread, volumes, host ports, resource claims.

Every node falls into one of three: it *fits*; it is *busy* (would fit if pods left); *never* (no departure helps).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from extender.packing.gpu import GpuRequest, Match
from extender.packing.resources import PODS
from extender.packing.selectors import UNSCHEDULABLE_TAINT, NodeConstraints, Term
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, Codes, IntVector, NodeTable, frozen
from extender.packing.types import PodInfo

# kube-scheduler's wording: plugins/{nodeunschedulable,tainttoleration,nodeaffinity}, noderesources/fit.go.
UNSCHEDULABLE: Final = "node(s) were unschedulable"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS: Final = "Too many pods"
UNKNOWN_NODE: Final = "node is not known yet"

_MAX_LISTED_TYPES = 4


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


class _Ledger:
    """Collects reasons row by row; the first reason a row gets is the one it keeps."""

    def __init__(self, size: int) -> None:
        self.codes = np.zeros(size, dtype=np.int32)
        self.reasons: list[Reason] = [FITS]

    def reject(self, mask: BoolVector, reason: Reason) -> None:
        fresh = mask & (self.codes == 0)
        if fresh.any():
            self.codes[fresh] = len(self.reasons)
            self.reasons.append(reason)

    def verdicts(self) -> Verdicts:
        return Verdicts(frozen(self.codes), tuple(self.reasons))


def filter_nodes(snapshot: Snapshot, pod: PodInfo) -> Verdicts:
    """Judge every node of the snapshot for a pod.

    Pods nominated to a node with at least this pod's priority hold their room there, as in kube-scheduler's
    ``RunFilterPluginsWithNominatedPods``.
    """
    static = static_verdicts(snapshot.table, pod.constraints, pod.gpu)
    ledger = _Ledger(len(snapshot))
    ledger.codes[:] = static.codes
    ledger.reasons[:] = static.reasons
    for mask, reason in _resource_rejections(snapshot, pod):
        ledger.reject(mask, reason)
    return ledger.verdicts()


def static_verdicts(table: NodeTable, constraints: NodeConstraints, gpu: GpuRequest) -> Verdicts:
    """Judge every node by what does not change as pods come and go; remembered per table."""
    return table.remember("static", (constraints, _wishes(gpu)), lambda: _static(table, constraints, gpu))


def _wishes(gpu: GpuRequest) -> object:
    return (gpu.resource, gpu.types, gpu.min_memory_mib, gpu.min_cuda, gpu.min_compute) if gpu.wishful else None


def _static(table: NodeTable, constraints: NodeConstraints, gpu: GpuRequest) -> Verdicts:
    ledger = _Ledger(len(table))
    if not constraints.tolerates(UNSCHEDULABLE_TAINT):
        ledger.reject(table.unschedulable, Reason(Cause.UNSCHEDULABLE, UNSCHEDULABLE, resolvable=False))
    for mask, reason in _taint_rejections(table, constraints):
        ledger.reject(mask, reason)
    ledger.reject(~_selected(table, constraints), Reason(Cause.AFFINITY, AFFINITY, resolvable=False))
    if gpu.wishful:
        for mask, reason in _model_rejections(table, gpu):
            ledger.reject(mask, reason)
    return ledger.verdicts()


def _taint_rejections(table: NodeTable, constraints: NodeConstraints) -> Iterator[tuple[BoolVector, Reason]]:
    codes, taint_sets = table.taint_sets
    for code, taints in enumerate(taint_sets):
        if (taint := constraints.untolerated(taints)) is not None:
            yield codes == code, Reason(Cause.TAINT, f"node(s) had untolerated taint {taint}", resolvable=False)


def _selected(table: NodeTable, constraints: NodeConstraints) -> BoolVector:
    mask = np.ones(len(table), dtype=np.bool_)
    for key, value in constraints.selector:
        mask &= table.label(key).select(lambda have, want=value: have == want)  # type: ignore[misc]
    if constraints.affinity is not None:
        mask &= _any_term(table, constraints.affinity)
    return mask


def _any_term(table: NodeTable, terms: tuple[Term, ...]) -> BoolVector:
    mask = np.zeros(len(table), dtype=np.bool_)
    for term in terms:
        mask |= term_mask(table, term)
    return mask


def term_mask(table: NodeTable, term: Term) -> BoolVector:
    """Return the rows that satisfy a node selector term."""
    mask = np.full(len(table), fill_value=term.satisfiable, dtype=np.bool_)
    if term.satisfiable:
        for requirement in term.expressions:
            mask &= table.select(requirement)
        for requirement in term.fields:
            mask &= table.name_column.select(requirement.matches)
    return mask


_MODEL_TEXT: Final[Mapping[Match, str]] = {
    Match.TOO_LITTLE_MEMORY: "GPU memory is below the pod's minimum",
    Match.OLD_CUDA: "CUDA level is below the pod's minimum",
    Match.OLD_COMPUTE: "GPU compute capability is below the pod's minimum",
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
            case other:
                resolvable = other.unsure
                yield column.codes == code, Reason(Cause.GPU_MODEL, _MODEL_TEXT[other], resolvable=resolvable)


def _listed(gpu: GpuRequest) -> str:
    names = [wish.name for wish in gpu.types]
    more = f" and {len(names) - _MAX_LISTED_TYPES} more" if len(names) > _MAX_LISTED_TYPES else ""
    return ", ".join(names[:_MAX_LISTED_TYPES]) + more


def _resource_rejections(snapshot: Snapshot, pod: PodInfo) -> Iterator[tuple[BoolVector, Reason]]:
    """Yield NodeResourcesFit's rejections, one per combination of scarce resources.

    fit.go compares the pod count always, and every other resource only when the pod asks for more than zero of it.
    """
    wanted = (((PODS, 1)), *sorted(pod.requests.items()))
    scarce = np.zeros(len(snapshot), dtype=np.int64)
    hopeless = np.zeros(len(snapshot), dtype=np.bool_)
    for bit, (name, amount) in enumerate(wanted):
        have = snapshot.table.axis.index.get(name)
        short, never = _short(snapshot, pod, have, amount)
        scarce |= short.astype(np.int64) << min(bit, 62)
        hopeless |= never
    for combination in np.unique(scarce[scarce > 0]):
        text = ", ".join(_insufficient(n) for bit, (n, _) in enumerate(wanted) if combination >> min(bit, 62) & 1)
        mask = scarce == combination
        yield mask & hopeless, Reason(Cause.RESOURCES, text, resolvable=False)
        yield mask & ~hopeless, Reason(Cause.RESOURCES, text, resolvable=True)


def _short(snapshot: Snapshot, pod: PodInfo, at: int | None, amount: int) -> tuple[BoolVector, BoolVector]:
    """Return (rows that lack the amount now, rows that lack it even when empty) for one resource."""
    if amount <= 0 or at is None:
        lacking = np.full(len(snapshot), fill_value=amount > 0, dtype=np.bool_)
        return lacking, lacking
    free = snapshot.free[at]
    reserved = _reserved(snapshot, pod, snapshot.table.axis.names[at])
    return amount > (free if reserved is None else free - reserved), amount > snapshot.table.allocatable[at]


def _reserved(snapshot: Snapshot, pod: PodInfo, resource: str) -> IntVector | None:
    """Return what nominated pods of at least this priority hold per row; None when there are none."""
    if not snapshot.nominated:
        return None
    held = np.zeros(len(snapshot), dtype=np.int64)
    for row, group in snapshot.nominated.items():
        rivals = [p for p in group if p.priority >= pod.priority and p.uid != pod.uid]
        held[row] = sum(1 if resource == PODS else p.requests.get(resource, 0) for p in rivals)
    return held


def _insufficient(resource: str) -> str:
    return TOO_MANY_PODS if resource == PODS else f"Insufficient {resource}"
