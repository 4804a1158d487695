"""Demands, node shapes and rooms as plain integers, and the patterns in which one node can be filled. Pure.

The words are those of the cutting stock problem (Gilmore and Gomory 1961): a pattern is what one node holds at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from extender.packing.plan import Status

PATTERNS: Final = 20_000
"""So many ways to fill a node are looked at, and so many patterns are in a model, at most."""

Amounts = tuple[int, ...]
"""One integer per resource; the resources are the same in a whole question."""

Pattern = tuple[tuple[int, int], ...]
"""(demand, how many) of what one node holds."""


@dataclass(frozen=True, slots=True)
class Demand:
    """So many equal pods.

    Attributes:
        requests: of one.
        count: how many there are.
        gpus: what one counts for when not all can be placed: units of its GPU resource.
        gpu_at: place of that resource in ``requests``, -1 for pods without GPUs.
    """

    requests: Amounts
    count: int
    gpus: int
    gpu_at: int


@dataclass(frozen=True, slots=True)
class Room:
    """What is free on a node that is there already.

    Attributes:
        free: what it offers.
        accepts: per demand, whether its pods may run there, amounts aside.
    """

    free: Amounts
    accepts: tuple[bool, ...]

    def holds(self, demand: int, requests: Amounts) -> int:
        """Return how many pods of a demand fit there."""
        return places(self.free, requests) if self.accepts[demand] else 0


@dataclass(frozen=True, slots=True)
class Shape(Room):
    """Equal nodes, each the room that it offers when empty.

    Attributes:
        gpus: of one node; of equally many nodes those with fewer GPUs are taken.
        limit: how many there are, None for any number.
    """

    gpus: int
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Stock:
    """A whole question: pods, node types to count, and rooms that cost nothing."""

    demands: Sequence[Demand]
    shapes: Sequence[Shape]
    rooms: Sequence[Room] = ()

    def weight(self, demand: Demand) -> int:
        """Return what one pod that is left out counts for: its GPUs, and among as many GPUs each pod."""
        return 1 + demand.gpus * (1 + sum(each.count for each in self.demands))

    def lost(self, unplaced: Sequence[int]) -> int:
        """Return what the pods that are left out count for together."""
        return sum(self.weight(demand) * count for demand, count in zip(self.demands, unplaced, strict=True))

    def gpus(self, counts: Sequence[int]) -> int:
        """Return the GPUs that so many pods of each demand ask for."""
        return sum(demand.gpus * count for demand, count in zip(self.demands, counts, strict=True))

    def in_small_units(self) -> Stock:
        """Return the same question with each resource in units of the greatest common divisor of all requests.

        Rooms are rounded down, and cut to what all pods together could use: numbers that a solver can add up.
        """
        requests = [demand.requests for demand in self.demands]
        units = [gcd(*column) or 1 for column in zip(*requests, strict=True)]
        most = [sum(d.requests[at] * d.count for d in self.demands) // unit for at, unit in enumerate(units)]

        def small(amounts: Amounts) -> Amounts:
            return tuple(min(have // unit, cut) for have, unit, cut in zip(amounts, units, most, strict=True))

        return Stock(
            [replace(demand, requests=small(demand.requests)) for demand in self.demands],
            [replace(shape, free=small(shape.free)) for shape in self.shapes],
            [replace(room, free=small(room.free)) for room in self.rooms],
        )


@dataclass(frozen=True, slots=True)
class Expansion:
    """An answer to a stock.

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


def places(free: Amounts, requests: Amounts) -> int:
    """Return how many such pods fit one after the other; only what is asked for is compared."""
    return max(0, min(have // want for have, want in zip(free, requests, strict=True) if want > 0))


def less(free: Amounts, requests: Amounts, many: int) -> Amounts:
    """Return what is left after so many pods."""
    return tuple(have - many * want for have, want in zip(free, requests, strict=True))


def maximal_patterns(demands: Sequence[Demand], shape: Shape) -> list[Pattern] | None:
    """Return the maximal patterns of a shape; None when there are too many."""
    fitting = [d for d, demand in enumerate(demands) if shape.holds(d, demand.requests)]
    fitting.sort(key=lambda d: (demands[d].requests, d), reverse=True)
    found = []
    for number, (pattern, free) in enumerate(_filled(demands, fitting, shape.free)):
        if number >= PATTERNS:
            return None
        if pattern and not _more(demands, fitting, dict(pattern), free):
            found.append(pattern)
    return found


def _filled(demands: Sequence[Demand], left: Sequence[int], free: Amounts) -> Iterator[tuple[Pattern, Amounts]]:
    """Yield all ways to put pods of these demands on a node, with what is then free; many are not maximal."""
    left = [d for d in left if places(free, demands[d].requests)]
    if not left:
        yield (), free
        return
    first, rest = left[0], left[1:]
    demand = demands[first]
    most = min(places(free, demand.requests), demand.count)
    for count in range(most, -1 if rest else most - 1, -1):  # the last demand takes all that it can
        for pattern, after in _filled(demands, rest, less(free, demand.requests, count)):
            yield ((first, count), *pattern) if count else pattern, after


def _more(demands: Sequence[Demand], fitting: Sequence[int], chosen: Mapping[int, int], free: Amounts) -> bool:
    """Tell whether another pod would fit beside the chosen ones."""
    return any(places(free, demands[d].requests) and chosen.get(d, 0) < demands[d].count for d in fitting)
