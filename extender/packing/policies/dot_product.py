"""``dot-product``: avoid nodes that have much of what the pod asks much of (Tetris, turned round)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.policies import columns
from extender.packing.resources import CPU
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class DotProduct:
    """floor(100 (1 - (C c / 128 cores^2 + g n / 8^2) / 2)); free C and g, asked c and n.

    Utility: whole points, 100 for a product of 0; below 0 on nodes beyond the published maximum. A pod without GPUs
    goes by CPU alone. Sources: Grandl et al., SIGCOMM 2014 (the product); FGD's evaluation, where the smallest wins
    (docs/background.md, "Packing"; hkust-adsl/kubernetes-scheduler-simulator
    pkg/simulator/plugin/dot_product_score.go).
    """

    largest_cpu_milli: int = 128_000
    largest_gpus: int = 8
    name: str = "dot-product"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return how small the product of free and asked is on each row."""
        cpu_asked = pod.requests.get(CPU, 0) / self.largest_cpu_milli
        gpus_asked = pod.gpu.count / self.largest_gpus
        cpu = columns.free(snapshot, CPU, rows) / self.largest_cpu_milli * cpu_asked
        gpus = columns.free_gpus(snapshot, pod, rows) / self.largest_gpus * gpus_asked
        return np.floor(100.0 * (1.0 - (cpu + gpus) / 2.0))
