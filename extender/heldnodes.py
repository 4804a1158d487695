"""Holds in a simulation: the rule of `packing.holds`, by a clock that the simulation sets.

In the service the cache renews holds whenever the cluster changes; here whoever lets time pass does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.packing.framework import Rows
from extender.packing.holds import HoldRules, Holds
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass
class HeldNodes:
    """Which nodes are promised at the moment. Nothing is until `renew` has been told a time."""

    rules: HoldRules = field(default_factory=HoldRules)
    holds: Holds = field(default_factory=Holds)

    def renew(self, snapshot: Snapshot, now: float) -> None:
        """Note that the cluster has changed, or that time has passed; `now` in simulated seconds."""
        self.holds = self.holds.renewed(snapshot, now, self.rules)

    def free_to_take(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
        """Return the rows on which the pod breaks no promise."""
        return rows[~self.holds.blocked(snapshot, pod, rows)] if self.holds.lines else rows
