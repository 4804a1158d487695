"""The pattern LP by column generation: prices of shapes per type, a bound that is proved, and the columns worth having.

The LP chooses how many rows of each state take which pattern, and how many pods of each class go to which type. Its
dual gives every shape a price per type. A bound does not need the LP to be solved, or solved accurately: for *any*
prices ``p >= 0`` and multipliers ``m >= 0`` of the levels already fixed at values V,

    bound = sum over states of rows * max over patterns that fit of (price of the pattern - cost of opening)
          + sum over classes of pods * max over types of (worth + m * GPUs - price of its shape)  - sum of m * V

is an upper bound of the level, or of the sum of several (weak duality), so it is computed in integers from prices
rounded to 2^-20. A gang counts with the best choice of as many of its pods as it needs, or 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from ortools.linear_solver import pywraplp

from extender.packing.patterns import MAX_PATTERNS, Patterns, States
from extender.packing.problem import Goal, Level
from extender.packing.reduction import Bundle, Reduction
from extender.packing.resources import MAX_AMOUNT
from extender.packing.table import IntMatrix

Column = tuple[int, int]
"""(state, pattern)."""

SCALE: Final = 1 << 20
# Times the pods of the largest pattern still within 64 bits. Any prices prove a bound, so these may be cut off.
_MOST_PRICE: Final = MAX_AMOUNT // (2 * MAX_PATTERNS)
_WORTH_ADDING: Final = 1e-6
MAX_ROUNDS: Final = 60


@dataclass
class Pool:
    """The columns found so far; it grows from level to level."""

    patterns: Patterns
    columns: dict[Column, None] = field(default_factory=dict)

    def add(self, columns: Iterable[Column]) -> None:
        """Add columns."""
        self.columns.update(dict.fromkeys(columns))


class PriceProblem:
    """One level, or the sum of several, as an LP over the columns of a pool."""

    def __init__(
        self, reduction: Reduction, pool: Pool, levels: Sequence[Level], fixed: Sequence[tuple[Level, int]]
    ) -> None:
        self._reduction, self._pool, self._patterns = reduction, pool, pool.patterns
        self._levels, self._fixed = levels, fixed
        self._opening = any(level.goal is Goal.OPENED for level in levels)
        self._bundles = reduction.bundles(pool.patterns.shapes.of_class)
        self._best_bound = SCALE * sum(self._worth(bundle) * bundle.pods for bundle in self._bundles)
        self._best_prices = np.zeros((reduction.types, len(pool.patterns.shapes.up)), dtype=np.int64)
        self._build()

    # -- the LP ------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        lp, shapes = self._lp, self._patterns.shapes
        infinity = lp.infinity()
        self._objective = lp.Objective()
        self._objective.SetMaximization()
        self._links = {
            (kind, shape): lp.Constraint(-infinity, 0.0)
            for kind in range(self._reduction.types)
            for shape in range(len(shapes.up))
        }
        self._rooms = [lp.Constraint(-infinity, float(size)) for size in self._patterns.states.sizes]
        self._floors = [lp.Constraint(float(value), infinity) for _, value in self._fixed]
        self._add_pods()
        self._variables: dict[Column, pywraplp.Variable] = {}
        for column in self._pool.columns:
            self._add_column(column)

    def _add_pods(self) -> None:
        lp = self._lp
        gangs = {gang: lp.NumVar(0.0, 1.0, "") for gang in self._reduction.gangs()}
        enough = self._enough(gangs)
        for bundle in self._bundles:
            if bundle.gang < 0:
                supply = lp.Constraint(-lp.infinity(), float(bundle.pods))
            else:
                supply = lp.Constraint(-lp.infinity() if bundle.gang in enough else 0.0, 0.0)
                supply.SetCoefficient(gangs[bundle.gang], -float(bundle.pods))
            for kind in bundle.types:
                variable = lp.NumVar(0.0, lp.infinity(), "")
                supply.SetCoefficient(variable, 1.0)
                if bundle.gang in enough:
                    enough[bundle.gang].SetCoefficient(variable, 1.0)
                self._links[kind, bundle.shape].SetCoefficient(variable, 1.0)
                self._objective.SetCoefficient(variable, float(self._worth(bundle)))
                for (level, _), floor in zip(self._fixed, self._floors, strict=True):
                    floor.SetCoefficient(variable, float(bundle.worth(level)))

    def _enough(self, gangs: Mapping[int, pywraplp.Variable]) -> dict[int, pywraplp.Constraint]:
        """Add for each gang that may start without some of its pods that it starts with enough of them."""
        pods = Counter[int]()
        for bundle in self._bundles:
            pods[bundle.gang] += bundle.pods
        found = {}
        for gang, least in self._reduction.least_gpu_pods().items():
            if least < pods[gang]:
                found[gang] = self._lp.Constraint(0.0, self._lp.infinity())
                found[gang].SetCoefficient(gangs[gang], -float(max(0, least)))
        return found

    def _add_column(self, column: Column) -> None:
        state, pattern = column
        kind = int(self._patterns.states.kind[state])
        variable = self._lp.NumVar(0.0, self._lp.infinity(), "")
        self._variables[column] = variable
        self._rooms[state].SetCoefficient(variable, 1.0)
        for shape in np.flatnonzero(self._patterns.counts[pattern]).tolist():
            self._links[kind, shape].SetCoefficient(variable, -float(self._patterns.counts[pattern, shape]))
        if self._opening and self._patterns.states.unused[state]:
            self._objective.SetCoefficient(variable, -1.0)

    def _worth(self, bundle: Bundle) -> int:
        return sum(bundle.worth(level) for level in self._levels)

    # -- column generation -------------------------------------------------------------------------------------

    def solve(self, target: int) -> int:
        """Generate columns until none improves, or until the bound is down to ``target``; return the best bound."""
        for _ in range(MAX_ROUNDS):
            if self._lp.Solve() != pywraplp.Solver.OPTIMAL:
                break
            prices, multipliers = self._dual()
            bound = self._bound(prices, multipliers)
            if bound < self._best_bound:
                self._best_bound, self._best_prices = bound, prices
            if bound // SCALE <= target or not self._price(prices):
                break
        return self._best_bound // SCALE

    def near(self, value: int, most: int) -> tuple[list[Column], bool]:
        """Return the columns that a layout worth more than ``value`` may use, and whether these are all.

        A row that takes a pattern worth less than its state's best lowers the bound by the difference. At most
        ``most`` are returned, the best first.
        """
        states = self._patterns.states
        worth = np.where(states.fits, self._pattern_worth(states, self._best_prices), -SCALE)
        lost = np.maximum(worth.max(axis=1), 0)[:, None] - worth
        near = np.argwhere(states.fits & (lost <= self._best_bound - (value + 1) * SCALE))
        order = np.argsort(lost[near[:, 0], near[:, 1]], kind="stable")[:most]
        return [(int(state), int(pattern)) for state, pattern in near[order]], len(near) <= most

    def _dual(self) -> tuple[IntMatrix, list[int]]:
        """Return the prices int64 [type, shape] and the multipliers, times SCALE; never negative."""
        prices = np.zeros((self._reduction.types, len(self._patterns.shapes.up)), dtype=np.int64)
        for (kind, shape), link in self._links.items():
            prices[kind, shape] = max(0, min(_MOST_PRICE, round(link.dual_value() * SCALE)))
        return prices, [max(0, round(-floor.dual_value() * SCALE)) for floor in self._floors]

    def _bound(self, prices: IntMatrix, multipliers: list[int]) -> int:
        loose = self._patterns.loose
        # From here on Python's integers: the worth of one node fits into 64 bits, that of thousands may not.
        best: list[int] = np.where(loose.fits, self._pattern_worth(loose, prices), 0).max(axis=1).tolist()
        total = sum(max(0, worth) * len(rows) for worth, rows in zip(best, loose.rows, strict=True))
        total += sum(self._gains(prices, multipliers))
        total -= sum(m * value for m, (_, value) in zip(multipliers, self._fixed, strict=True))
        return total

    def _pattern_worth(self, states: States, prices: IntMatrix) -> IntMatrix:
        """Return int64 [state, pattern], times SCALE: the price of what is in it less the cost of opening a node."""
        worth: IntMatrix = (prices @ self._patterns.counts.T)[states.kind]
        return worth - SCALE * states.unused[:, None] if self._opening else worth

    def _gains(self, prices: IntMatrix, multipliers: list[int]) -> list[int]:
        """Return what the pods of each class or gang gain at the prices, times SCALE."""
        singles, gangs = [], dict[int, list[tuple[int, int]]]()
        for bundle in self._bundles:
            worth = self._worth(bundle) * SCALE
            worth += sum(m * bundle.worth(level) for m, (level, _) in zip(multipliers, self._fixed, strict=True))
            gain = worth - int(prices[list(bundle.types), bundle.shape].min())
            if bundle.gang < 0:
                singles.append(max(0, gain) * bundle.pods)
            else:
                gangs.setdefault(bundle.gang, []).append((gain, bundle.pods))
        least = self._reduction.least_gpu_pods()
        return [*singles, *(max(0, most_gained(parts, least[gang])) for gang, parts in gangs.items())]

    def _price(self, prices: IntMatrix) -> bool:
        """Add for each state the pattern worth most; return whether any was worth adding."""
        states = self._patterns.states
        # Of patterns worth the same the one with the most pods: it leaves the least for another round.
        value = (self._patterns.counts @ prices.T) / SCALE + 1e-9 * self._patterns.counts.sum(axis=1)[:, None]
        worth = np.where(states.fits, value.T[states.kind], -1.0)
        best = worth.argmax(axis=1)
        rents = np.array([room.dual_value() for room in self._rooms])
        costs = states.unused * (1.0 if self._opening else 0.0)
        gains = worth[np.arange(len(states)), best] - costs - rents
        found = False
        for state in np.flatnonzero(gains > _WORTH_ADDING).tolist():
            column = (state, int(best[state]))
            if column not in self._pool.columns:
                self._pool.columns[column] = None
                self._add_column(column)
                found = True
        return found


def most_gained(parts: Iterable[tuple[int, int]], least: int) -> int:
    """Return the most that ``least`` or more pods can gain; ``parts``: (gain of a pod, pods)."""
    total = 0
    for gain, pods in sorted(parts, reverse=True):
        taken = pods if gain > 0 else max(0, min(pods, least))
        total, least = total + gain * taken, least - taken
    return total
