"""Weighted shapes of pods, and tables that tell how much of their weight fits where so much is free.

Weights are whole numbers in floats: sums are exact, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from extender.packing.kinds import Shape
from extender.packing.table import BoolMatrix, IntMatrix, IntVector

Amounts = npt.NDArray[np.integer[Any]] | int
Floats = npt.NDArray[np.float64]
Buckets = npt.NDArray[np.intp]

_MAX_STEPS: Final = 4096


@dataclass(frozen=True, eq=False)
class Axis:
    """The amounts at which something more fits, sorted; bucket b of an amount = how many of them it reaches.

    Where the amounts are few multiples of one step, a bucket is read off a table: four times as fast as a search.
    """

    edges: IntVector
    step: int
    buckets: Buckets | None

    @classmethod
    def of(cls, requests: IntVector, limit: int) -> Axis:
        """Return the axis of some requests; with more than ``limit`` distinct ones, of as many quantiles of them."""
        requests = np.sort(requests)
        edges = requests[np.concatenate(([True], requests[1:] != requests[:-1]))]
        if len(edges) > limit:
            edges = edges[np.linspace(0, len(edges) - 1, limit).round().astype(np.intp)]
        step = int(np.gcd.reduce(edges)) or 1
        steps = int(edges[-1]) // step + 1
        return cls(edges, step, cls._counted(edges // step, steps) if steps <= _MAX_STEPS else None)

    @staticmethod
    def _counted(at: IntVector, steps: int) -> Buckets:
        reached = np.zeros(steps, dtype=np.intp)
        reached[at] = 1
        return np.add.accumulate(reached)

    def __len__(self) -> int:
        return len(self.edges) + 1

    def of_request(self, requests: IntVector) -> Buckets:
        """Return the first bucket that covers each request: rounded up where the edges are thinned."""
        return self.edges.searchsorted(requests, side="left") + 1

    def of_amount(self, amounts: Amounts) -> Buckets:
        """Return the bucket of each free amount. Below zero counts as zero: who asks for nothing fits even there."""
        if self.buckets is None:
            return np.asarray(self.edges.searchsorted(np.maximum(amounts, 0), side="right"))
        steps = amounts if self.step == 1 else amounts // self.step
        return np.asarray(self.buckets.take(steps, mode="clip"))


@dataclass(frozen=True, eq=False)
class WeightedShapes:
    """Weighted shapes as columns, each shape once.

    Attributes:
        amounts: int64 [3, shape]: GPUs, milli-CPU, bytes.
        allowed: bool [shape, kind].
        weight: float64 [shape].
    """

    amounts: IntMatrix
    allowed: BoolMatrix
    weight: Floats

    @classmethod
    def of(cls, kinds: int, shapes: Iterable[tuple[Shape, int]]) -> WeightedShapes:
        """Lay out shapes for so many kinds of nodes; equal ones add up. One shape of no weight where there is none."""
        weights: dict[Shape, int] = {}
        for shape, more in shapes:
            weights[shape] = weights.get(shape, 0) + more
        weights = weights or {Shape(0, 0, 0, bytes(kinds)): 0}
        amounts = np.array([shape[:3] for shape in weights], dtype=np.int64)
        allowed = np.frombuffer(b"".join(shape.allowed for shape in weights), dtype=np.bool_)
        weight = np.array(list(weights.values()), dtype=np.float64)
        return cls(np.ascontiguousarray(amounts.T), allowed.reshape(len(weights), kinds), weight)

    def __len__(self) -> int:
        return len(self.weight)

    def grown(self, shape: Shape, by: int) -> WeightedShapes:
        """Return the shapes with more (or less) weight of one; one without any is left out."""
        at = self._place(shape)
        if at is None:
            return self._with(shape, float(by))
        weight = self.weight.copy()
        weight[at] += by
        return WeightedShapes(self.amounts, self.allowed, weight) if weight[at] else self._without(at)

    def _with(self, shape: Shape, weight: float) -> WeightedShapes:
        amounts, allowed = np.array(shape[:3])[:, None], np.frombuffer(shape.allowed, dtype=np.bool_)[None]
        return WeightedShapes(
            np.concatenate((self.amounts, amounts), axis=1),
            np.concatenate((self.allowed, allowed)),
            np.append(self.weight, weight),
        )

    def _without(self, at: int) -> WeightedShapes:
        return WeightedShapes(
            np.delete(self.amounts, at, axis=1), np.delete(self.allowed, at, axis=0), np.delete(self.weight, at)
        )

    def _place(self, shape: Shape) -> int | None:
        alike = np.flatnonzero(
            (self.amounts[0] == shape.gpus)
            & (self.amounts[1] == shape.cpu_milli)
            & (self.amounts[2] == shape.memory_bytes)
        )
        return next((at for at in alike.tolist() if self.allowed[at].tobytes() == shape.allowed), None)

    def asks_for(self, shape: Shape) -> bool:
        """Tell whether each amount that the shape asks for is asked for, be it by different shapes."""
        return all((column == amount).any() for column, amount in zip(self.amounts, shape[:3], strict=True))

    def cumulated(self, gpus: Axis, cpu: Axis, memory: Axis) -> tuple[Floats, Floats]:
        """Return the weight of what fits, by GPUs and CPU, and by GPUs and memory.

        Both are float64 [kind + 1, GPU bucket, other bucket]; kind -1 is "none", all zeros.
        """
        shape, kind = np.nonzero(self.allowed)
        weight, before = self.weight[shape], kind * len(gpus) + gpus.of_request(self.amounts[0])[shape]

        def table(other: Axis, requests: IntVector) -> Floats:
            size = (self.allowed.shape[1] + 1, len(gpus), len(other))
            at = before * len(other) + other.of_request(requests)[shape]
            weights = np.bincount(at, weights=weight, minlength=size[0] * size[1] * size[2]).reshape(size)
            return np.add.accumulate(np.add.accumulate(weights, axis=1), axis=2)

        return table(cpu, self.amounts[1]), table(memory, self.amounts[2])


def raised(table: Floats, gpus: Axis, other: Axis, shape: Shape, request: int, by: int) -> Floats:
    """Return a table of ``cumulated`` with more (or less) weight of one shape that asks for amounts of the axes."""
    copy = table.copy()
    reached = copy[:, gpus.edges.searchsorted(shape.gpus) + 1 :, other.edges.searchsorted(request) + 1 :]
    reached[:-1][np.frombuffer(shape.allowed, dtype=np.bool_)] += by
    return copy
