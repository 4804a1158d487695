"""The quota LP: how many GPUs of each column of nodes each group of pods should take, so that most are used.

    maximise    sum over groups i, columns k of  x[i, k] (1 - 0.1 mismatch[i, k]^2)             x in GPUs
    so that     sum_k x[i, k] <= demand[i]
                sum_i x[i, k] <= free GPUs[k], and the same for cores and GiB
                sum_{i: gpus[i] >= s} x[i, k] <= sum over nodes of s floor(free / s)           for each size s

mismatch = difference of cores per GPU between pods and what is free, as a share of the largest ratio asked for. No node
patterns: a forecast needs none, and it is solved in milliseconds, so it follows the state instead of a horizon
(docs/background.md, "Packing"). Solved from nothing each time: what a basis would be kept for changes with each pod.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import linear_solver_pb2, pywraplp

from extender.packing.quota_problem import QuotaProblem

Floats = npt.NDArray[np.float64]
_MISMATCH: Final = 0.1
# Cores and GiB per GPU: less, such as the bytes of a request without a unit, is nothing, and would cost the optimum.
_LEAST: Final = 1e-6


def solve(problem: QuotaProblem) -> Floats | None:
    """Return float [group, width], GPUs; None when the solver finds no optimum."""
    wanted = np.zeros((len(problem.demand), problem.width))
    group, at = np.nonzero(problem.allowed & (problem.demand > 0)[:, None])
    if not len(group):
        return wanted
    found = _solved(_model(problem, group, at))
    if found is None:
        return None
    wanted[group, problem.column[at]] = np.maximum(found, 0.0)
    return wanted


def _model(
    problem: QuotaProblem, group: npt.NDArray[np.intp], at: npt.NDArray[np.intp]
) -> linear_solver_pb2.MPModelProto:
    """Return the LP; variable v is what group[v] takes in at[v]."""
    model = linear_solver_pb2.MPModelProto(maximize=True)
    for value in (1.0 - _MISMATCH * _mismatch(problem)[group, at] ** 2).tolist():
        model.variable.add(lower_bound=0.0, upper_bound=np.inf, objective_coefficient=value)
    variables = np.arange(len(group))
    for i in np.flatnonzero(problem.demand > 0).tolist():
        _add_row(model, variables[group == i], problem.demand[i])
    for k in range(len(problem.free_gpus)):
        here = variables[at == k]
        who = group[here]
        _add_row(model, here, problem.free_gpus[k])
        _add_row(model, here, problem.free_cores[k], problem.cores[who])
        _add_row(model, here, problem.free_gib[k], problem.gib[who])
        for size, pieces in zip(problem.sizes, problem.in_pieces[:, k], strict=True):
            _add_row(model, here[problem.gpus[who] >= size], pieces)
    return model


def _mismatch(problem: QuotaProblem) -> Floats:
    largest = max(1.0, float(problem.cores.max()))
    there = np.minimum(problem.free_cores / np.maximum(problem.free_gpus, 1.0), largest)
    off: Floats = (problem.cores[:, None] - there) / largest
    return off


def _add_row(
    model: linear_solver_pb2.MPModelProto, at: npt.NDArray[np.intp], most: float, by: Floats | None = None
) -> None:
    coefficients = np.ones(len(at)) if by is None else by
    counts = coefficients >= _LEAST
    at, coefficients = at[counts], coefficients[counts]
    if len(at):
        model.constraint.add(
            lower_bound=-np.inf, upper_bound=most, var_index=at.tolist(), coefficient=coefficients.tolist()
        )


def _solved(model: linear_solver_pb2.MPModelProto) -> Floats | None:
    solver = pywraplp.Solver.CreateSolver("GLOP")
    solver.LoadModelFromProto(model)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    answer = linear_solver_pb2.MPSolutionResponse()
    solver.FillSolutionResponseProto(answer)
    return np.array(answer.variable_value)
