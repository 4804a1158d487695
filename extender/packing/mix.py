"""The demand mix: which shapes of pods wait and run, counted exactly. What scoring expects to come is read off it.

A value like the Snapshot that carries it: ``moved`` returns a new mix. Nothing is cut off: a shape that
makes up 1 % of the pods may be the one that needs whole nodes (docs/background.md, "Packing": FGD's 95 % cut).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.packing.gpu import GpuRequest
from extender.packing.resources import CPU, MEMORY
from extender.packing.selectors import NO_CONSTRAINTS, NodeConstraints
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that are the same to packing. ``gpu.count`` is 0 for pods without GPUs, whose constraints are left out."""

    gpu: GpuRequest
    cpu_milli: int
    memory_bytes: int
    constraints: NodeConstraints = NO_CONSTRAINTS

    @classmethod
    def of(cls, pod: PodInfo) -> PodClass:
        """Return the class of a pod."""
        # DaemonSet pods each name their node: kept, every one of them would be a class of its own.
        constraints = pod.constraints if pod.gpu.count else NO_CONSTRAINTS
        return cls(pod.gpu, pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0), constraints)


@dataclass(frozen=True, slots=True)
class DemandMix:
    """How many pods of each class wait or run."""

    counts: Mapping[PodClass, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[PodInfo]) -> DemandMix:
        """Count pods; gated ones too, they will come."""
        return cls(dict(Counter(PodClass.of(pod) for pod in pods)))

    def moved(self, gone: Iterable[PodInfo], come: Iterable[PodInfo]) -> DemandMix:
        """Return the mix without some of its pods and with others."""
        counts = dict(self.counts)
        for pods, by in ((gone, -1), (come, 1)):
            for pod in pods:
                key = PodClass.of(pod)
                counts[key] = counts.get(key, 0) + by
        return DemandMix({key: count for key, count in counts.items() if count})
