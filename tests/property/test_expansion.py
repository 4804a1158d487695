"""Fewest nodes against plain search on small questions, and the bound where the answer is not proved."""

from __future__ import annotations

from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.packing.expansion import _bounded, fewest_nodes
from extender.packing.plan import Status
from extender.packing.stock import Demand, Room, Shape, Stock, less, places


@st.composite
def stocks(draw: st.DrawFn) -> Stock:
    """Draw up to three demands of two resources (GPUs, or none, and CPUs), up to two shapes and two rooms."""
    demands = [
        Demand((gpus, draw(st.integers(0, 3)), 1), draw(st.integers(1, 3)), gpus, 0 if gpus else -1)
        for gpus in draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    ]

    def accepts() -> tuple[bool, ...]:
        return tuple(draw(st.integers(0, 3)) > 0 for _ in demands)

    shapes = [
        Shape((gpus, draw(st.integers(2, 6)), 5), accepts(), gpus, draw(st.sampled_from((None, None, 2))))
        for gpus in draw(st.lists(st.sampled_from((4, 2, 3)), max_size=2))
    ]
    rooms = [
        Room((draw(st.integers(0, 3)), draw(st.integers(0, 4)), 3), accepts()) for _ in range(draw(st.integers(0, 2)))
    ]
    return Stock(demands, shapes, rooms)


def least(stock: Stock) -> tuple[int, int]:
    """Return (GPUs and pods without a place, nodes) of the best answer, by looking at all."""
    pods = [d for d, demand in enumerate(stock.demands) for _ in range(demand.count)]

    @cache
    def best(at: int, free: tuple, used: tuple) -> tuple[int, int]:
        if at == len(pods):
            return 0, 0
        d = pods[at]
        demand = stock.demands[d]
        lost, nodes = best(at + 1, free, used)
        found = [(lost + 1 + 1000 * demand.gpus, nodes)]
        for i, (room, ok) in enumerate(free):
            if ok[d] and places(room, demand.requests):
                after = tuple(sorted((*free[:i], (less(room, demand.requests, 1), ok), *free[i + 1 :])))
                found.append(best(at + 1, after, used))
        for s, shape in enumerate(stock.shapes):
            if shape.holds(d, demand.requests) and (shape.limit is None or used[s] < shape.limit):
                after = tuple(sorted((*free, (less(shape.free, demand.requests, 1), shape.accepts))))
                lost, nodes = best(at + 1, after, (*used[:s], used[s] + 1, *used[s + 1 :]))
                found.append((lost, nodes + 1))
        return min(found)

    return best(0, tuple(sorted((room.free, room.accepts) for room in stock.rooms)), (0,) * len(stock.shapes))


def lost(stock: Stock, unplaced: tuple[int, ...]) -> int:
    return sum(count * (1 + 1000 * demand.gpus) for demand, count in zip(stock.demands, unplaced, strict=True))


@settings(max_examples=80, deadline=None)
@given(stocks())
def test_the_fewest_nodes_are_those_of_plain_search(stock):
    found = fewest_nodes(stock)
    assert (lost(stock, found.unplaced), sum(found.nodes)) == least(stock)
    assert found.status is Status.OPTIMAL
    assert found.bound == sum(found.nodes)


BEST_LEAVES_OUT_ANOTHER_POD = Stock(
    [Demand((2, 3, 1), 1, 2, 0), Demand((2, 1, 1), 1, 2, 0), Demand((1, 2, 1), 1, 1, 0)],
    [Shape((2, 2, 5), (False, False, True), 2)],
    [Room((3, 3, 3), (True, True, True))],
)
"""First fit puts the first pod in the room and buys a node for the third; the other two need no node."""


@settings(max_examples=80, deadline=None)
@given(stocks())
@example(BEST_LEAVES_OUT_ANOTHER_POD)
def test_the_bound_holds_where_patterns_are_too_many(stock):
    rough = _bounded(stock, 5.0)
    best_lost, best_nodes = least(stock)
    assert lost(stock, rough.unplaced) >= best_lost
    assert rough.bound <= best_nodes
    if lost(stock, rough.unplaced) == best_lost:
        assert best_nodes <= sum(rough.nodes)
        assert rough.status is not Status.OPTIMAL or best_nodes == sum(rough.nodes)


def test_small_units_change_no_answer():
    gib = 2**30
    demand = Demand((2, 3 * gib), 5, 2, 0)
    stock = Stock([demand], [Shape((8, 10 * gib + 7), (True,), 8), Shape((8, 2**62), (True,), 8)])
    small = stock.in_small_units()
    assert small.demands[0].requests == (1, 1)
    assert [shape.free for shape in small.shapes] == [(4, 3), (4, 5)]
    assert sum(fewest_nodes(stock).nodes) == 2  # 5 pods, 3 or 4 on a node
