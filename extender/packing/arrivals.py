"""What has come of late: classes of pods for whole GPUs, the newest counting most.

What runs is a poor forecast where it differs from what comes: long jobs pile up, last month's jobs are still there. So
a pod counts half as much as one that comes after so many GPUs more. Volume is the clock; there is no other here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.packing.mix import DemandMix, PodClass
from extender.packing.types import PodInfo

_HALF_LIFE_SHARE: Final = 0.25
# Weights grow instead of fading, so that a pod costs one addition; before they grow out of all bounds they are scaled.
_MOST_DOUBLINGS: Final = 64.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How much of each class has come.

    History, as the turnover is: made from nothing, it takes the pods that are there for all that have come.

    Attributes:
        weights: by class, in pods; those of today count ``2 ** doublings``.
        doublings: GPUs that have come, in half-lives.
    """

    weights: Mapping[PodClass, float] = field(default_factory=dict)
    doublings: float = 0.0

    @classmethod
    def of(cls, pods: Iterable[PodInfo], cluster_gpus: int, mix: DemandMix) -> Arrivals:
        """Return what pods tell of which nothing is known but when they were created."""
        return cls().moved((), pods, cluster_gpus, mix)

    def moved(self, gone: Iterable[PodInfo], come: Iterable[PodInfo], cluster_gpus: int, mix: DemandMix) -> Arrivals:
        """Return the arrivals after pods have changed: one that is in both has come before.

        Pods that come together do so in order of their age. What the mix, which is that afterwards, knows no more is
        forgotten: there may be as many classes as pods.
        """
        gone = list(gone)
        known = {pod.uid for pod in gone}
        new = [pod for pod in come if pod.gpu.whole and pod.gpu.count and pod.uid not in known]
        left = {key for key in map(PodClass.of, gone) if key in self.weights and key not in mix.counts}
        if not new and not left:
            return self
        # A copy hashes no class again: there may be thousands, and this is done for every pod that comes.
        weights, doublings = dict(self.weights), self.doublings
        for key in left:
            del weights[key]
        half_life = max(1.0, _HALF_LIFE_SHARE * cluster_gpus)
        for pod in sorted(new, key=lambda pod: (pod.created, pod.uid)):
            key = PodClass.of(pod)
            if key not in mix.counts:
                continue
            doublings += min(_MOST_DOUBLINGS, pod.gpu.count / half_life)
            if doublings > _MOST_DOUBLINGS:
                weights, doublings = {key: weight * 2.0**-doublings for key, weight in weights.items()}, 0.0
            weights[key] = weights.get(key, 0.0) + 2.0**doublings
        return Arrivals(weights, doublings)

    def weight(self, pods: PodClass) -> float:
        """Return how many pods of a class have come of late; 0 for one that has long not come."""
        weight: float = self.weights.get(pods, 0.0) * 2.0**-self.doublings
        return weight
