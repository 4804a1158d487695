"""The simulated scheduler with a planner beside it: quotas are solved anew as the state moves, as the service does."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.packing import quota_problem, quotas
from extender.packing.framework import Rows, best_row
from extender.packing.guidance import Guidance
from extender.packing.kinds import NodeKinds
from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement, PolicyExtender


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
class DecisiveScheduler(KubeScheduler):
    """A scheduler whose extender's weight decides: one step of its score outweighs all in-tree scores together.

    The node with the 10 wins then, whatever the neighbours say, so the sum is not formed. The choice is that of
    ``KubeScheduler`` (``tests/test_benchmarks.py``), in half the time.
    """

    def _choose(self, pod: PodInfo, rows: Rows) -> int:
        assert isinstance(self.extender, PolicyExtender)
        return best_row(self.extender.policy, self.snapshot, pod, rows)


@dataclass
class RandomTies(KubeScheduler):
    """A scheduler that takes the policy's utility itself, ties at random: what the literature calls stock ties."""

    def _choose(self, pod: PodInfo, rows: Rows) -> int:
        assert isinstance(self.extender, PolicyExtender)
        utilities = self.extender.policy.score(self.snapshot, pod, rows)
        return int(self._random.choice(rows[utilities == utilities.max()]))


@dataclass
class Replanning(DecisiveScheduler):
    """Plans anew after so many placements, while the policy follows quotas."""

    every: int = 10
    _since: int = field(default=0)

    def schedule(self, pod: PodInfo) -> Placement:
        """Run one scheduling cycle; plan anew when it is time."""
        assert isinstance(self.extender, PolicyExtender)
        policy = self.extender.policy
        if self._since >= self.every and isinstance(policy, Planned) and policy.follows_quotas(self.snapshot):
            self.snapshot = self.snapshot.with_guidance(guidance_of(self.snapshot))
            self._since = 0
        placement = super().schedule(pod)
        self._since += placement.node is not None
        return placement
