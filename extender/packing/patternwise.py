"""The pattern model: how many rows of each state take which pattern, and how many pods of each class go to which type.

There are too many patterns for all of them. It is given the columns that column generation has found, whose LP says the
bound, or all that a better plan could use: what it proves of those is proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from ortools.sat.python import cp_model

from extender.packing.columns import Column
from extender.packing.greedy import Fill
from extender.packing.lexicographic import Budget, IntegerModel, Result
from extender.packing.patterns import Patterns, pattern_of_row
from extender.packing.problem import Goal, Layout, Level
from extender.packing.reduction import Bundle, Reduction
from extender.packing.typecounts import gpus_placed, pods_per_type


class Patternwise:
    """The model while it is built, solved and read."""

    def __init__(self, reduction: Reduction, patterns: Patterns, columns: Iterable[Column], hint: Layout) -> None:
        self._reduction, self._problem, self._patterns = reduction, reduction.problem, patterns
        self._integers = IntegerModel()
        self._taken = self._problem.gpus_taken(hint)
        bundles = reduction.bundles(patterns.shapes.of_class)
        self._count = pods_per_type(self._integers, reduction, bundles, hint)
        self._columns = self._column_variables(columns, hint)
        self._link()

    def solve(
        self, levels: Iterable[Level], budget: Budget, fixed: Iterable[tuple[Level, int]] = ()
    ) -> tuple[Layout, Result]:
        """Maximise those levels in turn that the model has, with those of ``fixed`` at their values."""
        for level, value in fixed:
            self._integers.model.add(self._goal(level) >= value)
        goals = [(level, self._goal(level)) for level in levels if level.goal in {Goal.GPUS, Goal.OPENED}]
        result = self._integers.solve(goals, budget)
        return self._layout(result), result

    def _column_variables(self, columns: Iterable[Column], hint: Layout) -> dict[Column, cp_model.IntVar]:
        states = self._patterns.states
        hints = Counter(hinted_columns(self._patterns, hint).values())
        found = {}
        by_state: dict[int, list[cp_model.IntVar]] = {}
        for column in columns:
            found[column] = self._integers.variable(len(states.rows[column[0]]), hints[column])
            by_state.setdefault(column[0], []).append(found[column])
        for state, variables in by_state.items():
            self._integers.model.add(sum(variables) <= len(states.rows[state]))
        return found

    def _link(self) -> None:
        counts, states = self._patterns.counts, self._patterns.states
        supply: dict[tuple[int, int], list[cp_model.LinearExprT]] = {}
        for (state, pattern), variable in self._columns.items():
            for shape in np.flatnonzero(counts[pattern]).tolist():
                supply.setdefault((int(states.kind[state]), shape), []).append(int(counts[pattern, shape]) * variable)
        demand: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for (bundle, kind), variable in self._count.items():
            demand.setdefault((kind, bundle.shape), []).append(variable)
        for key, variables in demand.items():
            self._integers.model.add(sum(variables) <= sum(supply.get(key, [])))

    def _goal(self, level: Level) -> cp_model.LinearExprT:
        if level.goal is Goal.OPENED:
            return -sum(v for (state, _), v in self._columns.items() if self._patterns.states.unused[state])
        return gpus_placed(self._count, level)

    def _layout(self, result: Result) -> Layout:
        """Deal the pods out to rows: of each state, first the rows that the hint uses."""
        fill = Fill.empty(self._problem)
        left: dict[tuple[int, int], list[tuple[Bundle, int]]] = {}
        for (bundle, kind), variable in self._count.items() if result.values else ():
            left.setdefault((kind, bundle.shape), []).append((bundle, result.value(variable)))
        rows = {state: self._row_order(state) for state in range(len(self._patterns.states))}
        for (state, pattern), variable in self._columns.items() if result.values else ():
            kind, counts = int(self._patterns.states.kind[state]), self._patterns.counts[pattern]
            for _ in range(result.value(variable)):
                row = rows[state].pop()
                for shape in np.flatnonzero(counts).tolist():
                    left[kind, shape] = _deal(fill, row, int(counts[shape]), left.get((kind, shape), []))
        return fill.layout()

    def _row_order(self, state: int) -> list[int]:
        """Return the rows of a state, the ones to use first last."""
        rows = self._patterns.states.rows[state]
        ordered: list[int] = rows[np.lexsort((-rows, self._taken[rows]))].tolist()
        return ordered


def _deal(fill: Fill, row: int, count: int, left: list[tuple[Bundle, int]]) -> list[tuple[Bundle, int]]:
    """Place ``count`` pods of one shape on a row, as far as they have room; return what is left of each bundle."""
    after = []
    for bundle, pods in left:
        most = min(count, pods)
        took = 0
        for at in bundle.classes if most else ():
            took += fill.keep(at, row, most - took)
        count -= took
        after.append((bundle, pods - took))
    return after


def hinted_columns(patterns: Patterns, layout: Layout) -> dict[int, Column]:
    """Return row -> column of what a layout places on each row, even if it would not fit rounded up."""
    index = {counts.tobytes(): at for at, counts in enumerate(patterns.counts)}
    state_of = {int(row): state for state, rows in enumerate(patterns.states.rows) for row in rows}
    found = {}
    for row, counts in pattern_of_row(patterns, layout).items():
        pattern = index.get(np.array(counts, dtype=np.int64).tobytes())
        if pattern is not None:
            found[row] = (state_of[row], pattern)
    return found
