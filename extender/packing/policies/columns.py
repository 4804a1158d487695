"""What policies read of a Snapshot: free and offered amounts per candidate row, as floats for arithmetic on utilities.

Free is ``free_for_score_of``, so what the tentative ledger has booked is gone; below zero counts as zero.
"""

from __future__ import annotations

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.resources import CPU, plus
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntVector
from extender.packing.types import PodInfo


def free(snapshot: Snapshot, resource: str, rows: Rows) -> IntVector:
    """Return int64 [row]: what is free of a resource; zeros when no node names it."""
    return snapshot.free_for_score_of(resource, rows)


def allocatable(snapshot: Snapshot, resource: str, rows: Rows) -> IntVector:
    """Return int64 [row]: what pods may use of a resource at all; zeros when no node names it."""
    return snapshot.allocatable_of(resource)[rows]


def free_gpus(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> IntVector:
    """Return int64 [row]: free GPUs of the pod's resource; for a pod without GPUs, of all whole GPU resources."""
    names = (pod.gpu.resource,) if pod.gpu.count else snapshot.table.whole_gpu_resources
    gpus = np.zeros(len(rows), dtype=np.int64)
    for name in names:
        gpus = plus(gpus, free(snapshot, name, rows))
    return gpus


def cpu_after(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> IntVector:
    """Return int64 [row]: milli-CPU free once the pod runs there."""
    return np.maximum(free(snapshot, CPU, rows) - pod.requests.get(CPU, 0), 0)


def equal(rows: Rows) -> Utilities:
    """Return zeros: the policy has no opinion."""
    return np.zeros(len(rows), dtype=np.float64)
