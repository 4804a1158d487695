"""``planned``: the default; the cost of hole-aware, and where a planner has worked something out ahead, that too.

    cost = cost of hole-aware + quota + cpu_quota + cpu_match        (the latter three while the cluster fills)

The node that the joint plan gives to a pod comes before all others.

Without guidance, or with guidance about other nodes, it is hole-aware bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.guidance import CPU_CLASSES, Columns, Floats, Quotas, column_of
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.policies.hole_aware import Candidates, HoleAware, cpu_ratio
from extender.packing.snapshot import Snapshot
from extender.packing.table import Codes
from extender.packing.types import PodInfo

# More than all terms together for any pod: 10^6 is the most that a rung of a ladder costs per GPU.
_PLANNED_NODE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Planned:
    """Utility: minus the cost, in GPUs; for a pod without GPUs the rank of hole-aware.

    Attributes:
        base: what scores without a planner.
        quota: weight of the quota of kinds: which model, which size of node.
        cpu_quota: weight of the quota of columns: which nodes of the kind by their free CPU. Little, because with room
            to spare it would open whole nodes where started ones do.
        cpu_match: weight of the term ``cpu_ratio`` on top of the base's: what quotas leave open goes by CPU.
        filling: the quotas count while so small a share of what has started of late has ended. Under departures they
            break up whole nodes.
    """

    name: str = "planned"
    base: HoleAware = field(default_factory=HoleAware)
    quota: float = 3.0
    cpu_quota: float = 0.5
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
        kinds = NodeKinds.of(question.snapshot.table, question.pod.gpu.resource)
        wanted = quotas.wanted_by(PodClass.of(question.pod), kinds)
        if wanted is None:
            return np.zeros(len(question.rows))
        of_row = kinds.of_row[question.rows]
        by_kind = quota(question, wanted.reshape(-1, CPU_CLASSES).sum(axis=1), of_row)
        by_column = quota(question, wanted, column_of(of_row, question.gpus, question.cpu_milli))
        return self.quota * by_kind + self.cpu_quota * by_column + self.cpu_match * cpu_ratio(question)


def quota(question: Candidates, wanted: Floats, place: Columns | Codes) -> Utilities:
    """Return n (1 - q/max q): q is what the quotas give the pod's group in the node's place, max q in its best one.

    A place is a kind of nodes or a column of them; negative, without whole GPUs, it gets nothing.
    """
    share = np.concatenate((wanted / wanted.max(), [0.0]))
    cost: Utilities = question.count * (1.0 - share[np.maximum(place, -1)])
    return cost
