"""``best-fit``: leave as little as possible of CPU and GPU behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.policies import columns
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class BestFit:
    """floor(100 (1 - (cpu left / 128 cores + gpu left / 8) / 2)), left = free - asked.

    Utility: whole points, 100 for nothing left; below 0 on nodes larger than the published maximum of 128 cores and 8
    GPUs. For a pod without GPUs the free GPUs count all the same. The published plugin stretches the result over the
    candidates, which keeps the order. Source: FGD's evaluation (docs/background.md, "Packing";
    hkust-adsl/kubernetes-scheduler-simulator pkg/simulator/plugin/best_fit_score.go).
    """

    largest_cpu_milli: int = 128_000
    largest_gpus: int = 8
    name: str = "best-fit"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return how little of each row is left once the pod runs."""
        gpus = np.maximum(columns.free_gpus(snapshot, pod, rows) - pod.gpu.count, 0)
        cpu = columns.cpu_after(snapshot, pod, rows)
        return np.floor(100.0 * (1.0 - (cpu / self.largest_cpu_milli + gpus / self.largest_gpus) / 2.0))
