"""Fewest or cheapest moves of running pods that make room for an ask, in an order in which each has a free place.

Two models, both CP-SAT over ``Relocation``:

    direct   only the target's own pods leave, to room that is free now; any order will do
    chained  other nodes may pass pods on as well; the order is then part of what makes a plan feasible

A plan that is not direct moves at least one pod beside those that its target needs, so the best direct plan is often
proved best at once. Otherwise the chained model, which leaves the order out and so bounds every plan, even one with
detours, gives a better one or none; a solution without an order is cut off and counted with a detour.
Source of the order problem: pusher/k8s-spot-rescheduler issue 68, nodes that wait for each other's room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender.packing.move_order import Step, detour_of, order_of
from extender.packing.plan import Status
from extender.packing.receivers import tightest_places
from extender.packing.relocation import Goal, Relocation, Resident, Scope, Target
from extender.packing.relocation_model import Chosen, RelocationModel

LIMIT: Final = 10.0
"""Deterministic time of one solve, about seconds."""

_BATCH: Final = 32
"""Targets looked at first."""

_RUNGS: Final = 3
"""How many numbers of moves are tried one by one before any number is allowed, when no direct plan gives a limit."""

_CUTS: Final = 20
"""How many solutions without an order are looked at before the best plan so far must do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found.

    Attributes:
        status: about ``price``: proved least or not; INFEASIBLE when no plan exists, UNKNOWN when none was found.
        steps: in an executable order; empty without a plan.
        row: where the room is made, None without a plan.
        price: what the steps cost, in the unit of the goal.
        bound: no plan costs less.
    """

    status: Status
    steps: tuple[Step, ...] = ()
    row: int | None = None
    price: int = 0
    bound: int = 0


def find_moves(problem: Relocation, goal: Goal, limit: float = LIMIT) -> Plan:
    """Return the best plan; see the head of this module."""
    if not problem.targets:
        return Plan(Status.INFEASIBLE)
    direct = _direct(problem, limit)
    # Whatever is not direct has one move beside those that its target needs.
    chained_bound = problem.targets[0].floor + problem.cheapest_price
    if direct.status is Status.OPTIMAL and direct.price <= chained_bound:
        return direct
    return _best_of_all(problem, goal, direct, limit)


def _direct(problem: Relocation, limit: float) -> Plan:
    """Return the best plan that moves pods off the target alone.

    The targets with the lowest floors first, a few at a time: what costs no more than the next floor ends it.
    """
    best, at, size = Plan(Status.UNKNOWN), 0, _BATCH
    bounds: list[int] = []
    while at < len(problem.targets):
        ceiling = None if best.row is None else best.price
        batch = [t for t in problem.targets[at : at + size] if ceiling is None or t.floor < ceiling]
        if not batch:
            break
        plan = _direct_to(problem, batch, ceiling, limit)
        bounds += [] if plan.status is Status.INFEASIBLE else [plan.bound]
        best = best if plan.row is None else plan
        at, size = at + size, 4 * size
    return _judged(best, min(bounds, default=None))


def _direct_to(problem: Relocation, targets: Sequence[Target], ceiling: int | None, limit: float) -> Plan:
    short = {target.row: _short(problem, target) for target in targets}
    leaving = [r for r in problem.residents if r.row in short and short[r.row] & problem.kinds[r.kind].amounts.keys()]
    model = RelocationModel.direct(problem, targets, leaving)
    if ceiling is not None:
        model.below(ceiling)
    outcome, chosen = model.best(limit)
    if chosen is None:
        return Plan(outcome.status, bound=outcome.bound)
    places = tightest_places(problem, chosen.leaving, chosen.row) or chosen.places
    steps = order_of(problem, chosen.leaving, places).steps or ()
    return Plan(outcome.status, steps, chosen.row, chosen.price, outcome.bound)


def _short(problem: Relocation, target: Target) -> set[str]:
    """Return the resources of which the target has too little for the ask."""
    return {name for name, amount in target.amounts.items() if problem.room_of(target.row, name) < amount}


def _best_of_all(problem: Relocation, goal: Goal, best: Plan, limit: float) -> Plan:
    """Return the best plan, chained ones too, given the best direct one.

    Of moves there are few: all plans of two are looked at before those of three, which keeps the models small.
    """
    bound = problem.targets[0].floor + problem.cheapest_price
    if best.status is not Status.INFEASIBLE:
        bound = min(bound, best.bound)
    last, stepwise = bound + _RUNGS, goal is Goal.MOVES
    while best.row is None or bound < best.price:
        rung = bound if stepwise and (best.row is not None or bound < last) else None
        ceiling = best.price if rung is None else rung + 1
        scope = Scope(rung, None if rung is None and best.row is None else ceiling)
        model = RelocationModel.chained(problem, scope)
        if model is None:
            break
        best, ruled_out = _search(problem, model, best, bound, limit)
        if rung is None:
            return _judged(best, ruled_out)
        if ruled_out is not None and ruled_out <= rung:
            stepwise = False  # so few moves are not ruled out in time; is there any better plan?
            continue
        bound = ceiling if ruled_out is None else min(ceiling, ruled_out)
    return _judged(best, bound)


def _search(
    problem: Relocation, model: RelocationModel, best: Plan, base: int, limit: float
) -> tuple[Plan, int | None]:
    """Solve, look for an order, cut off, until the best plan is proved or the search has lasted long enough.

    ``seen`` bounds the plans that end as a solution that was cut off, ``rest`` all others in scope.

    Returns:
        (best plan so far, bound of all plans in scope); the bound is None when there are none but those seen, and
        these have been carried out or cost more than the scope allows.
    """
    seen: list[int] = []
    rest = base
    for _ in range(_CUTS):
        outcome, chosen = model.best(limit)
        if outcome.status is Status.INFEASIBLE:
            return best, min(seen, default=None)
        rest = max(base, outcome.bound)
        limit -= outcome.spent
        if chosen is None or limit <= 0:
            break
        plan, bound = _in_order(problem, chosen)
        seen.append(bound)
        if plan is not None and (best.row is None or plan.price < best.price):
            best = plan
            model.below(best.price)
        if best.row is not None and best.price <= min(rest, *seen):
            break
        model.forbid(chosen)
    return best, min([rest, *seen])


def _in_order(problem: Relocation, chosen: Chosen) -> tuple[Plan | None, int]:
    """Return the cheapest way found to carry a solution out, and a bound for every plan that ends like it."""
    order = order_of(problem, chosen.leaving, chosen.places)
    if order.steps is not None:
        return Plan(Status.FEASIBLE, order.steps, chosen.row, chosen.price), chosen.price
    bound = chosen.price + (problem.cheapest_price if order.exhaustive else 0)
    steps = detour_of(problem, chosen.leaving, chosen.places) if _may_move_twice(chosen.leaving) else None
    if steps is None:
        return None, bound
    return Plan(Status.FEASIBLE, steps, chosen.row, sum(resident.price for resident, _, _ in steps)), bound


def _may_move_twice(leaving: Sequence[Resident]) -> bool:
    """Tell whether no disruption budget counts these moves."""
    return not any(resident.budgets for resident in leaving)


def _judged(plan: Plan, bound: int | None) -> Plan:
    """Return a plan with its status; ``bound`` is None when every other plan is ruled out."""
    if plan.row is None:
        return Plan(Status.INFEASIBLE if bound is None else Status.UNKNOWN, bound=bound or 0)
    if bound is None or bound >= plan.price:
        return replace(plan, status=Status.OPTIMAL, bound=plan.price)
    return replace(plan, status=Status.FEASIBLE, bound=bound)
