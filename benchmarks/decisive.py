"""Simulated schedulers for which the extender's weight decides, so that in-tree scores need not be formed."""

from __future__ import annotations

from dataclasses import dataclass

from extender.packing.framework import Rows, best_row
from extender.packing.types import PodInfo
from extender.replanning import Replanning
from extender.simulate import KubeScheduler, PolicyExtender


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
class DecisiveReplanning(DecisiveScheduler, Replanning):
    """The same with a planner beside it."""
