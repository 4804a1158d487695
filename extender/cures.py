"""Which change would let a pod onto a node that is large enough for it, when what keeps it off is no amount. Pure.

A cure is named only if it works: a node is judged anew as if the cause were gone, and then it takes the pod. Where no
single one works, the fewest that do together are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np

from extender.packing.fit import Cause, filter_nodes, static_verdicts
from extender.packing.gpu import GpuRequest
from extender.packing.selectors import UNSCHEDULABLE_KEY, UNSCHEDULABLE_TAINT, Toleration, TolerationSet
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector
from extender.packing.types import PodInfo

_LISTED: Final = 3
_WORDS: Final[Mapping[Cause, str]] = {
    Cause.UNSCHEDULABLE: "uncordon one",
    Cause.TAINT: "add the toleration, or remove the taint",
    Cause.AFFINITY: "change its node selector or affinity, or label the nodes",
    Cause.GPU_MODEL: "widen its GPU annotations",
}


def to_uncordon(view: Snapshot, pod: PodInfo) -> list[str]:
    """Return the cordoned nodes that would take the pod now if they were uncordoned, by name."""
    if _bears_cordons(pod) or not view.table.unschedulable.any():
        return []
    taken = filter_nodes(view, _tolerating(pod, UNSCHEDULABLE_KEY)).fits & view.table.unschedulable
    return [view.table.names[row] for row in np.flatnonzero(taken).tolist()]


def uncordoning(view: Snapshot, pod: PodInfo) -> str:
    """Return words about the nodes that need no more than to be uncordoned, "" without any."""
    names = to_uncordon(view, pod)
    return f"uncordon {any_of(names)}, which would take it now" if names else ""


def any_of(names: Sequence[str]) -> str:
    """Return words for any one of some names, of which there is one at least."""
    if len(names) > 2:  # noqa: PLR2004 - more than can be named
        return f"{names[0]}, {names[1]} or another"
    return " or ".join(names)


def what_keeps_it_off(view: Snapshot, pod: PodInfo, large: BoolVector) -> str:
    """Return what keeps a pod off these rows, none of which takes it, and what would help."""
    static = static_verdicts(view.table, pod.constraints, pod.gpu)
    # By their words: nodes with other taints beside the one that is not tolerated have a reason of their own.
    reasons = Counter(static.reasons[code].text for code in static.codes[large].tolist())
    listed = ", ".join(f"{count} x {text}" for text, count in reasons.most_common(_LISTED))
    count = int(large.sum())
    return f"of the {count} nodes that are large enough: {listed}: {_cures(view, pod, large)}"


def _cures(view: Snapshot, pod: PodInfo, large: BoolVector) -> str:
    for size in range(1, len(_WORDS) + 1):
        if found := [some for some in combinations(_WORDS, size) if _help(view, pod, some, large)]:
            return " or ".join(" and ".join(_WORDS[cause] for cause in some) for some in found)
    return "no change of the pod or of one node helps"


def _help(view: Snapshot, pod: PodInfo, causes: Collection[Cause], rows: BoolVector) -> bool:
    """Tell whether one of the rows would take the pod if none of these causes kept it off."""
    cured = pod
    for cause in causes:
        cured = _WITHOUT[cause](cured)
    fits = static_verdicts(view.table, cured.constraints, cured.gpu).fits & rows
    if Cause.TAINT in causes and not {Cause.UNSCHEDULABLE} & {*causes} and not _bears_cordons(pod):
        fits = fits & ~view.table.unschedulable  # tolerating every taint is tolerating this one
    return bool(np.any(fits))


def _bears_cordons(pod: PodInfo) -> bool:
    return TolerationSet(pod.constraints.tolerations).covers(UNSCHEDULABLE_TAINT)


def _tolerating(pod: PodInfo, key: str) -> PodInfo:
    tolerations = (*pod.constraints.tolerations, Toleration(key, exists=True))
    return replace(pod, constraints=replace(pod.constraints, tolerations=tolerations))


def _anywhere(pod: PodInfo) -> PodInfo:
    return replace(pod, constraints=replace(pod.constraints, selector=(), affinity=None))


def _wishless(pod: PodInfo) -> PodInfo:
    gpu = GpuRequest(pod.gpu.resource, pod.gpu.count, pod.gpu.whole, pod.gpu.others)
    return replace(pod, gpu=gpu)


_WITHOUT: Final[Mapping[Cause, Callable[[PodInfo], PodInfo]]] = {
    Cause.UNSCHEDULABLE: lambda pod: _tolerating(pod, UNSCHEDULABLE_KEY),
    Cause.TAINT: lambda pod: _tolerating(pod, ""),
    Cause.AFFINITY: _anywhere,
    Cause.GPU_MODEL: _wishless,
}
