"""A stock as the joint planner is asked it: the rooms, and beside them as many new nodes as a best answer may need.

The planner places as many GPUs as it can and then opens as few unused nodes as it can. Here new nodes alone count as
unused, so what it opens is what has to be bought, and what it proves of the level is proved of the purchase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extender.packing.first_fit import first_fits
from extender.packing.planner import Limits, plan
from extender.packing.problem import Goal, PackingProblem, QueueClass
from extender.packing.resources import plus
from extender.packing.stock import Amounts, Room, Stock
from extender.packing.table import frozen


@dataclass(frozen=True, slots=True)
class Opening:
    """What a plan opens of the new nodes that it is offered.

    Attributes:
        nodes: how many of each shape.
        unplaced: pods without a place, per demand.
        bound: no plan that places as much opens fewer nodes.
        least: proved that no plan leaves fewer GPUs without a place.
        gpus_bound: no plan places more GPUs.
    """

    nodes: Amounts
    unplaced: Amounts
    bound: int
    least: bool
    gpus_bound: int


def opening(stock: Stock, offered: Sequence[int], limit: float) -> Opening:
    """Plan a stock with so many new nodes of each shape on offer.

    Args:
        stock: in the units of the pods, so that a demand's request of its GPU resource is its GPUs.
        offered: nodes per shape.
        limit: deterministic seconds.
    """
    shapes = [s for s, count in enumerate(offered) for _ in range(count)]
    rows: list[Room] = [*stock.rooms, *(stock.shapes[s] for s in shapes)]
    if not rows:
        return Opening((0,) * len(offered), tuple(d.count for d in stock.demands), 0, least=True, gpus_bound=0)
    problem = _problem(stock, rows)
    found = plan(problem, Limits(deterministic_seconds=limit, partial_too=False))
    used = {int(node) for node in found.nodes.values()}
    opened = Counter(shapes[row - len(stock.rooms)] for row in used if row >= len(stock.rooms))
    unplaced = [sum(uid not in found.nodes for uid in group.uids) for group in problem.classes]
    return Opening(
        tuple(opened[s] for s in range(len(offered))),
        tuple(unplaced),
        next(reached.bound for reached in found.reached if reached.level.goal is Goal.OPENED),
        all(reached.proven for reached in found.reached if reached.level.counts_pods),
        found.bound,
    )


def enough(stock: Stock, known: Iterable[tuple[Amounts, Amounts]]) -> Amounts:
    """Return how many new nodes of each shape to offer: no answer that is best needs more.

    An answer that is known, nodes and pods left out, says so where it leaves none out. So does always what first fit
    buys for pods that find no rooms, since the rooms are then left to those that no shape takes.
    """
    useful = [
        sum(demand.count for d, demand in enumerate(stock.demands) if shape.holds(d, demand.requests))
        for shape in stock.shapes
    ]
    limits = [shape.limit for shape in stock.shapes]
    if any(limit is not None for limit in limits):
        return tuple(most if limit is None else min(most, limit) for most, limit in zip(useful, limits, strict=True))
    whole = [sum(nodes) for nodes, unplaced in known if not any(unplaced)]
    most = min(whole or (sum(nodes) for nodes, _ in first_fits(replace(stock, rooms=()))), default=0)
    return tuple(min(most, some) for some in useful)


def _problem(stock: Stock, rows: Sequence[Room]) -> PackingProblem:
    """Return the packing problem; nodes are named by their place in ``rows``."""
    classes = tuple(
        QueueClass(tuple(f"{d}/{i}" for i in range(demand.count)), 0, demand.gpus, demand.gpu_at, whole=True,
                   requests=demand.requests, mask=d)
        for d, demand in enumerate(stock.demands)
    )  # fmt: skip
    free = np.array([row.free for row in rows], dtype=np.int64).T
    gpus = np.zeros(len(rows), dtype=np.int64)
    for at in sorted({demand.gpu_at for demand in stock.demands if demand.gpus}):
        gpus = plus(gpus, np.maximum(free[at], 0))
    return PackingProblem(
        nodes=tuple(str(row) for row in range(len(rows))),
        resources=tuple(str(at) for at in range(len(free))),
        free=frozen(free),
        masks=frozen(np.array([row.accepts for row in rows], dtype=np.bool_).T),
        classes=classes,
        gangs=(),
        unused=frozen(np.arange(len(rows)) >= len(stock.rooms)),
        gpus_free=frozen(gpus),
        gpus_total=gpus,
    )
