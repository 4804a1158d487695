"""``planned``: the cost of hole-aware, and where a planner has worked something out ahead, that too.

    cost = cost of hole-aware + quota + cpu_match        (the latter two while the cluster fills)

The node that the joint plan gives to a pod comes before all others.

Without guidance, or with guidance about other nodes, it is hole-aware bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.guidance import Quotas, column_of
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.policies.hole_aware import Candidates, HoleAware, cpu_ratio
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

# More than all terms together for any pod: 10^6 is the most that a rung of a ladder costs per GPU.
_PLANNED_NODE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Planned:
    """Utility: minus the cost, in GPUs; for a pod without GPUs the rank of hole-aware.

    Attributes:
        base: what scores without a planner.
        quota: weight of the quota term.
        cpu_match: weight of the term ``cpu_ratio`` on top of the base's: what quotas leave open goes by CPU.
        filling: the quotas count while so small a share of what has started of late has ended. Under departures they
            break up whole nodes.
    """

    name: str = "planned"
    base: HoleAware = field(default_factory=HoleAware)
    quota: float = 3.0
    cpu_match: float = 0.9
    filling: float = 0.5

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return minus the cost, in GPUs."""
        guidance = snapshot.guidance
        if guidance is None:
            return self.base.score(snapshot, pod, rows)
        quotas = guidance.quotas.get(pod.gpu.resource)
        if quotas is not None and pod.gpu.whole and self.follows_quotas(snapshot):
            question = Candidates.of(snapshot, pod, rows)
            utilities = question.by_row(self.base.utilities(question) - self._guided(quotas, question))
        else:
            utilities = self.base.score(snapshot, pod, rows)
        row = snapshot.table.index.get(guidance.nodes.get(pod.uid, ""))
        return utilities if row is None else utilities + _PLANNED_NODE * (rows == row)

    def follows_quotas(self, snapshot: Snapshot) -> bool:
        """Tell whether the cluster fills; else solving them is a waste."""
        return snapshot.turnover.ended_share < self.filling

    def _guided(self, quotas: Quotas, question: Candidates) -> Utilities:
        """Return the cost of leaving the quotas; 0 for pods they do not speak of."""
        cost = quota(quotas, question)
        if cost is None:
            return np.zeros(len(question.rows))
        return self.quota * cost + self.cpu_match * cpu_ratio(question)


def quota(quotas: Quotas, question: Candidates) -> Utilities | None:
    """Return n (1 - q/max q): q is what the quotas give the pod's group in the node's column, max q in its best one.

    None where they give the pod nothing: they are of other nodes, or were solved before its like was seen.
    """
    kinds = NodeKinds.of(question.snapshot.table, question.pod.gpu.resource)
    group = quotas.groups.get(PodClass.of(question.pod)) if quotas.speak_of(kinds) else None
    most = 0.0 if group is None else float(quotas.wanted[group].max(initial=0.0))
    if group is None or most <= 0.0:
        return None
    of_row = kinds.of_row[question.rows]
    # Kind -1, no whole GPUs, reads the last entry.
    column = np.where(of_row < 0, -1, column_of(of_row, question.gpus, question.cpu_milli))
    cost: Utilities = question.count * (1.0 - np.append(quotas.wanted[group] / most, 0.0)[column])
    return cost
