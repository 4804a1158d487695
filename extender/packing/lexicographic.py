"""One CP-SAT solve per level of the objective, the next with the result of the last as a constraint.

Successive solves and one worker: folding the levels into one weighted objective kept the same models from being proved
in a hundred times the time (docs/background.md, "Planning"). Limits are in CP-SAT's deterministic seconds, so that the
same problem gives the same plan on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ortools.sat.python import cp_model

from extender.packing.problem import Goal, Level

Goals = Sequence[tuple[Level, cp_model.LinearExprT]]
_EPSILON = 1e-6
_MOST_SECONDS: Final = {Goal.OPENED: 0.5, Goal.PARTIAL: 0.05}
"""What a level that counts nodes may use of the budget: it decides less than those that count pods."""


@dataclass
class Budget:
    """The deterministic seconds that are left, and the seed; spent by every solve of one plan."""

    seconds: float
    seed: int = 0


@dataclass
class Result:
    """What the solves came to.

    Attributes:
        values: value of each variable by its index, empty when nothing was found.
        bounds: per level that was looked at, an upper bound of its (signed) value, given the levels before it.
    """

    values: dict[int, int] = field(default_factory=dict)
    bounds: dict[Level, int] = field(default_factory=dict)

    def value(self, variable: cp_model.IntVar) -> int:
        """Return the value of one variable."""
        return self.values[variable.index]


class IntegerModel:
    """A CP-SAT model whose variables all have a hint."""

    def __init__(self) -> None:
        self.model = cp_model.CpModel()
        self._variables: list[cp_model.IntVar] = []

    def variable(self, most: int, hint: int) -> cp_model.IntVar:
        """Return a new integer of 0 to ``most``."""
        variable = self.model.new_int_var(0, most, "")
        self.model.add_hint(variable, int(hint))
        self._variables.append(variable)
        return variable

    def some_or_none(
        self, starts: cp_model.IntVar, parts: Sequence[tuple[cp_model.LinearExprT, int]], least: int
    ) -> None:
        """Place ``least`` pods of a gang or more if it starts, else none; ``parts``: (sum of variables, pods)."""
        if least >= sum(pods for _, pods in parts):
            for count, pods in parts:
                self.model.add(count == pods * starts)
            return
        for count, pods in parts:
            self.model.add(count <= pods * starts)
        self.model.add(sum(count for count, _ in parts) >= least * starts)

    def solve(self, goals: Goals, budget: Budget) -> Result:
        """Maximise each goal in turn, the most important first, until one is not proved; spend from the budget."""
        result = Result()
        for level, goal in goals:
            limit = min(budget.seconds, _MOST_SECONDS.get(level.goal, budget.seconds))
            if limit <= 0:
                break
            self.model.maximize(goal)
            solver = _solver(limit, budget.seed)
            status = solver.solve(self.model)
            budget.seconds -= solver.deterministic_time
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break
            result.values = {variable.index: solver.value(variable) for variable in self._variables}
            result.bounds[level] = math.floor(solver.best_objective_bound + _EPSILON)
            if status != cp_model.OPTIMAL and level.counts_pods:
                break
            self._hold(goal, round(solver.objective_value), result.values)
        return result

    def _hold(self, goal: cp_model.LinearExprT, value: int, values: Mapping[int, int]) -> None:
        """Keep a level where it is, and start the next from there."""
        self.model.add(goal >= value)
        self.model.clear_hints()
        for variable in self._variables:
            self.model.add_hint(variable, values[variable.index])


def _solver(seconds: float, seed: int) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = seconds
    return solver
