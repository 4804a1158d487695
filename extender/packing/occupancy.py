"""What bound pods hold, node by node: the pods of each row, their sums, and those of nodes that are not in the table.

A value that follows changes at the price of the nodes they touch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from extender.packing.resources import PODS, capped_sum
from extender.packing.table import IntMatrix, IntVector, NodeTable, frozen
from extender.packing.types import PodInfo

PodTuple = tuple[PodInfo, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Occupancy:
    """The pods that hold something.

    Attributes:
        used: int64 [resource, node]; what they hold (``pods`` counts them). May exceed allocatable.
        pods: per row, the pods there, by uid.
        orphans: those bound to nodes that are not in the table, by node name.
    """

    table: NodeTable
    used: IntMatrix
    pods: tuple[PodTuple, ...]
    orphans: Mapping[str, PodTuple]

    @classmethod
    def of(cls, table: NodeTable, bound: Iterable[PodInfo]) -> Occupancy:
        """Lay out the pods that hold something."""
        held: dict[str, list[PodInfo]] = defaultdict(list)
        for pod in bound:
            held[pod.node_name].append(pod)
        rows = tuple(_by_uid(held.pop(name, ())) for name in table.names)
        return cls(table, _sum_used(table, rows), rows, {name: _by_uid(group) for name, group in held.items()})

    def on(self, name: str) -> PodTuple:
        """Return the pods bound to a node, whether it is in the table or not."""
        row = self.table.index.get(name)
        return self.orphans.get(name, ()) if row is None else self.pods[row]

    def regrouped(self, gone: Iterable[PodInfo], come: Iterable[PodInfo]) -> dict[str, PodTuple]:
        """Return the new groups of pods, by the names of the nodes on which something changes."""
        left: dict[str, set[str]] = defaultdict(set)
        new: dict[str, list[PodInfo]] = defaultdict(list)
        for pod in gone:
            if pod.holds:
                left[pod.node_name].add(pod.uid)
        for pod in come:
            if pod.holds:
                new[pod.node_name].append(pod)
        return {
            name: _by_uid([*(pod for pod in self.on(name) if pod.uid not in left[name]), *new[name]])
            for name in (*left, *(name for name in new if name not in left))
        }

    def with_groups(self, groups: Mapping[str, PodTuple]) -> Occupancy:
        """Return the occupancy with the pods of some nodes replaced."""
        rows, used, orphans = list(self.pods), self.used.copy(), dict(self.orphans)
        for name, group in groups.items():
            row = self.table.index.get(name)
            if row is None:
                orphans[name] = group
            else:
                rows[row] = group
                used[:, row] = held_by(self.table, group)
        return Occupancy(self.table, frozen(used), tuple(rows), {name: g for name, g in orphans.items() if g})

    def over(self, table: NodeTable, groups: Mapping[str, PodTuple]) -> Occupancy:
        """Return the occupancy of other nodes, with the pods of some replaced."""
        everyone = {**self.orphans, **dict(zip(self.table.names, self.pods, strict=True)), **groups}
        rows = tuple(everyone.pop(name, ()) for name in table.names)
        used = self._summed_again(table, rows)
        return Occupancy(table, used, rows, {name: group for name, group in everyone.items() if group})

    def _summed_again(self, table: NodeTable, rows: tuple[PodTuple, ...]) -> IntMatrix:
        """Return what `_sum_used` returns; sums of groups that have stayed are taken over."""
        if table.axis.index != self.table.axis.index or not len(self.table):
            return _sum_used(table, rows)
        before = [self.table.index.get(name, -1) for name in table.names]
        used = self.used[:, before]
        for row, (old, group) in enumerate(zip(before, rows, strict=True)):
            if old < 0 or self.pods[old] is not group:
                used[:, row] = held_by(table, group)
        return frozen(used)


def _by_uid(pods: Iterable[PodInfo]) -> PodTuple:
    return tuple(sorted(pods, key=lambda pod: pod.uid))


def _sum_used(table: NodeTable, rows: tuple[PodTuple, ...]) -> IntMatrix:
    used = np.zeros((len(table.axis), len(table)), dtype=np.int64)
    for row, group in enumerate(rows):
        if group:
            used[:, row] = held_by(table, group)
    return frozen(used)


def held_by(table: NodeTable, group: Iterable[PodInfo]) -> IntVector:
    """Return int64 [resource]: what pods hold on one node; what the axis does not name is left out."""
    totals = [0] * len(table.axis)
    index = table.axis.index
    for pod in group:
        totals[index[PODS]] += 1
        for name, amount in pod.requests.items():
            if (at := index.get(name)) is not None:
                totals[at] = capped_sum(totals[at], amount)
    return np.array(totals, dtype=np.int64)
