"""A proven upper bound on the GPUs that any placement of some pods can use, and what one more GPU of a kind is worth.

A pattern is what one node can hold at once. The pattern LP takes patterns, in fractions, for the nodes of each state:

    maximise    sum of GPUs in the patterns taken
    so that     patterns taken on a state <= its nodes                         (price: nodes)
                pods of a shape in them <= those that wait                     (price: shapes)
                CPU in them <= what pods without GPUs leave                    (price: cpu)
                memory in those of a kind <= its free memory                   (price: memory)

Patterns come in as they are needed (column generation): for given prices the best pattern is a knapsack, solved for
all states of nodes of a kind in one table. Any prices prove a bound, whatever the solver did:

    bound = sum pods x price + CPU x price + memory x price + sum over states of nodes x value of the best pattern

so the answer is a bound even when rounds run out; ``gap`` is what it may be too high by. Where a table would be too
large, the best pattern is valued as if GPUs alone counted and pods could be cut, which is no less. Source: Gilmore and
Gomory, 1961; prices are smoothed as in Wentges, 1997, without which the last rounds are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from ortools.math_opt.python import mathopt

from extender.packing.bound_problem import BoundProblem

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
_TRIFLE: Final = 1e-7
_SMOOTHING: Final = 0.5
# GPUs x CPU units of the largest node of a kind; a row of a table costs as much as so many cells, however short it is.
_MOST_CELLS: Final = 2**22
_ROW_CELLS: Final = 2**10


class Column(NamedTuple):
    """Shapes (with how often) that a node of a state can hold at once."""

    state: int
    shapes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The answer.

    Attributes:
        gpus: no placement uses more.
        reached: GPUs of the best fractional placement found; ``gpus`` - ``reached`` is the gap.
        price_of_kind: float [kind], GPUs gained by one more free GPU on a kind; 0 where a kind has none free.
        columns: the patterns found, to begin the next solution with.
    """

    gpus: float
    reached: float
    price_of_kind: Floats
    columns: tuple[Column, ...]

    @property
    def gap(self) -> float:
        """Return by how much the bound may be too high, in GPUs."""
        return max(0.0, self.gpus - self.reached)


@dataclass(frozen=True, eq=False, slots=True)
class Prices:
    """Prices of shapes (float [shape]), of a CPU unit, of a MiB (float [kind]); of nodes (float [state])."""

    shapes: Floats
    cpu: float
    memory: Floats
    nodes: Floats


def solve(problem: BoundProblem, *, rounds: int = 400, gap: float = 0.5, start: Iterable[Column] = ()) -> Bound:
    """Prove a bound.

    Args:
        problem: pods and free state.
        rounds: at most so many solutions of the LP; more make the bound better.
        gap: good enough, in GPUs.
        start: patterns of an earlier answer to a problem with the same shapes and states.
    """
    if not len(problem.gpus) or not len(problem.nodes):
        return Bound(0.0, 0.0, np.zeros(problem.allowed.shape[1]), ())
    master, pricing = _Master(problem, start), _Pricing(problem)
    best, reached = _Proof(np.inf, master.first_prices(), np.zeros(len(problem.nodes))), 0.0
    for _ in range(rounds):
        told = master.solve()
        reached = reached if told is None else told[0]
        if best.gpus - reached <= gap:
            break
        # Where smoothed prices have nothing new to say, those of the LP itself have, or it is solved.
        for prices in [best.prices] if told is None else [_between(best.prices, told[1]), told[1]]:
            values, columns = pricing.best(prices)
            best = min(best, _Proof(_bound(problem, prices, values), prices, values), key=lambda proof: proof.gpus)
            if master.add_all(columns):
                break
        else:
            break
    best = min(best, *_plain(problem), key=lambda proof: proof.gpus)
    return Bound(best.gpus, reached, _price_of_kind(problem, best.values), tuple(master.columns))


class _Proof(NamedTuple):
    """A bound in GPUs, the prices that prove it, and what the best patterns (float [state]) are worth at them."""

    gpus: float
    prices: Prices
    values: Floats


def _plain(problem: BoundProblem) -> Iterator[_Proof]:
    """Yield what needs no pattern: no more GPUs are used than are asked for, nor than are free."""
    kinds, states = problem.allowed.shape[1], len(problem.nodes)
    nothing, free = np.zeros(states), problem.free_gpus.astype(np.float64)
    for shapes, values in ((problem.gpus.astype(np.float64), nothing), (np.zeros(len(problem.gpus)), free)):
        prices = Prices(shapes, 0.0, np.zeros(kinds), nothing)
        yield _Proof(_bound(problem, prices, values), prices, values)


def _between(centre: Prices, prices: Prices) -> Prices:
    keep = _SMOOTHING
    return Prices(
        keep * centre.shapes + (1 - keep) * prices.shapes,
        keep * centre.cpu + (1 - keep) * prices.cpu,
        keep * centre.memory + (1 - keep) * prices.memory,
        prices.nodes,
    )


def _bound(problem: BoundProblem, prices: Prices, value: Floats) -> float:
    demand = float(problem.pods @ prices.shapes) + problem.cpu_for_gpu_pods * prices.cpu
    demand += float(problem.memory_of_kind @ prices.memory)
    return demand + float(problem.nodes @ value)


def _price_of_kind(problem: BoundProblem, value: Floats) -> Floats:
    """Return the mean over a kind's free GPUs of the best pattern's value at the last prices."""
    kinds = problem.allowed.shape[1]
    worth = np.bincount(problem.kind, weights=problem.nodes * value, minlength=kinds)
    free = problem.free_gpus.astype(np.float64)
    gpus = np.bincount(problem.kind, weights=problem.nodes * free, minlength=kinds)
    return worth / np.maximum(gpus, 1.0)


class _Master:
    """The LP over the patterns known so far. One instance a solution; GLOP goes on from its last basis."""

    def __init__(self, problem: BoundProblem, start: Iterable[Column]) -> None:
        self.problem = problem
        self.columns: dict[Column, None] = {}
        self._model = mathopt.Model()
        self._nodes = [self._row(float(n)) for n in problem.nodes]
        self._pods = [self._row(float(n)) for n in problem.pods]
        self._cpu = self._row(float(problem.cpu_for_gpu_pods))
        self._memory = [self._row(float(n)) for n in problem.memory_of_kind]
        self._model.objective.is_maximize = True
        self.add_all(start)
        self._solver = mathopt.IncrementalSolver(self._model, mathopt.SolverType.GLOP)

    def _row(self, most: float) -> mathopt.LinearConstraint:
        return self._model.add_linear_constraint(ub=most)

    def first_prices(self) -> Prices:
        """Return prices to begin with: half the GPUs of a shape, as if everything were contended a little."""
        kinds, states = self.problem.allowed.shape[1], len(self.problem.nodes)
        return Prices(np.multiply(0.5, self.problem.gpus), 0.0, np.zeros(kinds), np.zeros(states))

    def add_all(self, columns: Iterable[Column]) -> int:
        """Add the columns that are new; return how many were."""
        return sum(self.add(column) for column in columns)

    def add(self, column: Column) -> bool:
        """Add a column unless it is known."""
        if column in self.columns:
            return False
        self.columns[column] = None
        taken = self._model.add_variable(lb=0.0)
        self._nodes[column.state].set_coefficient(taken, 1.0)
        gpus = cpu = memory = 0
        for shape, count in column.shapes:
            self._pods[shape].set_coefficient(taken, float(count))
            gpus += count * int(self.problem.gpus[shape])
            cpu += count * int(self.problem.cpu[shape])
            memory += count * int(self.problem.memory[shape])
        self._cpu.set_coefficient(taken, float(cpu))
        self._memory[int(self.problem.kind[column.state])].set_coefficient(taken, float(memory))
        self._model.objective.set_linear_coefficient(taken, float(gpus))
        return True

    def solve(self) -> tuple[float, Prices] | None:
        """Return (GPUs placed, prices); None when the solver finds no optimum, even from nothing."""
        if not self.columns:
            return None
        result = self._solver.solve()
        if result.termination.reason is not mathopt.TerminationReason.OPTIMAL:
            # GLOP's warm start ends abnormally now and then.
            result = mathopt.solve(self._model, mathopt.SolverType.GLOP)
        if result.termination.reason is not mathopt.TerminationReason.OPTIMAL:
            return None
        told = [result.dual_values(rows) for rows in (self._pods, [self._cpu], self._memory, self._nodes)]
        pods, cpu, memory, nodes = (np.maximum(np.array(values), 0.0) for values in told)
        return float(result.objective_value()), Prices(pods, float(cpu[0]), memory, nodes)


class _Pricing:
    """The best pattern of every state at given prices: one knapsack table per kind.

    table[g, c] = the most that at most g GPUs and c CPU units can be worth. Every shape takes at least one GPU, so
    table[g] follows from the rows before it.
    """

    def __init__(self, problem: BoundProblem) -> None:
        self.problem = problem
        self._shapes = [np.flatnonzero(column) for column in problem.allowed.T]
        self._states = [np.flatnonzero(problem.kind == kind) for kind in range(len(self._shapes))]

    def best(self, prices: Prices) -> tuple[Floats, Iterator[Column]]:
        """Return float [state], the value of its best pattern, and those patterns that are worth more than a node."""
        values = np.zeros(len(self.problem.nodes))
        columns = []
        anywhere = self.problem.gpus - prices.shapes - prices.cpu * self.problem.cpu
        for shapes, states, memory in zip(self._shapes, self._states, prices.memory, strict=True):
            worth = anywhere - memory * self.problem.memory
            worthy = self._worthy(shapes[worth[shapes] > _TRIFLE], worth)
            if not len(worthy) or not len(states):
                continue
            if self._is_too_large(states):
                values[states] = self.problem.free_gpus[states] * np.max(worth[worthy] / self.problem.gpus[worthy])
            else:
                table = self._table(worthy, worth, states)
                values[states] = table[self.problem.free_gpus[states], self.problem.free_cpu[states]]
                columns += [(int(state), worthy, worth, table) for state in states]
        return values, (
            Column(state, self._pattern(state, shapes, worth, table))
            for state, shapes, worth, table in columns
            if values[state] > prices.nodes[state] + _TRIFLE
        )

    def _is_too_large(self, states: Indices) -> bool:
        gpus, cpu = (int(free[states].max()) + 1 for free in (self.problem.free_gpus, self.problem.free_cpu))
        return gpus * max(cpu, _ROW_CELLS) > _MOST_CELLS

    def _worthy(self, shapes: Indices, worth: Floats) -> Indices:
        """Return the shapes without those for which another asks for the same and is worth more."""
        order = shapes[np.argsort(-worth[shapes], kind="stable")]
        _, first = np.unique(np.stack([self.problem.gpus[order], self.problem.cpu[order]]), axis=1, return_index=True)
        return order[np.sort(first)]

    def _table(self, shapes: Indices, worth: Floats, states: Indices) -> Floats:
        gpus, width = int(self.problem.free_gpus[states].max()), int(self.problem.free_cpu[states].max()) + 1
        table = np.zeros((gpus + 1, width))
        for g in range(1, gpus + 1):
            table[g] = table[g - 1]
            for shape in shapes:
                asked, cpu = int(self.problem.gpus[shape]), int(self.problem.cpu[shape])
                if asked <= g and cpu < width:
                    better = table[g - asked, : width - cpu] + worth[shape]
                    np.maximum(table[g, cpu:], better, out=table[g, cpu:])
        return table

    def _pattern(self, state: int, shapes: Indices, worth: Floats, table: Floats) -> tuple[tuple[int, int], ...]:
        g, c = int(self.problem.free_gpus[state]), int(self.problem.free_cpu[state])
        counts: dict[int, int] = {}
        while table[g, c] > _TRIFLE:
            fit = shapes[(self.problem.gpus[shapes] <= g) & (self.problem.cpu[shapes] <= c)]
            rest_gpus, rest_cpu = g - self.problem.gpus[fit], c - self.problem.cpu[fit]
            at = int(np.argmax(worth[fit] + table[rest_gpus, rest_cpu]))
            counts[int(fit[at])] = counts.get(int(fit[at]), 0) + 1
            g, c = int(rest_gpus[at]), int(rest_cpu[at])
        return tuple(sorted(counts.items()))
