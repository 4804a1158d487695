"""``most-allocated`` and ``most-allocated-gpu-cpu``: fill the fullest node first, by share of the node."""

from __future__ import annotations

from dataclasses import dataclass

from extender.packing.framework import Rows, Utilities
from extender.packing.policies.allocation import mean_percent
from extender.packing.resources import CPU
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class MostAllocated:
    """The mean over the pod's GPU resource, and cpu if ``with_cpu``, of floor(100 (used + asked) / allocatable).

    Utility: whole percent in use, 0..100. As in the stock plugin, a pod that asks for no GPU is not scored by GPUs: it
    finds all nodes equal, or goes by cpu alone. Source: NodeResourcesFit, strategy MostAllocated (``allocation.py``).
    """

    with_cpu: bool = False
    name: str = "most-allocated"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the mean percentage in use once the pod runs."""
        resources = (*([pod.gpu.resource] if pod.gpu.count else ()), *([CPU] if self.with_cpu else ()))
        return mean_percent(snapshot, pod, rows, resources, free=False)
