"""``least-allocated``: spread. What kube-scheduler does by default, and what breaks whole nodes up."""

from __future__ import annotations

from dataclasses import dataclass

from extender.packing.framework import Rows, Utilities
from extender.packing.policies.allocation import mean_percent
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class LeastAllocated:
    """The mean over cpu and memory of floor(100 (allocatable - used - asked) / allocatable), rounded down.

    Utility: whole percent free, 0..100. Source: NodeResourcesFit with its default strategy (``allocation.py``).
    """

    name: str = "least-allocated"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the mean percentage of cpu and memory that stays free."""
        return mean_percent(snapshot, pod, rows, (CPU, MEMORY), free=True)
