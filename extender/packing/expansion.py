"""Fewest nodes that hold a demand: which nodes to buy for the queue, and how few would hold what runs.

A cutting stock problem: a *pattern* is what one node of a shape can hold at once, and the model counts nodes by pattern
(Gilmore and Gomory 1961), so its size follows shapes and classes of pods, not nodes. Rooms that are there already are
rows of their own. Where those are many, or the patterns, the joint planner gives the answer and the bound, and where it
proves nothing in time, first fit decreasing and a relaxation stand by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from extender.packing.cover import Cover, relaxed
from extender.packing.first_fit import first_fits
from extender.packing.plan import Status
from extender.packing.stock import PATTERNS, Amounts, Expansion, Shape, Stock, maximal_patterns
from extender.packing.stock_plan import enough, opening

LIMIT: Final = 1.0
"""Deterministic time of one solve, about seconds."""

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
    # The plan counts the GPUs that are left out, the exact model also the pods.
    if (found.status is not Status.OPTIMAL or any(found.unplaced)) and _FEW < pairs <= _MANY:
        exact = _exact(stock, limit)
    return found if exact is None else better(stock, found, exact)


def _exact(stock: Stock, limit: float) -> Expansion | None:
    """Return the answer by patterns, None where there are too many of them or too little time."""
    stock = stock.in_small_units()
    patterns = [maximal_patterns(stock.demands, shape) for shape in stock.shapes]
    listed = [(s, pattern) for s, some in enumerate(patterns) for pattern in some or ()]
    if None in patterns or len(listed) > PATTERNS:
        return None
    return Cover(stock, listed).solved(limit)


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
        least_nodes, mix = relaxed(stock.in_small_units(), answer[1], limit)
        bound = max(bound, least_nodes)
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
