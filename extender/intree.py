"""kube-scheduler's own default scores, as far as nodes and pods alone decide them, for the simulator.

Sources: pkg/scheduler/framework/plugins/noderesources/{least_allocated,balanced_allocation}.go, nodeaffinity,
tainttoleration; weights apis/config/v1/default_plugins.go. Not modelled, constant or absent here: PodTopologySpread,
InterPodAffinity, ImageLocality.

Each function returns int64 per row, 0..100; ``score`` is their weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.packing.framework import Rows
from extender.packing.labels import Labels
from extender.packing.resources import CPU, MEMORY, countable, plus
from extender.packing.selectors import Effect, TolerationSet
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntMatrix, NodeTable
from extender.packing.types import PodInfo

MAX_NODE_SCORE: Final = 100
# pkg/scheduler/util/pod_resources.go: what a container that asks for nothing is counted with, in these two scores only.
DEFAULT_CPU_MILLI: Final = 100
DEFAULT_MEMORY_BYTES: Final = 200 * 2**20

IntScores = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FitStrategy:
    """``scoringStrategy`` of NodeResourcesFit: (resource, weight) pairs; spreads unless ``most_allocated``."""

    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    most_allocated: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """Weights of the default Score plugins (apis/config/v1/default_plugins.go), and NodeResourcesFit's strategy."""

    strategy: FitStrategy = FitStrategy()
    resources_fit: int = 1
    balanced_allocation: int = 1
    node_affinity: int = 2
    taint_toleration: int = 3


STOCK: Final = Profile()


def most_allocated_profile(gpu_resources: Iterable[str], gpu_weight: int = 5) -> Profile:
    """Return the profile operators use against GPU fragmentation: MostAllocated, GPUs counting most."""
    resources = ((CPU, 1), (MEMORY, 1), *((name, gpu_weight) for name in gpu_resources))
    return Profile(FitStrategy(resources, most_allocated=True))


def nonzero_request(pod: PodInfo) -> tuple[int, int]:
    """Return (milli-CPU, bytes) the two resource scores count for a pod."""
    cpu, memory = pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0)
    return countable(cpu or DEFAULT_CPU_MILLI), countable(memory or DEFAULT_MEMORY_BYTES)


def nonzero_used(snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """Return int64 [2, node]: what the pods of each node count for in the two resource scores."""
    used = np.zeros((2, len(snapshot)), dtype=np.int64)
    for row, group in enumerate(snapshot.pods):
        for pod in group:
            used[:, row] += nonzero_request(pod)
    return used


def _shares(
    snapshot: Snapshot, used: IntMatrix, pod: PodInfo, rows: Rows, resource: str
) -> npt.NDArray[np.float64] | None:
    """Return the share of a resource in use after placement, capped at 1; None when the pod does not ask for it."""
    table = snapshot.table
    if resource in (CPU, MEMORY):
        at = (CPU, MEMORY).index(resource)
        wanted = used[at, rows] + nonzero_request(pod)[at]
    elif resource in table.axis.index and pod.requests.get(resource, 0):
        wanted = plus(snapshot.used[table.axis.index[resource], rows], pod.requests[resource])
    else:
        return None
    allocatable = table.allocatable[table.axis.index[resource], rows]
    shares: npt.NDArray[np.float64] = np.minimum(wanted / np.maximum(allocatable, 1), 1.0)
    return shares


def resources_fit(snapshot: Snapshot, used: IntMatrix, pod: PodInfo, rows: Rows, strategy: FitStrategy) -> IntScores:
    """Return the weighted mean over the strategy's resources of the free (or used) share, in whole percent each."""
    total, weights = np.zeros(len(rows), dtype=np.int64), 0
    for resource, weight in strategy.resources:
        shares = _shares(snapshot, used, pod, rows, resource)
        if shares is not None:
            value = shares if strategy.most_allocated else 1.0 - shares
            total += weight * (value * MAX_NODE_SCORE).astype(np.int64)
            weights += weight
    return total // max(1, weights)


def balanced_allocation(snapshot: Snapshot, used: IntMatrix, pod: PodInfo, rows: Rows) -> IntScores:
    """Return 100 x (1 - standard deviation of the used shares of cpu and memory)."""
    cpu, memory = (_shares(snapshot, used, pod, rows, resource) for resource in (CPU, MEMORY))
    lopsided = 0.0 if cpu is None or memory is None else np.abs(cpu - memory)
    return np.asarray((1 - lopsided / 2) * MAX_NODE_SCORE).astype(np.int64)


def node_affinity(table: NodeTable, pod: PodInfo, rows: Rows) -> IntScores:
    """Return the summed weight of the preferred terms a node matches, scaled so that the best node has 100."""
    total = Labels.of(table).preferred(pod.preferred)[rows]
    highest = int(total.max(initial=0))
    return total * MAX_NODE_SCORE // highest if highest else total


def taint_toleration(table: NodeTable, pod: PodInfo, rows: Rows) -> IntScores:
    """Return 100 for the nodes with the fewest untolerated PreferNoSchedule taints, 0 for those with the most."""
    (codes, taint_sets), tolerated = table.taint_sets, TolerationSet(pod.constraints.tolerations)
    counts = np.array(
        [
            sum(taint.effect == Effect.PREFER_NO_SCHEDULE and not tolerated.covers(taint) for taint in taints)
            for taints in taint_sets
        ],
        dtype=np.int64,
    )[codes[rows]]
    highest = int(counts.max(initial=0))
    return MAX_NODE_SCORE - (counts * MAX_NODE_SCORE // highest if highest else counts)


def score(snapshot: Snapshot, used: IntMatrix, pod: PodInfo, rows: Rows, profile: Profile) -> IntScores:
    """Return the weighted sum of the profile's scores for the rows; ``used`` is that of ``nonzero_used``."""
    table = snapshot.table
    return (
        profile.resources_fit * resources_fit(snapshot, used, pod, rows, profile.strategy)
        + profile.balanced_allocation * balanced_allocation(snapshot, used, pod, rows)
        + profile.node_affinity * node_affinity(table, pod, rows)
        + profile.taint_toleration * taint_toleration(table, pod, rows)
    )
