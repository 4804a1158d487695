"""The exact model for small problems: an integer per class and row. Every resource, every pod, every level.

Its size is classes times rows, and so is the time it takes; ``variables_of`` tells before it is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from ortools.sat.python import cp_model

from extender.packing.lexicographic import Budget, IntegerModel, Result
from extender.packing.problem import Goal, Layout, Level
from extender.packing.reduction import Reduction


def variables_of(reduction: Reduction) -> int:
    """Return how many integers the model would have."""
    return int(reduction.alone[list(reduction.placeable)].sum())


class Nodewise:
    """The model while it is built, solved and read."""

    def __init__(self, reduction: Reduction, hint: Layout) -> None:
        self._reduction, self._problem = reduction, reduction.problem
        self._integers = IntegerModel()
        self._model = self._integers.model
        self._count: dict[tuple[int, int], cp_model.IntVar] = {}
        self._by_row: dict[int, list[int]] = {}
        gangs = reduction.gangs()
        starts = {gang: self._integers.variable(1, any(hint[at] for at in own)) for gang, own in gangs.items()}
        placed = {at: self._add_class(at, dict(hint[at])) for at in reduction.placeable}
        for gang, own in gangs.items():
            parts = [(placed[at], len(self._problem.classes[at])) for at in own]
            self._integers.some_or_none(starts[gang], parts, self._problem.gangs[gang].needed)
        for row in self._by_row:
            self._add_room(row)
        self._taken = self._problem.gpus_taken(hint)

    def solve(self, levels: Iterable[Level], budget: Budget) -> tuple[Layout, Result]:
        """Maximise the levels in turn; return the best layout found, and what is proved of it."""
        result = self._integers.solve([(level, self._goal(level)) for level in levels], budget)
        rows: list[dict[int, int]] = [{} for _ in self._problem.classes]
        for (at, row), variable in self._count.items() if result.values else ():
            if count := result.value(variable):
                rows[at][row] = count
        return tuple(tuple(sorted(found.items())) for found in rows), result

    def _add_class(self, at: int, hint: dict[int, int]) -> cp_model.LinearExprT:
        """Add the variables of a class; return how many of its pods are placed."""
        group = self._problem.classes[at]
        mine = []
        for row in np.flatnonzero(self._reduction.alone[at]).tolist():
            self._count[at, row] = self._integers.variable(self._room(at, row), hint.get(row, 0))
            self._by_row.setdefault(row, []).append(at)
            mine.append(self._count[at, row])
        if group.gang < 0:
            self._model.add(sum(mine) <= len(group))
        return sum(mine)

    def _room(self, at: int, row: int) -> int:
        group = self._problem.classes[at]
        rooms = [int(self._problem.free[r, row]) // n for r, n in enumerate(group.requests) if n > 0]
        return min(len(group), *rooms)

    def _add_room(self, row: int) -> None:
        """Keep what is placed on a row within what is free; amounts are divided by what all of them share."""
        for resource in range(len(self._problem.resources)):
            asks = [(at, self._problem.classes[at].requests[resource]) for at in self._by_row[row]]
            asks = [(at, amount) for at, amount in asks if amount > 0]
            if not asks:
                continue
            unit = int(np.gcd.reduce([amount for _, amount in asks]))
            load = sum(amount // unit * self._count[at, row] for at, amount in asks)
            self._model.add(load <= int(self._problem.free[resource, row]) // unit)

    def _goal(self, level: Level) -> cp_model.LinearExprT:
        if level.goal is Goal.OPENED:
            return -sum(self._opened())
        if level.goal is Goal.PARTIAL:
            return -sum(self._partial())
        mine = [(key, v) for key, v in self._count.items() if self._problem.classes[key[0]].priority == level.priority]
        if level.goal is Goal.GPUS:
            return sum(self._problem.classes[at].gpus * variable for (at, _), variable in mine)
        return sum(variable for (at, _), variable in mine if not self._problem.classes[at].gpus)

    def _load(self, row: int) -> list[tuple[int, cp_model.IntVar]]:
        """Return (whole GPUs, variable) of what may be placed on a row and takes whole GPUs."""
        classes = self._problem.classes
        return [
            (classes[at].gpus, self._count[at, row])
            for at in self._by_row[row]
            if classes[at].whole and classes[at].gpus
        ]

    def _opened(self) -> Iterator[cp_model.IntVar]:
        for row in self._by_row:
            if self._problem.unused[row] and (load := self._load(row)):
                opened = self._integers.variable(1, self._taken[row] > 0)
                self._model.add(sum(gpus * v for gpus, v in load) <= int(self._problem.gpus_free[row]) * opened)
                yield opened

    def _partial(self) -> Iterator[cp_model.LinearExprT]:
        """Yield 1 for each row that is left with some GPUs free and some not; rows that cannot change are left out."""
        for row in self._by_row:
            free, total = int(self._problem.gpus_free[row]), int(self._problem.gpus_total[row])
            if not free or not (load := self._load(row)):
                continue
            taken = sum(gpus * v for gpus, v in load)
            partial = self._integers.variable(1, 0 < free - self._taken[row] < total)
            if free < total:  # partly used as it is, until it is full
                self._model.add(taken >= free * (1 - partial))
            else:  # unused: neither empty nor full
                full = self._integers.variable(1, self._taken[row] == free)
                self._model.add(taken >= free * full)
                self._model.add(taken <= free * (full + partial))
            yield partial
