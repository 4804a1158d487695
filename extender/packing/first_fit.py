"""First fit decreasing: how many nodes hold a demand when pods are placed one after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.packing.stock import Amounts, Room, Shape, Stock, less, places


def first_fit(stock: Stock, order: Sequence[int]) -> tuple[Amounts, Amounts]:
    """Place the largest pods first, in the first room that has a place; open nodes in this order of shapes.

    Returns:
        (nodes per shape, pods without a place per demand).
    """
    filled: list[Room | Shape] = list(stock.rooms)
    free = [room.free for room in stock.rooms]
    nodes, unplaced = [0] * len(stock.shapes), [0] * len(stock.demands)
    for d in _largest_first(stock):
        left, requests = stock.demands[d].count, stock.demands[d].requests
        for at, room in enumerate(filled):
            many = min(left, places(free[at], requests)) if room.accepts[d] else 0
            free[at] = less(free[at], requests, many)
            left -= many
        for s in order:
            shape = stock.shapes[s]
            while left and shape.holds(d, requests) and (shape.limit is None or nodes[s] < shape.limit):
                many = min(left, places(shape.free, requests))
                filled.append(shape)
                free.append(less(shape.free, requests, many))
                nodes[s], left = nodes[s] + 1, left - many
        unplaced[d] = left
    return tuple(nodes), tuple(unplaced)


def first_fits(stock: Stock) -> Iterator[tuple[Amounts, Amounts]]:
    """Yield what first fit comes to with each shape opened first, then those with the most GPUs."""
    shapes = range(len(stock.shapes))
    for first in shapes:
        yield first_fit(stock, sorted(shapes, key=lambda s: (s != first, -stock.shapes[s].gpus, s)))
    if not shapes:
        yield first_fit(stock, [])


def _largest_first(stock: Stock) -> list[int]:
    demands = stock.demands
    return sorted(range(len(demands)), key=lambda d: (-demands[d].gpus, [-want for want in demands[d].requests], d))
