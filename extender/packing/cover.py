"""CP-SAT models of a stock: nodes by pattern, exact; and a relaxation of any size, for its bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ortools.sat.python import cp_model

from extender.packing.cpsat import Outcome, minimize
from extender.packing.plan import Status
from extender.packing.stock import Amounts, Expansion, Pattern, Stock

_LARGE: Final = 16
"""So few pods on a node are worth a constraint."""


@dataclass(slots=True)
class Cover:
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
            most = min(demand.count, room.holds(d, demand.requests))
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


def relaxed(stock: Stock, unplaced: Sequence[int], limit: float) -> tuple[int, Amounts]:
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
