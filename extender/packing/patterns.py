"""Patterns: which multisets of pod shapes fit one node in its present state. Pure; the solvers choose among them.

A *shape* is what a pod asks for, of the resources that matter. Where one GPU size comes with more than MAX_PROFILES
different amounts of CPU and memory they are merged into as many profiles, each with an amount rounded up, for plans,
and one rounded down, for bounds: what fits rounded up fits; what does not fit rounded down does not fit.
Rows of one type that the same patterns fit are one *state*, so the size of all this does not follow the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from extender.packing.problem import Layout, QueueClass
from extender.packing.reduction import Reduction
from extender.packing.resources import plus, times
from extender.packing.table import BoolVector, IntMatrix, IntVector

MAX_PROFILES: Final = 4
MAX_PATTERNS: Final = 6000


@dataclass(frozen=True, eq=False)
class Shapes:
    """What the GPU pods ask for.

    Attributes:
        at: places in ``problem.resources`` of the resources that matter, GPUs first.
        up, down: int64 [shape, resource of ``at``], rounded.
        of_class: class -> shape.
    """

    at: tuple[int, ...]
    up: IntMatrix
    down: IntMatrix
    of_class: dict[int, int]

    @classmethod
    def of(cls, reduction: Reduction, sides: Sequence[int], profiles: int = MAX_PROFILES) -> Shapes:
        """Return the shapes of the GPU classes over the GPU resources and ``sides``."""
        classes = reduction.problem.classes
        gpus = reduction.gpu_places
        at = (*gpus, *(side for side in sides if side not in gpus))
        by_size: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}
        for number in reduction.gpu_classes:
            asked = tuple(classes[number].requests[place] for place in at)
            by_size.setdefault(asked[: len(gpus)], {}).setdefault(asked[len(gpus) :], []).append(number)
        up: list[list[int]] = []
        down: list[list[int]] = []
        of_class: dict[int, int] = {}
        for size in sorted(by_size):
            for group in _profiles(by_size[size], classes, profiles):
                amounts = np.array([side for side, _ in group], dtype=np.int64).reshape(len(group), -1)
                of_class.update((number, len(up)) for _, numbers in group for number in numbers)
                up.append([*size, *amounts.max(axis=0).tolist()])
                down.append([*size, *amounts.min(axis=0).tolist()])
        shape = (len(up), len(at))
        return cls(at, np.array(up, np.int64).reshape(shape), np.array(down, np.int64).reshape(shape), of_class)

    @property
    def exact(self) -> bool:
        """Tell whether nothing was rounded."""
        return bool((self.up == self.down).all())


def _profiles(
    by_side: dict[tuple[int, ...], list[int]], classes: Sequence[QueueClass], limit: int
) -> Iterable[list[tuple[tuple[int, ...], list[int]]]]:
    """Return the sides of one size in at most ``limit`` groups of neighbours with about as many pods each."""
    sides = sorted(by_side)
    if len(sides) <= limit:
        return [[(side, by_side[side])] for side in sides]
    weights = np.array([sum(len(classes[number]) for number in by_side[side]) for side in sides])
    amounts = np.array(sides, dtype=np.float64)
    rank = np.argsort((amounts / np.maximum(amounts.max(axis=0), 1)).max(axis=1), kind="stable")
    share = (np.cumsum(weights[rank]) - weights[rank] / 2) / weights.sum()
    group_of = np.minimum((share * limit).astype(np.int64), limit - 1)
    groups = [[(sides[i], by_side[sides[i]]) for i in rank[group_of == g].tolist()] for g in range(limit)]
    return [group for group in groups if group]


@dataclass(frozen=True, eq=False)
class States:
    """The rows, grouped by type, by being unused, and by which patterns fit.

    Attributes:
        kind: int [state], the type.
        unused: bool [state].
        rows: per state its rows, in order.
        fits: bool [state, pattern].
    """

    kind: IntVector
    unused: BoolVector
    rows: tuple[IntVector, ...]
    fits: BoolVector

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> IntVector:
        """Return how many rows each state has."""
        return np.array([len(rows) for rows in self.rows], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Patterns:
    """All patterns that fit some row, and which fit where.

    Attributes:
        shapes: their alphabet.
        counts: int64 [pattern, shape]; the empty pattern is the first.
        states: by the amounts rounded up: what can be done.
        loose: by the amounts rounded down: what a bound has to allow; the same as ``states`` when nothing is rounded.
    """

    shapes: Shapes
    counts: IntMatrix
    states: States
    loose: States

    @classmethod
    def of(cls, reduction: Reduction, sides: Sequence[int]) -> Patterns | None:
        """Enumerate; None when there are more than MAX_PATTERNS even with one profile per size."""
        for profiles in range(MAX_PROFILES, 0, -1):
            shapes = Shapes.of(reduction, sides, profiles)
            amounts, state_of_row = _distinct(reduction, shapes)
            counts = _enumerate(shapes.down, amounts)
            if counts is not None:
                loose = _states(reduction, _loads(counts, shapes.down), amounts, state_of_row)
                exact = shapes.exact
                states = loose if exact else _states(reduction, _loads(counts, shapes.up), amounts, state_of_row)
                return cls(shapes, counts, states, loose)
            if len(shapes.up) == len({tuple(row) for row in shapes.up[:, : len(reduction.gpu_places)].tolist()}):
                return None
        return None


def _distinct(reduction: Reduction, shapes: Shapes) -> tuple[IntMatrix, IntVector]:
    """Return the distinct free amounts of the rows, and which of them each row has."""
    free = np.maximum(reduction.problem.free[list(shapes.at)][:, reduction.rows], 0).T
    amounts, inverse = np.unique(free, axis=0, return_inverse=True)
    return amounts, inverse.ravel()


def _enumerate(loads: IntMatrix, amounts: IntMatrix) -> IntMatrix | None:
    """Return the counts of every pattern that fits one of ``amounts``; None when there are too many."""
    largest = _undominated(amounts)
    counts = np.zeros((1, len(loads)), dtype=np.int64)
    used = np.zeros((1, loads.shape[1]), dtype=np.int64)
    for shape, load in enumerate(loads):
        new_counts, new_used = counts, used
        while len(new_counts):
            more = plus(new_used, load)
            fits = np.all(more[:, None, :] <= largest[None], axis=2).any(axis=1)
            new_counts, new_used = new_counts[fits].copy(), more[fits]
            new_counts[:, shape] += 1
            counts, used = np.concatenate([counts, new_counts]), np.concatenate([used, new_used])
            if len(counts) > MAX_PATTERNS:
                return None
    return counts


def _loads(counts: IntMatrix, asked: IntMatrix) -> IntMatrix:
    """Return int64 [pattern, resource], what the pods of each pattern ask for together."""
    loads = np.zeros((len(counts), asked.shape[1]), dtype=np.int64)
    for shape, amounts in enumerate(asked):
        loads = plus(loads, times(amounts, counts[:, shape, None]))
    return loads


def _undominated(amounts: IntMatrix) -> IntMatrix:
    """Return the amounts that no other ones exceed everywhere: what fits somewhere fits one of these."""
    order = amounts[np.lexsort(amounts.T)[::-1]]
    kept: list[IntVector] = []
    for row in order:
        if not kept or not (np.array(kept) >= row).all(axis=1).any():
            kept.append(row)
    return np.array(kept, dtype=np.int64).reshape(len(kept), amounts.shape[1])


def _states(reduction: Reduction, loads: IntMatrix, amounts: IntMatrix, of_row: IntVector) -> States:
    rows, problem = reduction.rows, reduction.problem
    fits = np.ones((len(amounts), len(loads)), dtype=np.bool_)
    for resource in range(loads.shape[1]):
        fits &= loads[:, resource][None, :] <= amounts[:, resource][:, None]
    distinct, fit_of = np.unique(np.packbits(fits, axis=1), axis=0, return_inverse=True)
    example = np.zeros(len(distinct), dtype=np.int64)
    example[fit_of.ravel()] = np.arange(len(amounts))
    keys = np.stack([reduction.type_of_row[rows], problem.unused[rows], fit_of.ravel()[of_row]], axis=1)
    states, inverse = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    groups = np.split(rows[order], np.cumsum(np.bincount(inverse.ravel(), minlength=len(states)))[:-1])
    return States(states[:, 0], states[:, 1].astype(np.bool_), tuple(groups), fits[example[states[:, 2]]])


def pattern_of_row(patterns: Patterns, layout: Layout) -> dict[int, tuple[int, ...]]:
    """Return row -> counts by shape of what a layout places there."""
    found: dict[int, list[int]] = {}
    for at, shape in patterns.shapes.of_class.items():
        for row, count in layout[at]:
            found.setdefault(row, [0] * len(patterns.shapes.up))[shape] += count
    return {row: tuple(counts) for row, counts in found.items()}
