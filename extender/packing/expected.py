"""What the demand mix could do with a node: the share of it that would run there, looked up in cumulative tables.

For nodes of one kind (same GPU model and shape when empty) with g free GPUs, C milli-CPU and M bytes:

    W(g, C) = weight of the pods allowed on the kind that ask for at most g GPUs and at most C CPU;  W(g, M) likewise
    P = min(W(g, C), W(g, M)) / weight of all pods of the mix that ask for whole GPUs of the resource
    F = g (1 - P)    expected fragmentation, in GPUs: what the next pod of the mix will not be able to use

P is an upper estimate: of two conditions of which each alone holds for a share of the pods, both hold for the smaller
share at most (the upper bound of Frechet and Hoeffding); exact where CPU and memory requests rise together. The form of
F is that of Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023); weighting it by GPUs is worth tenths of a
point of allocation, and a cut of rare shapes loses 8-GPU pods (docs/background.md, "Packing"). Other resources are not
looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from extender.packing.fit import static_verdicts
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.memory import ByIdentity
from extender.packing.mix import DemandMix, PodClass
from extender.packing.snapshot import Snapshot
from extender.packing.table import Codes, IntVector, NodeTable

Amounts = npt.NDArray[np.integer[Any]] | int
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Buckets = npt.NDArray[np.intp]

MAX_EDGES: Final = 64
_MAX_GPU_EDGES: Final = 256
_MAX_STEPS: Final = 4096
# So many GPUs of a node count, lest sums of weights be no whole numbers.
_MOST_GPUS: Final = 2**20


class Weight(StrEnum):
    """What a class of pods weighs in the mix: the GPUs its pods ask for, or how many pods there are."""

    GPUS = "gpus"
    PODS = "pods"


Shapes = list[tuple[Shape, int]]


def shapes_of(table: NodeTable, kinds: NodeKinds, mix: DemandMix) -> Shapes:
    """Return (shape, pods) for every class of the mix that asks for whole GPUs of the kinds' resource."""
    return [(shape, count) for _, shape, count in shaped_classes(table, kinds, mix)]


def shaped_classes(table: NodeTable, kinds: NodeKinds, mix: DemandMix) -> list[tuple[PodClass, Shape, int]]:
    """Return (class, its shape, pods) for every class of the mix that asks for whole GPUs of the kinds' resource."""
    # By identity: hashing 300 classes costs as much as the rest.
    known: ByIdentity[PodClass, Shape] = table.remember("shapes", kinds.resource, ByIdentity)
    found = [
        (pods, known.recall(pods, lambda pods: _shape(table, kinds, pods)), count)
        for pods, count in mix.counts.items()
        if pods.gpu.whole and pods.gpu.count and pods.gpu.resource == kinds.resource
    ]
    known.trim(len(mix.counts))
    return found


def _shape(table: NodeTable, kinds: NodeKinds, pods: PodClass) -> Shape:
    fits = static_verdicts(table, pods.constraints, pods.gpu).fits & (kinds.of_row >= 0)
    allowed = np.bincount(kinds.of_row[fits], minlength=len(kinds)) > 0
    return Shape(pods.gpu.count, pods.cpu_milli, pods.memory_bytes, allowed.tobytes())


@dataclass(frozen=True, eq=False)
class _Axis:
    """The amounts at which something more fits, sorted; bucket b of an amount = how many of them it reaches.

    Where the amounts are few multiples of one step, a bucket is read off a table: four times as fast as a search.
    """

    edges: IntVector
    step: int
    buckets: Buckets | None

    @classmethod
    def of(cls, requests: IntVector, limit: int) -> _Axis:
        edges = np.unique(requests)
        if len(edges) > limit:
            edges = edges[np.linspace(0, len(edges) - 1, limit).round().astype(np.intp)]
        step = int(np.gcd.reduce(edges)) or 1
        steps = int(edges[-1]) // step + 1
        few = steps <= _MAX_STEPS
        return cls(edges, step, np.searchsorted(edges, np.arange(steps) * step, side="right") if few else None)

    def __len__(self) -> int:
        return len(self.edges) + 1

    def of_request(self, requests: IntVector) -> Buckets:
        """Return the first bucket that covers each request: rounded up where the edges are thinned."""
        return np.searchsorted(self.edges, requests, side="left") + 1

    def of_amount(self, amounts: Amounts) -> Buckets:
        """Return the bucket of each free amount. Below zero counts as zero: who asks for nothing fits even there."""
        free = np.maximum(amounts, 0)
        if self.buckets is None:
            return np.asarray(np.searchsorted(self.edges, free, side="right"))
        return np.asarray(self.buckets[np.minimum(free // self.step, len(self.buckets) - 1)])


@dataclass(frozen=True, eq=False)
class _Demand:
    """Weighted shapes as columns [shape]: int64, weights float64; ``mask`` is the row of ``allowed`` [mask, kind]."""

    gpus: IntVector
    cpu_milli: IntVector
    memory_bytes: IntVector
    weight: Floats
    mask: IntVector
    allowed: Floats

    @classmethod
    def of(cls, kinds: NodeKinds, shapes: Shapes) -> _Demand:
        """Lay out what is usable; one shape of no weight where nothing is."""
        usable = [(s, w) for s, w in shapes if kinds.usable(s)] or [(Shape(0, 0, 0, bytes(len(kinds))), 0)]
        masks = {mask: place for place, mask in enumerate(dict.fromkeys(s.allowed for s, _ in usable))}
        rows = [(s.gpus, s.cpu_milli, s.memory_bytes, masks[s.allowed]) for s, _ in usable]
        gpus, cpu_milli, memory_bytes, mask = np.array(rows, dtype=np.int64).T
        weight = np.array([weight for _, weight in usable], dtype=np.float64)
        allowed = np.array([list(mask) for mask in masks], dtype=np.float64)
        return cls(gpus, cpu_milli, memory_bytes, weight, mask, allowed)

    def cumulated(self, gpus: _Axis, other: _Axis, requests: IntVector) -> Floats:
        """Return float64 [kind + 1, GPU bucket, other bucket]: weight of what fits; kind -1 is "none", all zeros."""
        size = (len(self.allowed), len(gpus), len(other))
        at = (self.mask * size[1] + gpus.of_request(self.gpus)) * size[2] + other.of_request(requests)
        weights = np.bincount(at, weights=self.weight, minlength=size[0] * size[1] * size[2]).reshape(size)
        by_mask = weights.cumsum(axis=1).cumsum(axis=2).reshape(size[0], -1)
        table = np.zeros((self.allowed.shape[1] + 1, size[1], size[2]))
        table[:-1] = (self.allowed.T @ by_mask).reshape(-1, size[1], size[2])
        return table


@dataclass(frozen=True, eq=False)
class FitShare:
    """The share of the mix that could run on a node, for one GPU resource. Built by ``of``, once per Snapshot.

    Weights are whole numbers in floats: sums are exact, so equal mixes give equal answers bit for bit.
    """

    kinds: NodeKinds
    total: float
    _gpus: _Axis
    _cpu: _Axis
    _memory: _Axis
    _by_cpu: Floats
    _by_memory: Floats

    @classmethod
    def of(cls, snapshot: Snapshot, resource: str, weight: Weight = Weight.GPUS) -> FitShare:
        """Return the share for the Snapshot's mix.

        When no pod of the mix could run on any kind (a young cluster), P = 0 everywhere would make all nodes equal.
        Then job sizes 1, 2, 4, ... up to the largest node are taken as equally likely, with no CPU or memory: nodes
        with odd rests are filled before whole ones are broken.
        """
        table, mix = snapshot.table, snapshot.mix
        return mix.remember(table, "fit share", (resource, weight), lambda: cls._of(table, mix, resource, weight))

    @classmethod
    def _of(cls, table: NodeTable, mix: DemandMix, resource: str, weight: Weight) -> FitShare:
        kinds = NodeKinds.of(table, resource)
        shapes = _weighted(shapes_of(table, kinds, mix), kinds.largest, weight)
        return cls.build(kinds, shapes if any(kinds.usable(s) for s, _ in shapes) else _prior(kinds))

    @classmethod
    def build(cls, kinds: NodeKinds, shapes: Shapes, *, other: int = 0, edges: int = MAX_EDGES) -> FitShare:
        """Build the tables of weighted shapes.

        Args:
            kinds: the kinds that ``allowed`` of the shapes speaks of.
            shapes: what is asked for, with its weight; equal shapes add up.
            other: weight of pods that use none of these GPUs; it lowers every share.
            edges: at most so many distinct requests are told apart per resource. Beyond, requests are rounded up to
                one of as many quantiles: a pod is never counted where it does not fit.
        """
        total = float(sum(weight for _, weight in shapes) + other)
        demand = _Demand.of(kinds, shapes)
        gpus = _Axis.of(demand.gpus, _MAX_GPU_EDGES)
        cpu, memory = _Axis.of(demand.cpu_milli, edges), _Axis.of(demand.memory_bytes, edges)
        by_cpu = demand.cumulated(gpus, cpu, demand.cpu_milli).ravel()
        by_memory = demand.cumulated(gpus, memory, demand.memory_bytes).ravel()
        return cls(kinds, max(total, 1.0), gpus, cpu, memory, by_cpu, by_memory)

    @property
    def kind_of_row(self) -> Codes:
        """Return int32 [node]: the kind of each row, -1 without whole GPUs of the resource."""
        return self.kinds.of_row

    def share(self, kinds: Amounts, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        """Return P in 0..1 for nodes of these kinds with so much free; arguments broadcast. 0 for kind -1."""
        return self._weight(kinds, gpus, cpu_milli, memory_bytes) / self.total

    def expected_fragmentation(self, rows: Rows, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        """Return F in GPUs for rows with so much free (below zero counts as zero); 0 for rows without whole GPUs."""
        kinds = self.kinds.of_row[rows]
        free = np.where(kinds < 0, 0, np.maximum(gpus, 0))
        return free * (self.total - self._weight(kinds, gpus, cpu_milli, memory_bytes)) / self.total

    def _weight(self, kinds: Amounts, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        # One index into [kind + 1, GPU bucket, other bucket] takes half the time of three. Kind -1 counts from the end.
        at = np.asarray(kinds) * np.intp(len(self._gpus)) + self._gpus.of_amount(gpus)
        by_cpu = self._by_cpu.take(at * len(self._cpu) + self._cpu.of_amount(cpu_milli))
        return np.asarray(
            np.minimum(by_cpu, self._by_memory.take(at * len(self._memory) + self._memory.of_amount(memory_bytes)))
        )


def _weighted(shapes: Shapes, largest: int, weight: Weight) -> Shapes:
    if weight is Weight.PODS:
        return shapes
    # A pod that asks for more than any node has weighs as much as the largest node, however absurd it is.
    most = min(largest, _MOST_GPUS)
    return [(shape, pods * min(shape.gpus, most)) for shape, pods in shapes]


def _prior(kinds: NodeKinds) -> Shapes:
    largest = kinds.largest
    sizes = {min(1 << power, largest) for power in range(largest.bit_length() + 1)} - {0}
    return [(Shape(size, 0, 0, bytes([1]) * len(kinds)), 1) for size in sorted(sizes)]
