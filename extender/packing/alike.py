"""Rows that are alike to whoever packs whole GPUs: of one model and kind, as much free of GPUs, CPU and memory.

What is asked of many rows is asked once of each group, then read off by row. Booked amounts are not free.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from extender.packing.guidance import CPU_CLASSES, quota_place
from extender.packing.kinds import NodeKinds
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Changed, Snapshot
from extender.packing.table import BoolVector, IntMatrix, IntVector, NodeTable, Rows, frozen

# Grouping anew costs as much as so many changed rows.
_MOST_CHANGED: Final = 32
_SPARE_GROUPS: Final = 64


@dataclass(frozen=True, eq=False, slots=True)
class AlikeRows:
    """The rows of a Snapshot with a GPU free, grouped.

    Attributes:
        of_row: intp [node], the group of each row; -1 without a free GPU.
        columns: int64 [5, group]: a row that stands for all that is the same as long as the nodes are, then what is
            free of GPUs, milli-CPU and bytes, never below zero, and where quotas are read (``quota_place``). Rows of
            some groups may all be gone.
        most_started: int64 [3, quota column], the most GPUs, milli-CPU and bytes that are free on an open node of the
            column of which a GPU is held; each may be another node's. -1 without such a node.
        most: with more groups than this, those without rows are to be dropped.
    """

    of_row: Rows
    columns: IntMatrix
    most_started: IntMatrix
    most: int

    @classmethod
    def of(cls, snapshot: Snapshot, resource: str) -> AlikeRows:
        """Return the groups for one GPU resource; remembered per Snapshot, and brought from one to the next."""

        def followed(found: AlikeRows, now: Snapshot, changed: Changed) -> AlikeRows | None:
            return found._moved(now, resource, changed.rows) if len(changed.rows) <= _MOST_CHANGED else None

        return snapshot.remember("alike", resource, lambda: cls._of(snapshot, resource), followed)

    @classmethod
    def _of(cls, snapshot: Snapshot, resource: str) -> AlikeRows:
        rows = np.flatnonzero(snapshot.free_for_score_of(resource, np.arange(len(snapshot))))
        columns = _columns(snapshot, resource, rows)
        code = columns[0]
        for amounts in columns[1:4]:
            _, place = np.unique(amounts, return_inverse=True)
            # Numbered anew each time, the product stays below the square of the nodes.
            _, code = np.unique(code * len(place) + place, return_inverse=True)
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        of_row = np.full(len(snapshot), -1, dtype=np.intp)
        of_row[rows] = group
        return cls._laid_out(NodeKinds.of(snapshot.table, resource), snapshot.table.open, of_row, columns[:, first])

    @classmethod
    def _laid_out(
        cls, kinds: NodeKinds, is_open: BoolVector, of_row: Rows, columns: IntMatrix, most: int | None = None
    ) -> AlikeRows:
        most = columns.shape[1] * 5 // 4 + _SPARE_GROUPS if most is None else most
        width = len(kinds) * CPU_CLASSES
        at = np.flatnonzero((columns[4] < width) & _has_rows(of_row, columns) & is_open[columns[0]])
        most_started = np.full((3, width), -1, dtype=np.int64)
        for found, free in zip(most_started, columns[1:4], strict=True):
            np.maximum.at(found, columns[4, at], free[at])
        return cls(frozen(of_row), frozen(columns), frozen(most_started), most)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def rows(self) -> Rows:
        """Return intp [group]: a row of the same model and kind, whatever is free on it."""
        rows: Rows = self.columns[0].astype(np.intp, copy=False)
        return rows

    @property
    def free(self) -> tuple[IntVector, IntVector, IntVector]:
        """Return int64 [group] three times: free GPUs, milli-CPU and bytes."""
        _, gpus, cpu_milli, memory_bytes, _ = self.columns
        return gpus, cpu_milli, memory_bytes

    def quota_places(self, rows: Rows | None = None) -> Rows:
        """Return the quota place of each group, or of some rows."""
        places: Rows = self.columns[4].astype(np.intp, copy=False)
        # Group -1 reads the last entry.
        return places if rows is None else np.append(places, self.most_started.shape[1])[self.of_row[rows]]

    def _moved(self, snapshot: Snapshot, resource: str, rows: Collection[int]) -> AlikeRows:
        """Return the groups once other amounts may be free on some rows."""
        if not rows:
            return self
        of_row, columns = self.of_row.copy(), self.columns
        changed = np.fromiter(rows, dtype=np.intp, count=len(rows))
        for row, column in zip(changed.tolist(), _columns(snapshot, resource, changed).T, strict=True):
            of_row[row] = group = _group(columns, column)
            if group == columns.shape[1]:
                columns = np.concatenate((columns, column[:, None]), axis=1)
        most: int | None = self.most
        if columns.shape[1] > self.most:
            lives = _has_rows(of_row, columns)
            # -1 reads the last entry.
            of_row, columns, most = np.append(np.cumsum(lives) - 1, -1)[of_row], columns[:, lives], None
        return self._laid_out(NodeKinds.of(snapshot.table, resource), snapshot.table.open, of_row, columns, most)


def _has_rows(of_row: Rows, columns: IntMatrix) -> BoolVector:
    lives: BoolVector = np.bincount(of_row + 1, minlength=columns.shape[1] + 1)[1:] > 0
    return lives


def _group(columns: IntMatrix, column: IntVector) -> int:
    """Return the group of a row, one more than there are when it is like none of them; -1 without a free GPU."""
    same, gpus, cpu, memory, _ = column.tolist()
    if not gpus:
        return -1
    # CPU tells most groups apart: what follows looks at few.
    at = np.flatnonzero(columns[2] == cpu)
    found = at[(columns[0, at] == same) & (columns[1, at] == gpus) & (columns[3, at] == memory)]
    return int(found[0]) if len(found) else columns.shape[1]


def _columns(snapshot: Snapshot, resource: str, rows: Rows) -> IntMatrix:
    stands_for = snapshot.table.remember("same nodes", resource, lambda: _same_nodes(snapshot.table, resource))
    columns = np.empty((5, len(rows)), dtype=np.int64)
    columns[0] = stands_for[rows]
    for column, name in zip(columns[1:4], (resource, CPU, MEMORY), strict=True):
        column[:] = snapshot.free_for_score_of(name, rows)
    kinds = NodeKinds.of(snapshot.table, resource)
    columns[4] = quota_place(kinds, kinds.of_row[rows], columns[1], columns[2])
    return columns


def _same_nodes(table: NodeTable, resource: str) -> IntVector:
    """Return int64 [node]: for each row the first one of the same model and kind that is open, or not, as it is."""
    codes = table.models(resource).codes.astype(np.int64)
    codes = codes * (len(table) + 1) + NodeKinds.of(table, resource).of_row
    _, first, of_row = np.unique(2 * codes + table.open, return_index=True, return_inverse=True)
    return frozen(first[of_row].astype(np.int64))
