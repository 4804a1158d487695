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

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from extender.packing.cumulated import Axis, WeightedShapes, raised
from extender.packing.fit import static_key, static_verdicts
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.memory import ByIdentity
from extender.packing.mix import Changes, DemandMix, PodClass
from extender.packing.snapshot import Snapshot
from extender.packing.table import Codes, IntVector, NodeTable

Amounts = npt.NDArray[np.integer[Any]] | int
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Places = npt.NDArray[np.intp]

MAX_EDGES: Final = 64
_MAX_GPU_EDGES: Final = 256
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
        if _counts(pods, kinds)
    ]
    known.trim(len(mix.counts))
    return found


def _counts(pods: PodClass, kinds: NodeKinds) -> bool:
    return pods.gpu.whole and pods.gpu.count > 0 and pods.gpu.resource == kinds.resource


def _shape(table: NodeTable, kinds: NodeKinds, pods: PodClass) -> Shape:
    allowed = table.answers.recall(
        ("kinds", kinds.resource, static_key(pods.constraints, pods.gpu)),
        lambda: _allowed(table, kinds, pods),
        lambda allowed: len(allowed) + pods.constraints.size_bytes,
    )
    return Shape(pods.gpu.count, pods.cpu_milli, pods.memory_bytes, allowed)


def _allowed(table: NodeTable, kinds: NodeKinds, pods: PodClass) -> bytes:
    fits = static_verdicts(table, pods.constraints, pods.gpu).fits & (kinds.of_row >= 0)
    return (np.bincount(kinds.of_row[fits], minlength=len(kinds)) > 0).tobytes()


@dataclass(frozen=True, eq=False)
class FitShare:
    """The share of the mix that could run on a node, for one GPU resource. Built by ``of``, once per mix.

    Weights are whole numbers in floats: sums are exact, so equal mixes give equal answers bit for bit, whether a share
    was built of all pods or has followed them one by one.

    Attributes:
        total: weight of all pods, 1 at least.
        guessed: no pod of the mix could run anywhere, so a guess stands in for it.
    """

    kinds: NodeKinds
    total: float
    _shapes: WeightedShapes
    _gpus: Axis
    _cpu: Axis
    _memory: Axis
    _by_cpu: Floats
    _by_memory: Floats
    guessed: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot, resource: str, weight: Weight = Weight.GPUS) -> FitShare:
        """Return the share for the Snapshot's mix.

        When no pod of the mix could run on any kind (a young cluster), P = 0 everywhere would make all nodes equal.
        Then job sizes 1, 2, 4, ... up to the largest node are taken as equally likely, with no CPU or memory: nodes
        with odd rests are filled before whole ones are broken.
        """
        table, mix = snapshot.table, snapshot.mix

        def followed(found: FitShare, of: NodeTable, changes: Changes) -> FitShare | None:
            return found.followed(of, changes, weight)

        return mix.remember(
            table, "fit share", (resource, weight), lambda: cls._of(table, mix, resource, weight), followed
        )

    @classmethod
    def _of(cls, table: NodeTable, mix: DemandMix, resource: str, weight: Weight) -> FitShare:
        kinds = NodeKinds.of(table, resource)
        shapes = _weighted(shapes_of(table, kinds, mix), kinds.largest, weight)
        if any(kinds.usable(shape) for shape, _ in shapes):
            return cls.build(kinds, shapes)
        return replace(cls.build(kinds, _prior(kinds)), guessed=True)

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
        usable = [(shape, weight) for shape, weight in shapes if kinds.usable(shape)]
        return cls._laid_out(kinds, max(total, 1.0), WeightedShapes.of(len(kinds), usable), edges)

    @classmethod
    def _laid_out(cls, kinds: NodeKinds, total: float, shapes: WeightedShapes, edges: int) -> FitShare:
        gpus, cpu, memory = map(Axis.of, shapes.amounts, (_MAX_GPU_EDGES, edges, edges))
        by_cpu, by_memory = shapes.cumulated(gpus, cpu, memory)
        return cls(kinds, total, shapes, gpus, cpu, memory, by_cpu, by_memory)

    def followed(self, table: NodeTable, changes: Changes, weight: Weight) -> FitShare | None:
        """Return the share once classes of pods have grown or shrunk; None when it is to be built of all of them."""
        share: FitShare | None = self
        for pods, by in changes.items():
            if share is not None and by and _counts(pods, self.kinds):
                shape = _shape(table, self.kinds, pods)
                share = share.grown(shape, by * _weight_of(shape, self.kinds.largest, weight))
        return share

    def grown(self, shape: Shape, by: int) -> FitShare | None:
        """Return the share of a mix with more (or less) weight of a shape; None as for ``followed``."""
        if self.guessed:
            return None
        total = self.total + by
        if not self.kinds.usable(shape):
            return replace(self, total=total)
        before, shapes = self._shapes, self._shapes.grown(shape, by)
        if not len(shapes):
            return None
        if len(before) != len(shapes) and not min(before, shapes, key=len).asks_for(shape):
            # Other edges.
            return self._laid_out(self.kinds, total, shapes, MAX_EDGES)
        by_cpu = raised(self._by_cpu, self._gpus, self._cpu, shape, shape.cpu_milli, by)
        by_memory = raised(self._by_memory, self._gpus, self._memory, shape, shape.memory_bytes, by)
        return replace(self, total=total, _shapes=shapes, _by_cpu=by_cpu, _by_memory=by_memory)

    @property
    def kind_of_row(self) -> Codes:
        """Return int32 [node]: the kind of each row, -1 without whole GPUs of the resource."""
        return self.kinds.of_row

    def share(self, kinds: Amounts, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        """Return P in 0..1 for nodes of these kinds with so much free; arguments broadcast. 0 for kind -1."""
        return self._weight(self._first_place(kinds), gpus, cpu_milli, memory_bytes) / self.total

    def expected_fragmentation(self, rows: Rows, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        """Return F in GPUs for rows with so much free (below zero counts as zero); 0 for rows without whole GPUs."""
        kinds = self.kinds.of_row.take(rows)
        return np.where(kinds < 0, 0.0, self._useless(self._first_place(kinds), gpus, cpu_milli, memory_bytes))

    def growth(self, rows: Rows, free: tuple[IntVector, IntVector, IntVector], taken: tuple[int, int, int]) -> Floats:
        """Return by how much F grows when so many GPUs, milli-CPU and bytes are taken from what is free on rows."""
        kinds = self.kinds.of_row.take(rows)
        place = self._first_place(kinds)
        left = [amounts - amount for amounts, amount in zip(free, taken, strict=True)]
        return np.where(kinds < 0, 0.0, self._useless(place, *left) - self._useless(place, *free))

    def _useless(self, place: Places, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        weight = self._weight(place, gpus, cpu_milli, memory_bytes)
        return np.asarray(np.maximum(gpus, 0) * (self.total - weight) / self.total)

    def _first_place(self, kinds: Amounts) -> Places:
        """Return where the tables of kinds begin, in GPU buckets; negative, so counted from the end, for kind -1."""
        return np.asarray(np.multiply(kinds, len(self._gpus), dtype=np.intp))

    def _weight(self, place: Places, gpus: Amounts, cpu_milli: Amounts, memory_bytes: Amounts) -> Floats:
        # One index into [kind + 1, GPU bucket, other bucket] takes half the time of three.
        at = place + self._gpus.of_amount(gpus)
        by_cpu = self._by_cpu.take(at * len(self._cpu) + self._cpu.of_amount(cpu_milli))
        by_memory = self._by_memory.take(at * len(self._memory) + self._memory.of_amount(memory_bytes))
        return np.asarray(np.minimum(by_cpu, by_memory))


def _weighted(shapes: Shapes, largest: int, weight: Weight) -> Shapes:
    return [(shape, pods * _weight_of(shape, largest, weight)) for shape, pods in shapes]


def _weight_of(shape: Shape, largest: int, weight: Weight) -> int:
    """Return what one pod weighs: one that asks for more than any node has as much as the largest, however absurd."""
    return 1 if weight is Weight.PODS else min(shape.gpus, largest, _MOST_GPUS)


def _prior(kinds: NodeKinds) -> Shapes:
    largest = kinds.largest
    sizes = {min(1 << power, largest) for power in range(largest.bit_length() + 1)} - {0}
    return [(Shape(size, 0, 0, bytes([1]) * len(kinds)), 1) for size in sorted(sizes)]
