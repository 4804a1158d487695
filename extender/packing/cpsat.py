"""One way to run CP-SAT: a single worker and a limit that counts work, not time, so that answers are reproducible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ortools.sat.python import cp_model

from extender.packing.plan import Status

_SECONDS_PER_LIMIT: Final = 5.0
_STATUS: Final = {
    cp_model.OPTIMAL: Status.OPTIMAL,
    cp_model.FEASIBLE: Status.FEASIBLE,
    cp_model.INFEASIBLE: Status.INFEASIBLE,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: objective (None without a solution) and bound of a minimisation, deterministic time spent."""

    status: Status
    objective: int | None
    bound: int
    spent: float
    solver: cp_model.CpSolver

    def value(self, variable: cp_model.IntVar) -> int:
        """Return the value of a variable in the solution."""
        return self.solver.value(variable)


def minimize(model: cp_model.CpModel, objective: cp_model.LinearExprT, limit: float) -> Outcome:
    """Minimise an integer expression that is never negative.

    Args:
        model: the constraints.
        objective: what to minimise.
        limit: deterministic time, about seconds on one core of a few years' age.
    """
    model.minimize(objective)
    solver = cp_model.CpSolver()
    # Two workers are slower than one on nearly all small models, and their answers depend on the machine.
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = limit
    # Presolving large models is not counted there: this ends what the other should have, on any machine but a slow one.
    solver.parameters.max_time_in_seconds = _SECONDS_PER_LIMIT * limit
    solver.parameters.random_seed = 0
    status = _STATUS.get(solver.solve(model), Status.UNKNOWN)
    found = status in (Status.OPTIMAL, Status.FEASIBLE)
    # The bound of a minimisation over integers may be rounded up; CP-SAT reports it as a float that is whole.
    bound = max(0, round(solver.best_objective_bound)) if status is not Status.INFEASIBLE else 0
    spent = solver.response_proto.deterministic_time
    return Outcome(status, round(solver.objective_value) if found else None, bound, spent, solver)
