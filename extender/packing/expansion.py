"""Fewest nodes that hold a demand: which nodes to buy for the queue, and how few would hold what runs.

A cutting stock problem: a *pattern* is what one node of a shape can hold at once, and the model counts nodes by pattern
(Gilmore and Gomory 1961), so its size follows shapes and classes of pods, not nodes. Rooms that are there already are
rows of their own. Where those are many, or the patterns, the joint planner gives the answer and the bound, and where it
proves nothing in time, first fit decreasing and a relaxation stand by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from ortools.sat.python import cp_model

from extender.packing.cpsat import Outcome, minimize
from extender.packing.first_fit import first_fits
from extender.packing.plan import Status
from extender.packing.stock import PATTERNS, Amounts, Pattern, Shape, Stock, maximal_patterns, places
from extender.packing.stock_plan import enough, opening

LIMIT: Final = 1.0
"""Deterministic time of one solve, about seconds."""

_LARGE: Final = 16
"""So few pods on a node are worth a constraint."""

_SEARCHING: Final = 0.2
"""Of the limit, what each plan may take that looks for a better answer."""

_PLANS: Final = 4
"""So many plans look for fewer nodes in one mix, and as many for smaller ones, at most."""

_WORK: Final = 200_000
"""Pairs of a demand and a node in all of these plans together: where they are many, one takes seconds."""

Answer = tuple[Amounts, Amounts]
"""Nodes per shape, and pods without a place per demand."""

_FEW: Final = 400
"""Pairs of a demand and a room up to which the exact model is quicker than a joint plan, and says more."""

_MANY: Final = 4000
"""Pairs of a demand and a room beyond which it finds nothing in time."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What was found.

    Attributes:
        status: about the number of nodes.
        nodes: how many of each shape.
        unplaced: per demand, how many pods no number of nodes helps.
        bound: no answer that leaves out as little or less, whichever pods, has fewer nodes; what a shape without a
            limit takes is never left out.
        least: proved that no answer leaves fewer GPUs out.
    """

    status: Status
    nodes: tuple[int, ...]
    unplaced: tuple[int, ...]
    bound: int
    least: bool


def fewest_nodes(stock: Stock, limit: float = LIMIT) -> Expansion:
    """Return the fewest nodes of the shapes that, beside the rooms, hold the demands.

    Each demand asks for more than nothing of some resource. Pods that no shape takes in any number may find a place in
    the rooms; as many of their GPUs as possible do, before nodes are counted.
    """
    if not stock.demands:
        return Expansion(Status.OPTIMAL, (0,) * len(stock.shapes), (), 0, least=True)
    pairs = len(stock.demands) * len(stock.rooms)
    exact = _exact(stock, limit) if pairs <= _FEW else None
    if exact is not None and exact.status is Status.OPTIMAL:
        return exact
    found = _bounded(stock, limit)
    if found.status is not Status.OPTIMAL and _FEW < pairs <= _MANY:
        exact = _exact(stock, limit)
    return found if exact is None else better(stock, found, exact)


def _exact(stock: Stock, limit: float) -> Expansion | None:
    """Return the answer by patterns, None where there are too many of them or too little time."""
    stock = stock.in_small_units()
    patterns = [maximal_patterns(stock.demands, shape) for shape in stock.shapes]
    listed = [(s, pattern) for s, some in enumerate(patterns) for pattern in some or ()]
    if None in patterns or len(listed) > PATTERNS:
        return None
    return _Cover(stock, listed).solved(limit)


def better(stock: Stock, found: Expansion, other: Expansion) -> Expansion:
    """Return the better of two answers, what is proved beside the other one included."""
    best, rest = sorted((found, other), key=lambda each: _cost(stock, each.nodes, each.unplaced))
    bound = max(best.bound, rest.bound)  # what holds of answers that leave out more, too, holds of those that do not
    least = best.least or (rest.least and stock.lost(best.unplaced) <= stock.lost(rest.unplaced))
    return replace(best, bound=bound, least=least, status=_status(sum(best.nodes), bound, least=least))


def _cost(stock: Stock, nodes: Sequence[int], unplaced: Sequence[int]) -> tuple[int, int, int, int]:
    """Return what an answer is judged by: pods left out, nodes, their GPUs, how many shapes."""
    gpus = sum(shape.gpus * count for shape, count in zip(stock.shapes, nodes, strict=True))
    return stock.lost(unplaced), sum(nodes), gpus, sum(count > 0 for count in nodes)


def _status(nodes: int, bound: int, *, least: bool) -> Status:
    return Status.OPTIMAL if least and nodes <= bound else Status.FEASIBLE


# ---------------------------------------------------------------- the exact model


@dataclass(slots=True)
class _Cover:
    """Nodes by pattern and pods in rooms cover every demand."""

    stock: Stock
    patterns: Sequence[tuple[int, Pattern]]
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    nodes: list[cp_model.IntVar] = field(default_factory=list)
    missing: dict[int, cp_model.IntVar] = field(default_factory=dict)

    def solved(self, limit: float) -> Expansion | None:
        """Return the answer, None when there is none within the limit."""
        self._build()
        if not self._place_most(limit):
            return None
        fewest = minimize(self.model, sum(self.nodes), limit)
        if fewest.objective is None:
            return None
        self.model.add(sum(self.nodes) <= fewest.objective)
        gpus = [self.stock.shapes[s].gpus for s, _ in self.patterns]
        smallest = minimize(self.model, sum(g * n for g, n in zip(gpus, self.nodes, strict=True)), limit)
        return self._expansion(fewest, fewest if smallest.objective is None else smallest)

    def _build(self) -> None:
        model, demands, shapes = self.model, self.stock.demands, self.stock.shapes
        total = sum(demand.count for demand in demands)
        self.nodes = [model.new_int_var(0, total, "") for _ in self.patterns]
        covered: list[list[Any]] = [[] for _ in demands]
        for count, (_, pattern) in zip(self.nodes, self.patterns, strict=True):
            for d, many in pattern:
                covered[d].append(many * count)
        for d, placed in _in_rooms(model, self.stock):
            covered[d].append(placed)
        self.missing = _cover_demands(model, self.stock, covered)
        for s, shape in enumerate(shapes):
            if shape.limit is not None:
                some = [n for n, (of, _) in zip(self.nodes, self.patterns, strict=True) if of == s]
                model.add(sum(some) <= shape.limit)

    def _place_most(self, limit: float) -> bool:
        """Settle how many GPUs stay without a place, as few as can be; False when the solver did not say."""
        if not self.missing:
            return True
        lost = sum(self.stock.weight(self.stock.demands[d]) * missing for d, missing in self.missing.items())
        outcome = minimize(self.model, lost, limit)
        if outcome.objective is None or outcome.status is not Status.OPTIMAL:
            return False
        self.model.add(lost <= outcome.objective)
        return True

    def _expansion(self, fewest: Outcome, solution: Outcome) -> Expansion:
        counts = [0] * len(self.stock.shapes)
        for (s, _), count in zip(self.patterns, self.nodes, strict=True):
            counts[s] += solution.value(count)
        demands = range(len(self.stock.demands))
        unplaced = [solution.value(self.missing[d]) if d in self.missing else 0 for d in demands]
        return Expansion(fewest.status, tuple(counts), tuple(unplaced), fewest.bound, least=True)


def _in_rooms(model: cp_model.CpModel, stock: Stock) -> Iterator[tuple[int, cp_model.IntVar]]:
    """Yield (demand, how many in one room), kept within what is free there."""
    for room in stock.rooms:
        load: list[list[Any]] = [[] for _ in room.free]
        for d, demand in enumerate(stock.demands):
            most = min(demand.count, places(room.free, demand.requests)) if room.accepts[d] else 0
            if not most:
                continue
            placed = model.new_int_var(0, most, "")
            for terms, want in zip(load, demand.requests, strict=True):
                if want > 0:
                    terms.append(want * placed)
            yield d, placed
        for terms, have in zip(load, room.free, strict=True):
            if len(terms) > 1:
                model.add(sum(terms) <= have)


def _cover_demands(
    model: cp_model.CpModel, stock: Stock, covered: Sequence[Sequence[Any]]
) -> dict[int, cp_model.IntVar]:
    """Have every demand covered; return, for demands that no shape takes in any number, how many pods are left out."""
    missing = {}
    for d, demand in enumerate(stock.demands):
        if any(shape.limit is None and shape.holds(d, demand.requests) for shape in stock.shapes):
            model.add(sum(covered[d]) >= demand.count)
        else:
            missing[d] = model.new_int_var(0, demand.count, "")
            model.add(sum(covered[d]) + missing[d] >= demand.count)
    return missing


# ---------------------------------------------------------------- when there are too many patterns


def _bounded(stock: Stock, limit: float) -> Expansion:
    """Return the better of the joint plan and first fit decreasing, with the best bound of a plan and a relaxation."""
    known = list(first_fits(stock))
    planned = opening(stock, enough(stock, known), limit)
    answer = min([(planned.nodes, planned.unplaced), *known], key=lambda answer: _cost(stock, *answer))
    least = not any(answer[1]) or (planned.least and stock.lost(answer[1]) <= stock.lost(planned.unplaced))
    lacking = stock.gpus([d.count for d in stock.demands]) - stock.gpus(answer[1])
    lacking -= opening(replace(stock, shapes=()), (), limit).gpus_bound
    most = max(map(_gpus_on(stock), stock.shapes), default=0)
    bound = max(planned.bound if planned.least else 0, -(-lacking // most) if most else 0)
    if bound < sum(answer[0]):
        relaxed, mix = _relaxed(stock.in_small_units(), answer[1], limit)
        bound = max(bound, relaxed)
        for each in (answer[0], mix) if len(mix) > 1 else (answer[0],):
            answer = _with_fewer_nodes(stock, answer, each, bound, limit * _SEARCHING)
    bound = min(bound, sum(answer[0]))
    nodes, unplaced = _with_fewer_gpus(stock, answer, lacking, limit * _SEARCHING)
    return Expansion(_status(sum(nodes), bound, least=least), nodes, unplaced, bound, least)


def _with_fewer_nodes(stock: Stock, answer: Answer, mix: Sequence[int], bound: int, limit: float) -> Answer:
    """Return the best answer found by halving what lies between bound and answer, of nodes in about this mix.

    The planner opens fewer nodes where fewer are on offer: placing pods is the level that it is best at.
    """
    low, high = bound, sum(answer[0])
    offer = high if mix is answer[0] else (low + high) // 2
    for _ in range(_plans(stock, high)):
        if low >= high or not any(mix):
            break
        opened = opening(stock, _scaled(stock, mix, offer), limit)
        if stock.lost(opened.unplaced) > stock.lost(answer[1]):
            low = offer + 1
        elif (found := sum(opened.nodes)) < high:
            high, answer = found, (opened.nodes, opened.unplaced)
        offer = (low + high) // 2
    return answer


def _scaled(stock: Stock, mix: Sequence[int], nodes: int) -> Amounts:
    """Return so many nodes in about the same mix, as far as there are."""
    ends = [nodes * sum(mix[:at]) // sum(mix) for at in range(len(mix) + 1)]
    limits = [nodes if shape.limit is None else shape.limit for shape in stock.shapes]
    return tuple(min(end - start, most) for (start, end), most in zip(pairwise(ends), limits, strict=True))


def _with_fewer_gpus(stock: Stock, answer: Answer, lacking: int, limit: float) -> Answer:
    """Return an answer of as many nodes in which smaller nodes take the place of larger ones while that does.

    Args:
        stock: the question.
        answer: nodes and pods without a place.
        lacking: no nodes with fewer GPUs than that in all will do.
        limit: deterministic seconds for each of the plans that tell.
    """
    gpus_on, shapes = _gpus_on(stock), stock.shapes
    swaps = [(s, t) for s, large in enumerate(shapes) for t, small in enumerate(shapes) if small.gpus < large.gpus]
    swaps.sort(key=lambda swap: (-shapes[swap[0]].gpus, shapes[swap[1]].gpus))
    tries = _plans(stock, sum(answer[0]))
    for s, t in swaps:
        while tries and answer[0][s]:
            nodes = tuple(count - (at == s) + (at == t) for at, count in enumerate(answer[0]))
            too_many = shapes[t].limit is not None and nodes[t] > (shapes[t].limit or 0)
            if too_many or sum(count * gpus_on(shape) for count, shape in zip(nodes, shapes, strict=True)) < lacking:
                break
            tries -= 1
            unplaced = opening(stock, nodes, limit).unplaced
            if stock.lost(unplaced) > stock.lost(answer[1]):
                break
            answer = nodes, unplaced
    return answer


def _plans(stock: Stock, nodes: int) -> int:
    """Return how many plans may look for a better answer."""
    return min(_PLANS, _WORK // max(1, len(stock.demands) * (len(stock.rooms) + nodes)))


def _gpus_on(stock: Stock) -> Callable[[Shape], int]:
    """Return what tells of a shape how many GPUs the pods find there, those of all GPU resources together."""
    places = {demand.gpu_at for demand in stock.demands if demand.gpus}
    return lambda shape: sum(max(0, shape.free[at]) for at in places)


def _relaxed(stock: Stock, unplaced: Sequence[int], limit: float) -> tuple[int, Amounts]:
    """Return a lower bound of the nodes, and a mix of shapes that comes near it.

    All nodes of a shape are one, but each holds only so many large pods. No more is left out than ``unplaced``, of
    whichever pods: without other ones fewer nodes may do.
    """
    model = cp_model.CpModel()
    total = sum(demand.count for demand in stock.demands)
    nodes = [model.new_int_var(0, total, "") for _ in stock.shapes]
    covered: list[list[Any]] = [[] for _ in stock.demands]
    for d, placed in _in_rooms(model, stock):
        covered[d].append(placed)
    for shape, many in zip(stock.shapes, nodes, strict=True):
        if shape.limit is not None:
            model.add(many <= shape.limit)
        weights: list[list[tuple[int, Any]]] = [[] for _ in shape.free]
        for d, demand in enumerate(stock.demands):
            if not shape.holds(d, demand.requests):
                continue
            placed = model.new_int_var(0, demand.count, "")
            covered[d].append(placed)
            for terms, want in zip(weights, demand.requests, strict=True):
                if want > 0:
                    terms.append((want, placed))
        for terms, have in zip(weights, shape.free, strict=True):
            _limit_load(model, terms, have, many)
    if missing := _cover_demands(model, stock, covered):
        lost = sum(stock.weight(stock.demands[d]) * count for d, count in missing.items())
        model.add(lost <= stock.lost(unplaced))
    outcome = minimize(model, sum(nodes), limit)
    mix = () if outcome.objective is None else tuple(map(outcome.value, nodes))
    return outcome.bound, mix or (0,) * len(nodes)


def _limit_load(model: cp_model.CpModel, terms: Sequence[tuple[int, Any]], have: int, nodes: cp_model.IntVar) -> None:
    """Keep one resource within that of all nodes; of pods that ask for more than 1/(n+1) of it each node has n."""
    if terms:
        model.add(sum(want * placed for want, placed in terms) <= have * nodes)
    for most in sorted({have // want for want, _ in terms if have // want <= _LARGE}):
        model.add(sum(placed for want, placed in terms if have // want <= most) <= most * nodes)
