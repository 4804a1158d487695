"""``planned``: the default; the cost of hole-aware, and where a planner has worked something out ahead, that too.

    cost = cost of hole-aware + n (quota x missed kind + cpu_quota x missed column) + cpu_match x cpu_ratio

The latter two only while the cluster fills, for a pod of n GPUs. Where started nodes of its kind have room for the pod,
an untouched one misses as much by its column as the best of them: quotas are for demand as large as all that is free,
and with room to spare they would open whole nodes where started ones do.

The node that the joint plan gives to a pod comes before all others, whatever it costs.

Without guidance, or with guidance about other nodes, it is hole-aware bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from extender.packing.alike import AlikeRows
from extender.packing.framework import Rows, Utilities
from extender.packing.guidance import CPU_CLASSES, Floats, Quotas
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.policies.hole_aware import Candidates, HoleAware
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

# In place of the cost, not beside it: costs have no bound, a rung of a ladder counts 10^7 per GPU of the pod.
_PLANNED_NODE: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Planned:
    """Utility: minus the cost, in GPUs; for a pod without GPUs the rank of hole-aware.

    Attributes:
        base: what scores without a planner.
        quota: weight of the quota of kinds: which model, which size of node.
        cpu_quota: weight of the quota of columns: which nodes of the kind by their free CPU.
        cpu_match: weight of the term ``cpu_ratio`` on top of the base's: what quotas leave open goes by CPU.
        filling: the quotas count while so small a share of what has started of late has ended. Under departures they
            break up whole nodes.
    """

    name: str = "planned"
    base: HoleAware = field(default_factory=HoleAware)
    quota: float = 3.0
    cpu_quota: float = 1.0
    cpu_match: float = 0.9
    filling: float = 0.5
    # The base with ``cpu_match`` in it: made once, not once a score.
    _filling_base: HoleAware = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the base that scores while the cluster fills."""
        weights = self.base.weights
        raised = replace(weights, cpu_ratio=weights.cpu_ratio + self.cpu_match)
        object.__setattr__(self, "_filling_base", replace(self.base, weights=raised))

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return minus the cost, in GPUs."""
        guidance = snapshot.guidance
        if guidance is None:
            return self.base.score(snapshot, pod, rows)
        quotas = guidance.quotas.get(pod.gpu.resource)
        offered = pod.gpu.resource in snapshot.table.axis.index
        if quotas is not None and offered and pod.gpu.whole and self.follows_quotas(snapshot):
            utilities = self._guided(quotas, Candidates.of(snapshot, pod, rows))
        else:
            utilities = self.base.score(snapshot, pod, rows)
        row = snapshot.table.index.get(guidance.nodes.get(pod.uid, ""))
        return utilities if row is None else np.where(rows == row, _PLANNED_NODE, utilities)

    def follows_quotas(self, snapshot: Snapshot) -> bool:
        """Tell whether the cluster fills; else solving them is a waste."""
        return snapshot.history.turnover.ended_share < self.filling

    def _guided(self, quotas: Quotas, question: Candidates) -> Utilities:
        """Return the utilities by the quotas too; those of hole-aware for pods they do not speak of."""
        kinds = NodeKinds.of(question.snapshot.table, question.pod.gpu.resource)
        group = quotas.group_of(PodClass.of(question.pod), kinds)
        if group is None:
            return question.by_row(self.base.utilities(question))
        alike = AlikeRows.of(question.snapshot, question.pod.gpu.resource)
        by_kind, by_column = self.quota * quotas.missed_kind[group], quotas.missed_column[group]
        untouched = by_kind[:-1] + self.cpu_quota * _missed_untouched(by_column[:-1], question.pod, alike)
        by_place = np.concatenate((by_kind + self.cpu_quota * by_column, untouched))
        cost = question.count * by_place[alike.quota_places(None if question.place is not None else question.rows)]
        return question.by_row(self._filling_base.utilities(question) - cost)


def _missed_untouched(missed: Floats, pod: PodInfo, alike: AlikeRows) -> Floats:
    """Return float [column]: what an untouched node misses by its column, no less than the best started one with room.

    Of all open nodes of the kind, not of the candidates alone: what a node is worth does not depend on who else is
    asked about.
    """
    gpus, cpu_milli, memory_bytes = alike.most_started
    has_room = (gpus >= pod.gpu.count) & (cpu_milli >= pod.requests.get(CPU, 0))
    has_room &= memory_bytes >= pod.requests.get(MEMORY, 0)
    least = np.where(has_room, missed, np.inf).reshape(-1, CPU_CLASSES).min(axis=1, keepdims=True)
    least[least == np.inf] = 0.0
    untouched: Floats = np.maximum(missed.reshape(-1, CPU_CLASSES), least).ravel()
    return untouched
