"""The simulated scheduler with a planner beside it: quotas are solved anew as the state moves, as the service does."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.packing import quota_problem, quotas
from extender.packing.guidance import Guidance
from extender.packing.kinds import NodeKinds
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement


def guidance_of(snapshot: Snapshot) -> Guidance:
    """Solve the quotas of every whole GPU resource."""
    found = {}
    for resource in snapshot.table.whole_gpu_resources:
        problem, groups = quota_problem.pose(snapshot, resource)
        wanted = quotas.solve(problem)
        if wanted is not None:
            kinds = NodeKinds.of(snapshot.table, resource)
            found[resource] = quota_problem.quotas_of(kinds, groups, wanted)
    return Guidance(found)


@dataclass
class Replanning(KubeScheduler):
    """Plans anew after so many placements."""

    every: int = 50
    solves: int = 0
    _since: int = field(default=0)

    def schedule(self, pod: PodInfo) -> Placement:
        """Run one scheduling cycle; plan anew when it is time."""
        if self._since >= self.every:
            self.snapshot = self.snapshot.with_guidance(guidance_of(self.snapshot))
            self.solves += 1
            self._since = 0
        placement = super().schedule(pod)
        self._since += placement.node is not None
        return placement
