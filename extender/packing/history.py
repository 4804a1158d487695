"""What only history tells: it cannot be read off the nodes and pods that are there, so each Snapshot passes it on.

Made from nothing, as after a start, it takes the pods that are there for all that has ever happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from extender.packing.arrivals import Arrivals
from extender.packing.guidance import Guidance
from extender.packing.mix import DemandMix, Turnover
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class History:
    """What a Snapshot has from the one before.

    Attributes:
        turnover: how much of late has started and ended.
        arrivals: what has come of late; None while no node has whole GPUs, which are its measure of time.
        guidance: what a planner has worked out of an earlier state; None without a planner.
    """

    turnover: Turnover = field(default_factory=Turnover)
    arrivals: Arrivals | None = None
    guidance: Guidance | None = None

    @classmethod
    def of(cls, running: Iterable[PodInfo], everyone: Iterable[PodInfo], cluster_gpus: int, mix: DemandMix) -> History:
        """Return what pods tell of which nothing else is known; `everyone` are those that run and those that wait."""
        arrivals = Arrivals.of(everyone, cluster_gpus, mix) if cluster_gpus else None
        return cls(Turnover.of(running), arrivals)

    def moved(
        self,
        gone: Iterable[PodInfo],
        come: Iterable[PodInfo],
        everyone: Iterable[PodInfo],
        cluster_gpus: int,
        mix: DemandMix,
    ) -> History:
        """Return the history after pods have changed; `everyone`, `cluster_gpus` and `mix` are those afterwards."""
        turnover = self.turnover.moved(gone, come, cluster_gpus)
        if not cluster_gpus:
            return replace(self, turnover=turnover, arrivals=None)
        if self.arrivals is None:
            return replace(self, turnover=turnover, arrivals=Arrivals.of(everyone, cluster_gpus, mix))
        return replace(self, turnover=turnover, arrivals=self.arrivals.moved(gone, come, cluster_gpus, mix))
