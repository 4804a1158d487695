"""The simulated kube-scheduler with a planner beside it: quotas are solved anew as the state moves, as in the service.

In the process, between two cycles, so that the same arrivals give the same placements. The joint plan of a queue is
left out: arrivals come one after the other, and a queue that is planned as a whole is what the command `plan` is for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from extender.packing import solvers
from extender.packing.forecast import pose_quotas
from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement

EVERY: Final = 10
"""Placements between two solves: at kube-scheduler's pace what the service does in its shortest period."""


def with_quotas(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with quotas solved for its state."""
    posed = pose_quotas(snapshot)
    return snapshot.with_guidance(posed.guidance(solvers.solve_quotas(posed.question), snapshot))


@dataclass
class Replanning(KubeScheduler):
    """Plans anew after so many placements, while the policy follows quotas."""

    policy: Planned = field(default_factory=Planned)
    every: int = EVERY
    _since: int = field(default=0, init=False)

    def schedule(self, pod: PodInfo) -> Placement:
        """Run one scheduling cycle; plan anew when it is time."""
        if self._since >= self.every and self.policy.follows_quotas(self.snapshot):
            self.snapshot = with_quotas(self.snapshot)
            self._since = 0
        placement = super().schedule(pod)
        self._since += placement.node is not None
        return placement
