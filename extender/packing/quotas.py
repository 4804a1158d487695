"""The quota LP: how many GPUs of each kind of node each group of pods should take, so that as many as can be are used.

    maximise    sum over groups i, kinds k of  x[i, k] (1 - 0.1 mismatch[i, k]^2)             x in GPUs
    so that     sum_k x[i, k] <= demand[i]
                sum_i x[i, k] <= free GPUs[k]           sum_i x[i, k] cores[i] <= free cores[k]
                sum_{i: gpus[i] >= s} x[i, k] <= sum over nodes of s floor(free / s)           for each size s

mismatch = difference of cores per GPU between pods and what is free, in units of the largest ratio asked for: without
it the CPU of the nodes is spent on the wrong pods. No node patterns and no memory: a forecast needs no more, and it is
solved in milliseconds, so it follows the state instead of a horizon (docs/background.md, "Packing").
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import linear_solver_pb2, pywraplp

from extender.packing.quota_problem import QuotaProblem

Floats = npt.NDArray[np.float64]
_MISMATCH: Final = 0.1


def solve(problem: QuotaProblem, mismatch: float = _MISMATCH) -> Floats | None:
    """Return float [group, kind], GPUs; None when the solver finds no optimum."""
    wanted = np.zeros(problem.allowed.shape)
    group, kind = np.nonzero(problem.allowed & (problem.free_gpus > 0) & (problem.demand > 0)[:, None])
    if not len(group):
        return wanted
    ratio = problem.free_cores / np.maximum(problem.free_gpus, 1.0)
    largest = max(1.0, float(problem.cores.max()))
    off = (problem.cores[group] - np.minimum(ratio[kind], largest)) / largest
    model = linear_solver_pb2.MPModelProto(maximize=True)
    for weight in (1.0 - mismatch * off**2).tolist():
        model.variable.add(lower_bound=0.0, upper_bound=np.inf, objective_coefficient=weight)
    variables = np.arange(len(group))
    for i, demand in enumerate(problem.demand.tolist()):
        _add_row(model, variables[group == i], demand)
    for k in np.flatnonzero(problem.free_gpus > 0).tolist():
        here = variables[kind == k]
        _add_row(model, here, problem.free_gpus[k])
        _add_row(model, here, problem.free_cores[k], problem.cores[group[here]])
        for size, pieces in zip(problem.sizes, problem.in_pieces[:, k], strict=True):
            _add_row(model, here[problem.gpus[group[here]] >= size], pieces)
    found = _solved(model)
    if found is None:
        return None
    wanted[group, kind] = np.maximum(found, 0.0)
    return wanted


def _add_row(
    model: linear_solver_pb2.MPModelProto, at: npt.NDArray[np.intp], most: float, by: Floats | None = None
) -> None:
    if len(at):
        coefficients = np.ones(len(at)) if by is None else by
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
