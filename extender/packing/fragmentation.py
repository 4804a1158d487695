"""The measure: how much of the free GPUs is of use, by model and by job size. Read off a Snapshot, for operators.

Whole exclusive GPUs only; MIG slices and shared GPUs are left out. What the tentative ledger has booked counts as free:
these are facts, not forecasts. Each node's GPUs fall into four states that add up to its capacity:

    withdrawn = capacity - allocatable      allocated = min(held, allocatable)
    free = allocatable - allocated, on open nodes;      unschedulable = the same on cordoned and unready nodes

Held beyond allocatable is ``overcommitted`` and in none of the four. Nothing here divides by zero or goes below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.packing.contention import model_groups
from extender.packing.expected import FitShare
from extender.packing.mix import DemandMix
from extender.packing.resources import CPU, MEMORY, total
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntVector, NodeTable, frozen

Rows = npt.NDArray[np.intp]

JOB_SIZES: Final = (1, 2, 4, 8, 16)
# Above any node that is built; one that claims more opens no more series.
_LARGEST_SIZE: Final = 128


@dataclass(frozen=True, slots=True)
class SizeFragmentation:
    """What the free GPUs of a model mean to jobs of one size. All in whole numbers.

    Attributes:
        size: GPUs a pod asks for.
        placeable_pods: how many such pods could start now, by GPUs alone: sum over open nodes of floor(free / size).
        stranded_gpus: free GPUs on open nodes with fewer than ``size`` free.
    """

    size: int
    placeable_pods: int
    stranded_gpus: int


@dataclass(frozen=True, slots=True)
class ModelFragmentation:
    """The whole GPUs of one resource and model.

    Attributes:
        model: the label's value, None when unknown.
        allocated, free, unschedulable, withdrawn: GPUs, adding up to ``capacity``.
        overcommitted: GPUs held beyond allocatable.
        largest_placeable: the most GPUs that are free on one open node.
        sizes: by size, for 1, 2, 4, 8, 16 and those sizes of the mix, up to 128, that some node of the resource has
            room for.
        starved: free GPUs on open nodes that would be left without CPU or memory if each took what is typical for
            the mix (the median over its GPUs); 0 while nobody has asked for any.
        expected: expected fragmentation of the free GPUs on open nodes, in GPUs (``extender.packing.expected``).
    """

    resource: str
    model: str | None
    allocated: int
    free: int
    unschedulable: int
    withdrawn: int
    overcommitted: int
    largest_placeable: int
    sizes: tuple[SizeFragmentation, ...]
    starved: int
    expected: float

    @property
    def capacity(self) -> int:
        """Return all GPUs, in whatever state."""
        return self.allocated + self.free + self.unschedulable + self.withdrawn

    @property
    def expected_ratio(self) -> float | None:
        """Return expected fragmentation as a share of the free GPUs; None when none is free."""
        return self.expected / self.free if self.free else None


def measure(snapshot: Snapshot) -> tuple[ModelFragmentation, ...]:
    """Measure every (resource, model) that has whole GPUs, ordered by resource, then model; unknown models first.

    Models that exist by label only, without a single GPU built in or held, are left out.
    """
    found = []
    for resource in snapshot.table.whole_gpu_resources:
        sizes, fed = _sizes(snapshot, resource), _fed(snapshot, resource)
        for model, rows in _rows_by_model(snapshot, resource):
            found.append(_measured(snapshot, resource, model, rows, sizes, fed))
    return tuple(found)


def capacity_of(table: NodeTable, resource: str) -> IntVector:
    """Return int64 [node]: GPUs as built, never less than allocatable; remembered with the table."""
    return table.remember("capacity", resource, lambda: _capacity(table, resource))


def _capacity(table: NodeTable, resource: str) -> IntVector:
    built = [max(node.capacity.get(resource, 0), node.allocatable.get(resource, 0)) for node in table.nodes]
    return frozen(np.array(built, dtype=np.int64))


def _rows_by_model(snapshot: Snapshot, resource: str) -> list[tuple[str | None, Rows]]:
    """Return (label, rows with whole GPUs of that label), sorted by label, None first."""
    table, groups = snapshot.table, model_groups(snapshot.table, resource)
    counted = (capacity_of(table, resource) > 0) | (snapshot.used[table.axis.index[resource]] > 0)
    found = []
    for group, label in sorted(enumerate(groups.labels), key=lambda item: (item[1] is not None, item[1] or "")):
        rows = np.flatnonzero((groups.of_row == group) & counted)
        if len(rows):
            found.append((label, rows))
    return found


def _measured(
    snapshot: Snapshot, resource: str, model: str | None, rows: Rows, sizes: tuple[int, ...], fed: IntVector
) -> ModelFragmentation:
    allocatable = snapshot.allocatable_of(resource)[rows]
    free = snapshot.free_of(resource)[rows]
    held = snapshot.used[snapshot.table.axis.index[resource], rows]
    is_open = snapshot.table.open[rows]
    usable, open_rows = free[is_open], rows[is_open]
    return ModelFragmentation(
        resource=resource,
        model=model,
        allocated=total(np.minimum(held, allocatable)),
        free=total(usable),
        unschedulable=total(free[~is_open]),
        withdrawn=total(capacity_of(snapshot.table, resource)[rows] - allocatable),
        overcommitted=total(np.maximum(held - allocatable, 0)),
        largest_placeable=int(usable.max(initial=0)),
        sizes=tuple(_by_size(usable, size) for size in sizes),
        starved=total(usable - fed[open_rows]),
        expected=_expected(snapshot, resource, usable, open_rows),
    )


def stranded_by_size(snapshot: Snapshot, resource: str, sizes: Iterable[int]) -> dict[int, int]:
    """Return size -> free whole GPUs of all models on open nodes with fewer than ``size`` free."""
    free = _free_on_open_nodes(snapshot, resource)
    return {size: _by_size(free, size).stranded_gpus for size in sizes}


def free_gpus(snapshot: Snapshot, resource: str) -> int:
    """Return the free whole GPUs of all models on open nodes."""
    return total(_free_on_open_nodes(snapshot, resource))


def most_on_a_node(snapshot: Snapshot, resource: str) -> int:
    """Return the most whole GPUs that one node offers to pods, be they free or held."""
    return int(snapshot.allocatable_of(resource)[snapshot.table.whole(resource)].max(initial=0))


def _free_on_open_nodes(snapshot: Snapshot, resource: str) -> IntVector:
    return snapshot.free_of(resource)[snapshot.table.whole(resource) & snapshot.table.open]


def _by_size(free: IntVector, size: int) -> SizeFragmentation:
    return SizeFragmentation(size, total(free // size), total(free[free < size]))


def _sizes(snapshot: Snapshot, resource: str) -> tuple[int, ...]:
    # Sizes no node has are left out: they say nothing of the free GPUs, and their number would be up to the users.
    largest = min(most_on_a_node(snapshot, resource), _LARGEST_SIZE)
    asked = {pods.gpu.count for pods in snapshot.mix.counts if pods.gpu.whole and pods.gpu.resource == resource}
    return tuple(sorted({*JOB_SIZES, *(size for size in asked if 0 < size <= largest)}))


def _expected(snapshot: Snapshot, resource: str, free: IntVector, rows: Rows) -> float:
    share = FitShare.of(snapshot, resource)
    cpu, memory = snapshot.free_of(CPU)[rows], snapshot.free_of(MEMORY)[rows]
    return float(share.expected_fragmentation(rows, free, cpu, memory).sum())


def _fed(snapshot: Snapshot, resource: str) -> IntVector:
    """Return int64 [node]: how many of the free GPUs find the typical CPU and memory beside them."""
    fed = snapshot.free_of(resource)
    for name, need in zip((CPU, MEMORY), typical_per_gpu(snapshot.mix, resource), strict=True):
        if need:
            fed = np.minimum(fed, snapshot.free_of(name) // need)
    return fed


def typical_per_gpu(mix: DemandMix, resource: str) -> tuple[int, int]:
    """Return (milli-CPU, bytes) that half of the mix's GPUs of a resource do with; (0, 0) when none is asked for."""
    asked = [
        (pods.cpu_milli // pods.gpu.count, pods.memory_bytes // pods.gpu.count, count * pods.gpu.count)
        for pods, count in mix.counts.items()
        if pods.gpu.whole and pods.gpu.resource == resource and pods.gpu.count > 0
    ]
    return _median([(cpu, gpus) for cpu, _, gpus in asked]), _median([(memory, gpus) for _, memory, gpus in asked])


def _median(weighted: list[tuple[int, int]]) -> int:
    """Return the smallest value that at least half of the weight does not exceed; 0 of nothing."""
    everything = sum(weight for _, weight in weighted)
    rest = everything
    for value, weight in sorted(weighted):
        rest -= weight
        if 2 * rest <= everything:
            return value
    return 0
