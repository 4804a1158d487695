"""``planned``: the cost of hole-aware, and where a planner has worked something out ahead, that too.

    cost = cost of hole-aware + quota        (while the cluster fills); the joint plan's node before all others

Without guidance, or with guidance about other nodes, it is hole-aware bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.guidance import Quotas
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.policies.hole_aware import HoleAware
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
        filling: the quotas count while so small a share of what has started of late has ended. Under departures they
            break up whole nodes.
    """

    name: str = "planned"
    base: HoleAware = field(default_factory=HoleAware)
    quota: float = 10.0
    filling: float = 0.5

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return minus the cost, in GPUs."""
        utilities = self.base.score(snapshot, pod, rows)
        guidance = snapshot.guidance
        if guidance is None:
            return utilities
        quotas = guidance.quotas.get(pod.gpu.resource)
        if quotas is not None and snapshot.turnover.ended_share < self.filling:
            utilities = utilities - self.quota * quota(snapshot, quotas, pod, rows)
        row = snapshot.table.index.get(guidance.nodes.get(pod.uid, ""))
        return utilities if row is None else utilities + _PLANNED_NODE * (rows == row)


def quota(snapshot: Snapshot, quotas: Quotas, pod: PodInfo, rows: Rows) -> Utilities:
    """Return n (1 - q/max q): q is what the quotas leave to the pod's group on the node's kind."""
    kinds = NodeKinds.of(snapshot.table, pod.gpu.resource)
    left = quotas.left(PodClass.of(pod)) if quotas.fits(kinds) else None
    most = 0.0 if left is None else float(left.max(initial=0.0))
    if left is None or most <= 0.0:
        return np.zeros(len(rows))
    # Kind -1, no whole GPUs, reads the last entry.
    cost: Utilities = pod.gpu.count * (1.0 - np.append(left / most, 0.0))[kinds.of_row[rows]]
    return cost
