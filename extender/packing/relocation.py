"""The question behind ``defrag`` as integers: rooms of nodes, pods that may move, and the targets to make room on.

Pure preparation for a solver. Each target has a lower bound of what its pods cost, so that those that cannot be in a
better plan are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import gcd
from typing import Final

import numpy as np

from extender.packing.disruption import DisruptionBudget, Disruptions, priority_weights
from extender.packing.fit import static_verdicts
from extender.packing.holes import Amounts, Ask, asked_amounts
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, IntMatrix, NodeTable, frozen
from extender.packing.types import PodInfo


class Goal(StrEnum):
    """What a plan should have least of."""

    MOVES = "moves"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that are the same to packing: amounts, and the rows that may take one (bool per node)."""

    amounts: Amounts
    accepts: BoolVector


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod that may be moved away from its row.

    Attributes:
        kind: number of its Kind.
        price: what the goal counts for one move of it.
        second: what decides between plans of equal price.
        budgets: the disruption budgets that count the move.
    """

    pod: PodInfo
    row: int
    kind: int
    price: int
    second: int
    budgets: tuple[DisruptionBudget, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A row on which the ask would fit if pods left.

    Attributes:
        floor: lower bound of the price of those pods.
        second_floor: lower bound of what decides among equals; targets are looked at in this order.
    """

    row: int
    amounts: Amounts
    floor: int
    second_floor: int


@dataclass(frozen=True)
class Relocation:
    """All that the solver sees.

    Attributes:
        table: the nodes.
        room: int64 [resource, node], what is free less what pods nominated to the node will take; may be below zero.
        kinds: of the residents.
        residents: all pods that may move, in order of row and uid.
        targets: the lowest floor first; without residents' help the ask fits on none of them.
        vetoed: pods that may not move, by row, each with the reason.
    """

    table: NodeTable
    room: IntMatrix
    kinds: tuple[Kind, ...]
    residents: tuple[Resident, ...]
    targets: tuple[Target, ...]
    vetoed: Mapping[int, Sequence[tuple[PodInfo, str]]]

    @cached_property
    def on(self) -> Mapping[int, tuple[Resident, ...]]:
        """Return row -> its residents."""
        found: dict[int, list[Resident]] = {}
        for resident in self.residents:
            found.setdefault(resident.row, []).append(resident)
        return {row: tuple(group) for row, group in found.items()}

    @cached_property
    def cheapest_price(self) -> int:
        """Return the least price of any move."""
        return min((resident.price for resident in self.residents), default=0)

    @cached_property
    def units(self) -> Mapping[str, int]:
        """Return the greatest common divisor of all amounts per resource: rooms may be rounded down to it."""
        amounts = [kind.amounts for kind in self.kinds] + [target.amounts for target in self.targets]
        names = {name for one in amounts for name in one}
        return {name: gcd(*(one.get(name, 0) for one in amounts)) for name in names}

    def room_of(self, row: int, resource: str) -> int:
        """Return the free amount of one resource on one row; 0 when no node names it."""
        at = self.table.axis.index.get(resource)
        return 0 if at is None else int(self.room[at, row])

    def fits(self, amounts: Amounts, row: int) -> bool:
        """Tell whether amounts fit on a row as it is, as NodeResourcesFit compares: only what is asked for."""
        return all(self.room_of(row, name) >= amount for name, amount in amounts.items())


@dataclass(frozen=True, slots=True)
class Scope:
    """Which plans are of interest: at most so many moves (None: any number), cheaper than the ceiling (None: any)."""

    moves: int | None
    ceiling: int | None

    def targets(self, problem: Relocation) -> tuple[Target, ...]:
        """Return the targets on which a plan that is not direct may be in scope: one move more than they need."""
        more = problem.cheapest_price
        return tuple(t for t in problem.targets if self.ceiling is None or t.floor + more < self.ceiling)

    def residents(self, problem: Relocation) -> tuple[Resident, ...]:
        """Return the pods that may be moved in such a plan: those on no target beside what any target needs."""
        if self.ceiling is None:
            return problem.residents
        rows, least = {target.row for target in self.targets(problem)}, problem.targets[0].floor
        return tuple(r for r in problem.residents if r.price + (0 if r.row in rows else least) < self.ceiling)


def relocation(snapshot: Snapshot, asks: Sequence[Ask], disruptions: Disruptions, goal: Goal) -> Relocation:
    """Lay the question out.

    Residents are all pods without a veto, with GPUs or without, on every node; a destination is a node that is open
    (ready, not cordoned) and accepts the pod.
    """
    weights = priority_weights(pod for group in snapshot.pods for pod in group)
    kinds: dict[object, int] = {}
    found: list[Kind] = []
    residents: list[Resident] = []
    vetoed: dict[int, list[tuple[PodInfo, str]]] = {}
    for row, group in enumerate(snapshot.pods):
        for pod in group:
            if reason := disruptions.veto(pod):
                vetoed.setdefault(row, []).append((pod, reason))
                continue
            kind = _kind(snapshot.table, pod, kinds, found)
            price, second = _prices(pod, disruptions, weights[pod.priority], goal)
            residents.append(Resident(pod, row, kind, price, second, disruptions.budgets_of(pod)))
    problem = Relocation(snapshot.table, _room(snapshot), tuple(found), tuple(residents), (), vetoed)
    return replace(problem, targets=tuple(_targets(problem, asks)))


def _kind(table: NodeTable, pod: PodInfo, kinds: dict[object, int], found: list[Kind]) -> int:
    amounts = asked_amounts(pod)
    accepts = static_verdicts(table, pod.constraints, pod.gpu).fits & table.open
    key = (tuple(sorted(amounts.items())), accepts.tobytes())
    if key not in kinds:
        kinds[key] = len(found)
        found.append(Kind(amounts, accepts))
    return kinds[key]


# Ties between plans: moves before GPUs, so that of two plans with equal cost the one with fewer moves wins.
_GPUS_BITS: Final = 10


def _prices(pod: PodInfo, disruptions: Disruptions, weight: int, goal: Goal) -> tuple[int, int]:
    """Return what a move counts first, and what it counts among equals: cost, or one move; GPUs break what is left."""
    cost = weight * disruptions.gpu_seconds_at_stake(pod)
    if goal is Goal.MOVES:
        return 1, (cost << _GPUS_BITS) + pod.gpu.count
    return cost, (1 << _GPUS_BITS) + pod.gpu.count


def _room(snapshot: Snapshot) -> IntMatrix:
    room = snapshot.free.copy()
    index = snapshot.table.axis.index
    for row, group in snapshot.nominated.items():
        for pod in group:
            for name, amount in asked_amounts(pod).items():
                if name in index:
                    room[index[name], row] -= amount
    return frozen(room)


# ---------------------------------------------------------------- targets


def _targets(problem: Relocation, asks: Iterable[Ask]) -> list[Target]:
    """Return where the ask fits once pods leave, each with its floors, the lowest first."""
    found = []
    for ask in asks:
        for row in np.flatnonzero(ask.rows).tolist():
            floor = _floor(problem, ask.amounts, row, lambda resident: resident.price)
            second = _floor(problem, ask.amounts, row, lambda resident: resident.second)
            if floor is not None and second is not None:
                found.append(Target(row, ask.amounts, floor, second))
    return sorted(found, key=lambda target: (target.floor, target.second_floor, target.row))


def _floor(problem: Relocation, amounts: Amounts, row: int, price: Callable[[Resident], int]) -> int | None:
    """Return a lower bound of the price of the pods that must leave; None when not even all of them are enough.

    The largest over resources of the fractional covering knapsack: cheapest per unit first.
    """
    floor = 0
    for name, amount in amounts.items():
        need = amount - problem.room_of(row, name)
        if need <= 0:
            continue
        covered = _cover(
            need, [(price(r), problem.kinds[r.kind].amounts.get(name, 0)) for r in problem.on.get(row, ())]
        )
        if covered is None:
            return None
        floor = max(floor, covered)
    return floor


def _cover(need: int, offers: Iterable[tuple[int, int]]) -> int | None:
    """Return the least price, rounded up, of fractions of (price, amount) that cover a need."""
    spent = 0
    for price, amount in sorted((o for o in offers if o[1] > 0), key=lambda o: (o[0] / o[1], -o[1])):
        if amount >= need:
            return spent - (-price * need // amount)
        spent, need = spent + price, need - amount
    return None
