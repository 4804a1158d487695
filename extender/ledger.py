"""The tentative ledger: nodes booked for pods that were scored and not yet seen bound. Immutable values, pure.

Its sum enters `Snapshot.booked`, which scores look at and whether a pod fits never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.packing.resources import PODS, countable
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntMatrix, NodeTable, frozen
from extender.packing.types import PodInfo

# What a Snapshot remembers of nodes and pods alone.
_OF_THE_PODS: Final = frozenset({"free by model", "sizes"})


@dataclass(frozen=True, slots=True)
class Booking:
    """One line: the pod has surely gone to `node`, unless `deadline` (seconds) passes."""

    pod: PodInfo
    node: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Bookings by pod UID. Methods that change nothing return the very same ledger."""

    lines: Mapping[str, Booking] = field(default_factory=dict)

    def __contains__(self, uid: str) -> bool:
        return uid in self.lines

    def plus(self, booking: Booking) -> Ledger:
        """Return the ledger with a line added, or put in place of the pod's former one."""
        return Ledger({**self.lines, booking.pod.uid: booking})

    def without(self, uids: Iterable[str]) -> Ledger:
        """Return the ledger without the lines of some pods."""
        gone = self.lines.keys() & uids
        return Ledger({uid: line for uid, line in self.lines.items() if uid not in gone}) if gone else self

    def live(self, now: float) -> Ledger:
        """Return the ledger without the lines whose time is over."""
        return self.without([uid for uid, line in self.lines.items() if line.deadline <= now])

    @property
    def next_deadline(self) -> float:
        """Return when the first line runs out, infinity for an empty ledger."""
        return min((line.deadline for line in self.lines.values()), default=float("inf"))

    def booked(self, table: NodeTable) -> IntMatrix | None:
        """Return the sum of all lines as int64 [resource, node], None when there are none.

        Lines for nodes that the table does not hold count nowhere.
        """
        total = np.zeros_like(table.allocatable)
        for line in self.lines.values():
            _add(total, table, line, sign=1)
        return frozen(total) if self.lines else None

    def booked_since(self, older: Ledger, snapshot: Snapshot) -> IntMatrix | None:
        """Return what `booked` returns, from the snapshot's sum of an older ledger over the same table."""
        if snapshot.booked is None or not self.lines:
            return self.booked(snapshot.table)
        total = snapshot.booked.copy()
        for uid in self.lines.keys() | older.lines.keys():
            before, after = older.lines.get(uid), self.lines.get(uid)
            if before is not after:
                _add(total, snapshot.table, before, sign=-1)
                _add(total, snapshot.table, after, sign=1)
        return frozen(total)


def with_booked(snapshot: Snapshot, booked: IntMatrix | None) -> Snapshot:
    """Return the snapshot with another ledger's sum.

    What it has worked out already and does not depend on the ledger is carried over: every scored pod books.
    """
    fresh = snapshot.with_booked(booked)
    known, told = vars(snapshot), vars(fresh)
    if "free" in known:
        told["free"] = known["free"]
    told["_memo"].keep(known["_memo"], _OF_THE_PODS)
    return fresh


def _add(total: IntMatrix, table: NodeTable, line: Booking | None, *, sign: int) -> None:
    row = None if line is None else table.index.get(line.node)
    if line is None or row is None:
        return
    index = table.axis.index
    total[index[PODS], row] += sign
    for name, amount in line.pod.requests.items():
        if (at := index.get(name)) is not None:
            total[at, row] += sign * countable(amount)
