"""``gpu-packing``: used nodes before idle ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.policies import columns
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

_USED = 50
_IDLE = 33


@dataclass(frozen=True, slots=True)
class GpuPacking:
    """Used node: max(50 - asked, 33). Idle node (all its GPUs free): max(33 - free, free).

    Utility: whole points. All used nodes are equal, and among idle ones those with fewer GPUs win (up to 16). The first
    case of the published rule, GPUs shared by pods, does not exist with exclusive GPUs. Pods without GPUs: all equal.
    Source: FGD's evaluation, after Antman (docs/background.md, "Packing"; hkust-adsl/kubernetes-scheduler-simulator
    pkg/simulator/plugin/gpu_packing_score.go).
    """

    name: str = "gpu-packing"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the points of each row."""
        if not pod.gpu.count:
            return columns.equal(rows)
        free = columns.free(snapshot, pod.gpu.resource, rows)
        idle = free == columns.allocatable(snapshot, pod.gpu.resource, rows)
        return np.where(idle, np.maximum(_IDLE - free, free), max(_USED - pod.gpu.count, _IDLE)).astype(np.float64)
