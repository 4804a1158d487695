"""Best fit decreasing over a packing problem: the baseline, the solver's hint, and the plan when there is no time.

In order of priority the largest pods go first, then those with the fewest nodes to choose from; each goes to the used
node with the fewest free GPUs that it fits, and to an unused one when there is none. Of a gang as many go as it needs,
or none. Deterministic: every order ends in a row or in a place in the queue. No search, no going back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from extender.packing.problem import Layout, PackingProblem, QueueClass
from extender.packing.resources import countable
from extender.packing.table import BoolVector, IntMatrix, IntVector


@dataclass
class Fill:
    """A layout in the making: what is still free, and what has been placed. Used by one call, then made a Layout."""

    problem: PackingProblem
    free: IntMatrix
    taken: IntVector
    placed: list[dict[int, int]]

    @classmethod
    def empty(cls, problem: PackingProblem) -> Fill:
        """Return the start: nothing placed."""
        taken = np.zeros(len(problem), dtype=np.int64)
        return cls(problem, problem.free.copy(), taken, [{} for _ in problem.classes])

    def count(self, at: int) -> int:
        """Return how many pods of a class are placed."""
        return sum(self.placed[at].values())

    def put(self, at: int, row: int, count: int) -> None:
        """Place pods of a class on a row; a negative count takes them away."""
        group = self.problem.classes[at]
        self.free[:, row] -= np.array(group.requests, dtype=np.int64) * count
        self.taken[row] += countable(group.gpus) * group.whole * count
        left = self.placed[at].get(row, 0) + count
        if left:
            self.placed[at][row] = left
        else:
            self.placed[at].pop(row, None)

    def keep(self, at: int, row: int, count: int) -> int:
        """Place up to ``count`` pods of a class on one row: as many as are left, may run there and have room."""
        group = self.problem.classes[at]
        take = min(count, self._room_on(group, row), len(group) - self.count(at))
        if take <= 0 or not self.problem.masks[group.mask, row]:
            return 0
        self.put(at, row, take)
        return take

    def place(self, at: int, count: int, rows: BoolVector | None = None) -> int:
        """Place up to ``count`` pods of a class by best fit, on some rows only if given; return how many."""
        group = self.problem.classes[at]
        candidates, room = self._room(group, rows)
        if not len(candidates):
            return 0
        order = self._order(group, candidates)
        candidates, room = candidates[order], np.minimum(room[order], count)
        before = np.cumsum(room) - room
        takes = np.minimum(room, count - before)
        for row, take in zip(candidates[takes > 0].tolist(), takes[takes > 0].tolist(), strict=True):
            self.put(at, row, take)
        return int(takes[takes > 0].sum())

    def _room_on(self, group: QueueClass, row: int) -> int:
        return min(int(self.free[at, row]) // amount for at, amount in enumerate(group.requests) if amount > 0)

    def place_any(self, classes: Iterable[int], count: int, rows: BoolVector) -> None:
        """Place up to ``count`` pods of several classes by best fit, the first classes first."""
        for at in classes:
            if (take := min(count, len(self.problem.classes[at]) - self.count(at))) > 0:
                count -= self.place(at, take, rows)

    def _room(self, group: QueueClass, rows: BoolVector | None) -> tuple[IntVector, IntVector]:
        """Return the rows with room for at least one pod of a class, and for how many each."""
        mask = self.problem.masks[group.mask] if rows is None else self.problem.masks[group.mask] & rows
        wanted = [(at, amount) for at, amount in enumerate(group.requests) if amount > 0]
        # The GPUs first: they rule out most rows.
        wanted.sort(key=lambda item: item[0] != group.gpu_at)
        candidates = np.flatnonzero(mask & (self.free[wanted[0][0]] >= wanted[0][1]))
        room = np.full(len(candidates), len(group), dtype=np.int64)
        for at, amount in wanted:
            room = np.minimum(room, np.maximum(self.free[at, candidates], 0) // amount)
        return candidates[room > 0], room[room > 0]

    def _order(self, group: QueueClass, candidates: IntVector) -> IntVector:
        """Return best fit's order of rows: used before unused, few free GPUs before many, then the scarcer rest."""
        problem = self.problem
        unused = problem.unused[candidates] & (self.taken[candidates] == 0)
        left = problem.gpus_free[candidates] - self.taken[candidates]
        if group.gpu_at < 0:  # a pod without GPUs stays off nodes that have some free
            return np.lexsort((candidates, left, unused))
        rest = [self.free[at, candidates] for at, n in enumerate(group.requests) if n > 0 and at != group.gpu_at]
        return np.lexsort((candidates, *reversed(rest), self.free[group.gpu_at, candidates], left, unused))

    def layout(self) -> Layout:
        """Return what has been placed."""
        return tuple(tuple(sorted(rows.items())) for rows in self.placed)


def units(problem: PackingProblem) -> list[tuple[int, ...]]:
    """Return what is placed in one go, in greedy's order: the classes of a gang together, others one by one."""
    reach = [int(problem.alone(group).sum()) for group in problem.classes]
    gangs: dict[int, list[int]] = {}
    singles = []
    for at, group in enumerate(problem.classes):
        if group.gang < 0:
            singles.append((at,))
        else:
            gangs.setdefault(group.gang, []).append(at)

    def size(at: int) -> tuple[int, int, int, tuple[int, ...], int]:
        group = problem.classes[at]
        return (-group.priority, -group.gpus, reach[at], tuple(-n for n in group.requests), at)

    together = [tuple(sorted(classes, key=size)) for classes in gangs.values()]
    return sorted([*singles, *together], key=lambda unit: size(unit[0]))


def place_unit(fill: Fill, unit: Sequence[int]) -> bool:
    """Place a unit: as many as fit, but of a gang none where it needs more; return whether that has not happened."""
    classes = fill.problem.classes
    missing = {at: len(classes[at]) - fill.count(at) for at in unit}
    put = [(at, dict(fill.placed[at]), fill.place(at, count)) for at, count in missing.items() if count]
    starts = _enough(fill, unit)
    if not starts:
        for at, before, _ in put:
            for row, count in list(fill.placed[at].items()):
                fill.put(at, row, before.get(row, 0) - count)
    return starts


def _enough(fill: Fill, unit: Sequence[int]) -> bool:
    """Tell whether so much of a unit is placed that it may stay."""
    gang = fill.problem.classes[unit[0]].gang
    return gang < 0 or sum(map(fill.count, unit)) >= fill.problem.gangs[gang].needed


def greedy(problem: PackingProblem, kept: Iterable[tuple[int, int, int]] = ()) -> Layout:
    """Place by best fit decreasing.

    Args:
        problem: what to place.
        kept: (class, row, count) to place first where there is still room: what an earlier plan said.
    """
    fill = Fill.empty(problem)
    for at, row, count in kept:
        fill.keep(at, row, count)
    order = units(problem)
    _drop_broken_gangs(fill, order)
    for unit in order:
        place_unit(fill, unit)
    return fill.layout()


def one_by_one(problem: PackingProblem, uids: Iterable[str]) -> Layout:
    """Place by best fit in the order given, as a scheduler does that looks at one pod (or gang) at a time."""
    class_of = {uid: at for at, group in enumerate(problem.classes) for uid in group.uids}
    gangs = {problem.classes[unit[0]].gang: unit for unit in units(problem) if problem.classes[unit[0]].gang >= 0}
    fill = Fill.empty(problem)
    for at in (class_of[uid] for uid in uids if uid in class_of):
        gang = problem.classes[at].gang
        if gang < 0:
            fill.place(at, 1)
        elif unit := gangs.pop(gang, None):
            place_unit(fill, unit)
    return fill.layout()


def _drop_broken_gangs(fill: Fill, order: Iterable[Sequence[int]]) -> None:
    """Take away gangs of which less is placed than they need; they are tried again."""
    for unit in order:
        for at in () if _enough(fill, unit) else unit:
            for row, count in list(fill.placed[at].items()):
                fill.put(at, row, -count)
