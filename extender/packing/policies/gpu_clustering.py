"""``gpu-clustering``: pods of one size beside pods of the same size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.policies import columns
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntVector
from extender.packing.types import PodInfo

_BAND = 25
_LAST_BIT = 62


@dataclass(frozen=True, slots=True)
class GpuClustering:
    """A band by the sizes (GPU counts) of the pods on the node, plus floor(25 (8 - free GPUs) / 8) within the band.

    Band 75: pods of the asked size only; 50: that size among others; 25: no GPU pods; 0: other sizes only.
    Utility: whole points, 0..100. More than 8 free GPUs count as 8; sizes from 62 up count as one. Pods without GPUs:
    all equal. Source: FGD's evaluation, after Gandiva (docs/background.md, "Packing";
    hkust-adsl/kubernetes-scheduler-simulator pkg/simulator/plugin/gpu_clustering_score.go).
    """

    largest_gpus: int = 8
    name: str = "gpu-clustering"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return band plus fullness of each row."""
        if not pod.gpu.count:
            return columns.equal(rows)
        resource = pod.gpu.resource
        sizes = snapshot.remember("sizes", resource, lambda: _sizes(snapshot, resource))[rows]
        same = _bit(pod.gpu.count)
        bands = np.select([sizes == same, sizes & same != 0, sizes == 0], [3, 2, 1], 0) * _BAND
        free = np.minimum(columns.free(snapshot, resource, rows), self.largest_gpus)
        points: Utilities = (bands + _BAND * (self.largest_gpus - free) // self.largest_gpus).astype(np.float64)
        return points


def _bit(gpus: int) -> int:
    return 1 << min(gpus, _LAST_BIT)


def _sizes(snapshot: Snapshot, resource: str) -> IntVector:
    """Return int64 [node]: bit n is set where a pod with n GPUs of the resource runs."""
    sizes = [0] * len(snapshot)
    for row, group in enumerate(snapshot.pods):
        for pod in group:
            if pod.gpu.count and pod.gpu.resource == resource:
                sizes[row] |= _bit(pod.gpu.count)
    return np.array(sizes, dtype=np.int64)
