"""Where pods that move can go: which nodes are worth looking at, and which of them leave the least waste. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from extender.packing.relocation import Relocation, Resident
from extender.packing.resources import CPU
from extender.packing.table import BoolVector


def undominated(problem: Relocation, kinds: Iterable[int], touched: int) -> BoolVector:
    """Return the rows that a best plan may need as mere receivers of these kinds when it touches `touched` nodes.

    A row that `touched` others dominate (they accept what it accepts and have at least its room, ties by row) can be
    exchanged for one of them that the plan leaves alone: the k-skyband of the rows.
    """
    wanted = [problem.kinds[kind] for kind in kinds]
    names = sorted({name for kind in wanted for name in kind.amounts if name in problem.table.axis.index})
    accepts = np.array([kind.accepts for kind in wanted], dtype=np.bool_).reshape(len(wanted), len(problem.table))
    rows = np.flatnonzero(accepts.any(axis=0))
    mask = np.zeros(len(problem.table), dtype=np.bool_)
    if not len(rows):
        return mask
    patterns, pattern_of = np.unique(accepts[:, rows].T, axis=0, return_inverse=True)
    wider = np.array([(patterns >= pattern).all(axis=1) for pattern in patterns])  # [pattern, those that accept it all]
    better = wider[pattern_of.ravel()][:, pattern_of.ravel()]  # [row, other]
    equal = better & better.T
    for name in names:
        room = problem.room[problem.table.axis.index[name], rows]
        better &= room[None, :] >= room[:, None]
        equal &= room[None, :] == room[:, None]
    better &= ~equal | (np.arange(len(rows))[None, :] < np.arange(len(rows))[:, None])
    mask[rows[better.sum(axis=1) < touched]] = True
    return mask


def tightest_places(
    problem: Relocation, leaving: Sequence[Resident], target: int
) -> Mapping[tuple[int, int], int] | None:
    """Return (kind, row) -> how many go there, best fit decreasing, so that no other hole is broken without need.

    Pods go to room that is free now, never to the target, and rather to nodes of the GPU model they have: one that
    names no model may depend on it all the same. None when one after the other they do not all fit.
    """
    return _tightest(problem, leaving, target, same_model=True) or _tightest(problem, leaving, target, same_model=False)


def _tightest(
    problem: Relocation, leaving: Sequence[Resident], target: int, *, same_model: bool
) -> Mapping[tuple[int, int], int] | None:
    room = problem.room.copy()
    places: Counter[tuple[int, int]] = Counter()
    index = problem.table.axis.index
    for resident in sorted(leaving, key=lambda r: (-r.pod.gpu.count, -r.pod.requests.get(CPU, 0), r.pod.uid)):
        kind = problem.kinds[resident.kind]
        fits = kind.accepts.copy()
        fits[target] = False
        for name, amount in kind.amounts.items():
            fits &= room[index[name]] >= amount
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        gpu = index.get(resident.pod.gpu.resource, index[CPU])
        alike = problem.table.of_model_like(resident.pod.gpu.resource, resident.row)[rows] & same_model
        row = int(rows[np.lexsort((rows, room[index[CPU], rows], room[gpu, rows], ~alike))[0]])
        for name, amount in kind.amounts.items():
            room[index[name], row] -= amount
        places[resident.kind, row] += 1
    return places


@dataclass(frozen=True, slots=True)
class Departures:
    """By (row, resource), what the residents of a row hold, the most first."""

    problem: Relocation
    held: Mapping[tuple[int, str], Sequence[int]]

    @classmethod
    def of(cls, problem: Relocation, residents: Iterable[Resident]) -> Self:
        """Collect what these pods hold."""
        held: dict[tuple[int, str], list[int]] = defaultdict(list)
        for resident in residents:
            for name, amount in problem.kinds[resident.kind].amounts.items():
                held[resident.row, name].append(amount)
        return cls(problem, {key: sorted(amounts, reverse=True) for key, amounts in held.items()})

    def least(self, kind: int, row: int) -> int | None:
        """Return how many residents must leave a row at least before one of a kind fits; None when all do not do."""
        most = 0
        for name, want in self.problem.kinds[kind].amounts.items():
            have, count = self.problem.room_of(row, name), 0
            for amount in self.held.get((row, name), ()):
                if have >= want:
                    break
                have, count = have + amount, count + 1
            if have < want:
                return None
            most = max(most, count)
        return most
