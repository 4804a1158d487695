"""In which order moves can be carried out: each pod needs a free place at its time. Pure search, exact within a budget.

A plan says which pods move and which places they take; which pod of a kind takes which place is found here, too. A
move frees room where the pod was and takes room where it goes, so two full nodes that exchange pods wait for each
other: then a detour over a third node helps, at the price of one more move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.packing.holes import Amounts
from extender.packing.relocation import Relocation, Resident

Step = tuple[Resident, int, int]
"""(pod, from row, to row)."""

STATES: Final = 20_000
"""How many states of the cluster an order is looked for in."""

_DETOURS: Final = 2
_STOPOVERS: Final = 8


@dataclass(frozen=True, slots=True)
class Order:
    """What was found: the steps, None without any; `exhaustive` when all orders without detour were tried in vain."""

    steps: tuple[Step, ...] | None
    exhaustive: bool = True


def order_of(problem: Relocation, leaving: Sequence[Resident], places: Mapping[tuple[int, int], int]) -> Order:
    """Return an order of direct moves.

    Args:
        problem: the cluster.
        leaving: the pods that move.
        places: (kind, row) -> how many of the kind arrive there.
    """
    search = _Search(problem, tuple(leaving), Counter(places), detours=0)
    return Order(search.run(), exhaustive=search.left > 0)


def detour_of(
    problem: Relocation, leaving: Sequence[Resident], places: Mapping[tuple[int, int], int]
) -> tuple[Step, ...] | None:
    """Return steps with as few stopovers on other nodes as are needed, None when a few do not help."""
    for detours in range(1, _DETOURS + 1):
        steps = _Search(problem, tuple(leaving), Counter(places), detours).run()
        if steps is not None:
            return steps
    return None


@dataclass(slots=True)
class _Search:
    """Depth first over the states; one that has failed is not entered twice."""

    problem: Relocation
    leaving: tuple[Resident, ...]
    places: Counter[tuple[int, int]]
    detours: int
    left: int = STATES
    room: dict[tuple[int, str], int] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    dead: set[object] = field(default_factory=set)

    def run(self) -> tuple[Step, ...] | None:
        self.at = {resident.pod.uid: resident.row for resident in self.leaving}
        return self._from(self.detours)

    def _from(self, detours: int) -> tuple[Step, ...] | None:
        if len(self.done) == len(self.leaving):
            return ()
        state = (frozenset(self.done), frozenset(self.places.items()), tuple(sorted(self.at.items())), detours)
        if state in self.dead or self.left <= 0:
            return None
        self.left -= 1
        for resident, to, final in self._possible(detours):
            origin = self._move(resident, to, final=final)
            rest = self._from(detours if final else detours - 1)
            if rest is not None:
                return ((resident, origin, to), *rest)
            self._back(resident, origin, to, final=final)
        self.dead.add(state)
        return None

    def _possible(self, detours: int) -> Iterator[tuple[Resident, int, bool]]:
        """Yield the moves that have a free place now: to final places first, then to stopovers."""
        open_places = sorted(place for place, count in self.places.items() if count)
        waiting = [resident for resident in self.leaving if resident.pod.uid not in self.done]
        for resident in waiting:
            amounts = self.problem.kinds[resident.kind].amounts
            for kind, row in open_places:
                if kind == resident.kind and self._fits(amounts, row):
                    yield resident, row, True
        if detours:
            for resident in waiting:
                yield from ((resident, row, False) for row in self._stopovers(resident))

    def _stopovers(self, resident: Resident) -> list[int]:
        kind = self.problem.kinds[resident.kind]
        here = self.at[resident.pod.uid]
        rows = (row for row in kind.accepts.nonzero()[0].tolist() if row != here and self._fits(kind.amounts, row))
        ranked = sorted(rows, key=lambda row: (any(row == place for _, place in self.places), row))
        return ranked[:_STOPOVERS]

    def _fits(self, amounts: Amounts, row: int) -> bool:
        return all(self._room(row, name) >= amount for name, amount in amounts.items())

    def _room(self, row: int, name: str) -> int:
        return self.problem.room_of(row, name) + self.room.get((row, name), 0)

    def _move(self, resident: Resident, to: int, *, final: bool) -> int:
        origin = self.at[resident.pod.uid]
        self._shift(resident, origin, to)
        if final:
            self.done.add(resident.pod.uid)
            self.places[resident.kind, to] -= 1
        return origin

    def _back(self, resident: Resident, origin: int, to: int, *, final: bool) -> None:
        self._shift(resident, to, origin)
        if final:
            self.done.discard(resident.pod.uid)
            self.places[resident.kind, to] += 1

    def _shift(self, resident: Resident, origin: int, to: int) -> None:
        for name, amount in self.problem.kinds[resident.kind].amounts.items():
            self.room[origin, name] = self.room.get((origin, name), 0) + amount
            self.room[to, name] = self.room.get((to, name), 0) - amount
        self.at[resident.pod.uid] = to
