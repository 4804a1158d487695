"""The immutable state one decision reads: nodes, what is held on them, who waits.

``with_pod`` / ``without_pod`` / ``with_node`` / ``without_node`` return a new value and leave the old one alone. Any
order of them that ends with the same nodes and pods gives an equal Snapshot (``tests/property``), so the cache may
apply watch events one by one or rebuild from scratch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from extender.packing.mix import DemandMix
from extender.packing.resources import PODS, capped_sum
from extender.packing.table import IntMatrix, IntVector, NodeTable, frozen
from extender.packing.types import NodeInfo, PodInfo

PodTuple = tuple[PodInfo, ...]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One consistent view of the cluster.

    Attributes:
        table: the nodes.
        used: int64 [resource, node]; what bound, unfinished pods hold (``pods`` counts them). May exceed allocatable.
        pods: per row, the pods that hold something there, by uid.
        orphans: pods bound to nodes that are not in the table, by node name.
        pending: pods without a node, by uid; gated ones too.
        mix: the demand that waiting and running pods show.
        booked: int64 [resource, node] of the tentative ledger: pods we scored and have not yet seen bound. Scores may
            look at it; whether a pod fits never does.
        generation: counts changes.
    """

    table: NodeTable
    used: IntMatrix
    pods: tuple[PodTuple, ...]
    orphans: Mapping[str, PodTuple] = field(default_factory=dict)
    pending: Mapping[str, PodInfo] = field(default_factory=dict)
    mix: DemandMix = field(default_factory=DemandMix)
    booked: IntMatrix | None = None
    generation: int = 0
    # Not an argument of the constructor, so that ``replace`` gives the new value a fresh one.
    _memo: dict[tuple[str, object], object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, nodes: Iterable[NodeInfo], pods: Iterable[PodInfo] = ()) -> Snapshot:
        """Build a Snapshot from scratch; of two pods with one uid the later one counts. Finished pods are dropped."""
        held: dict[str, list[PodInfo]] = defaultdict(list)
        pending: dict[str, PodInfo] = {}
        for pod in {pod.uid: pod for pod in pods}.values():
            if pod.holds:
                held[pod.node_name].append(pod)
            elif pod.waiting:
                pending[pod.uid] = pod
        table = NodeTable.of(nodes)
        rows = tuple(_by_uid(held.pop(name, ())) for name in table.names)
        orphans = {name: _by_uid(group) for name, group in held.items()}
        mix = DemandMix.of(pod for group in (*rows, pending.values()) for pod in group)
        return cls(table, _sum_used(table, rows), rows, orphans, pending, mix)

    def __len__(self) -> int:
        return len(self.table)

    def remember(self, kind: str, key: object, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once per (kind, key): what follows from this Snapshot alone.

        A quiet cluster keeps one Snapshot for long: keys must be few (resources, settings), never pods.
        """
        found = self._memo.get((kind, key))
        if found is None:
            found = self._memo[kind, key] = make()
        return found  # type: ignore[return-value]

    # -- what is free ------------------------------------------------------------------------------------------

    @cached_property
    def free(self) -> IntMatrix:
        """Return int64 [resource, node]: allocatable minus held, below zero where a node is overcommitted."""
        return frozen(self.table.allocatable - self.used)

    @cached_property
    def free_for_score(self) -> IntMatrix:
        """Return ``free`` less what the tentative ledger has booked."""
        return self.free if self.booked is None else frozen(self.free - self.booked)

    def free_of(self, resource: str) -> IntVector:
        """Return int64 [node] of one resource, never below zero; zeros when no node names it."""
        at = self.table.axis.index.get(resource)
        return np.zeros(len(self), dtype=np.int64) if at is None else np.maximum(self.free[at], 0)

    def allocatable_of(self, resource: str) -> IntVector:
        """Return int64 [node] of one resource; zeros when no node names it."""
        return self.table.allocatable_of(resource)

    def pods_on(self, name: str) -> PodTuple:
        """Return the pods that hold something on a node; none for an unknown node."""
        row = self.table.index.get(name)
        return () if row is None else self.pods[row]

    @cached_property
    def nominated(self) -> Mapping[int, PodTuple]:
        """Return row -> waiting pods that preemption has nominated to it."""
        found: dict[int, list[PodInfo]] = defaultdict(list)
        for pod in self.pending.values():
            if pod.nominated_node and (row := self.table.index.get(pod.nominated_node)) is not None:
                found[row].append(pod)
        return {row: tuple(group) for row, group in found.items()}

    # -- algebra -----------------------------------------------------------------------------------------------

    def with_pod(self, pod: PodInfo) -> Snapshot:
        """Return the Snapshot with a pod that was not in it."""
        if pod.waiting:
            return self._changed(pending={**self.pending, pod.uid: pod}, mix=self.mix.plus(pod))
        if not pod.holds:
            return self
        row = self.table.index.get(pod.node_name)
        if row is None:
            group = _by_uid((*self.orphans.get(pod.node_name, ()), pod))
            return self._changed(orphans={**self.orphans, pod.node_name: group})
        return self._with_row(row, _by_uid((*self.pods[row], pod)), self.mix.plus(pod))

    def without_pod(self, pod: PodInfo) -> Snapshot:
        """Return the Snapshot without a pod that is in it; the same Snapshot when it is not."""
        if pod.uid in self.pending:
            rest = {uid: p for uid, p in self.pending.items() if uid != pod.uid}
            return self._changed(pending=rest, mix=self.mix.minus(self.pending[pod.uid]))
        row = self.table.index.get(pod.node_name)
        if row is None:
            return self._without_orphan(pod)
        found = next((p for p in self.pods[row] if p.uid == pod.uid), None)
        if found is None:
            return self
        return self._with_row(row, tuple(p for p in self.pods[row] if p.uid != pod.uid), self.mix.minus(found))

    def with_node(self, node: NodeInfo) -> Snapshot:
        """Return the Snapshot with a node added or replaced; pods that were bound to it before are counted again."""
        row = self.table.index.get(node.name)
        if row is not None and self.table.nodes[row] == node:
            return self
        return self._relaid((*self.table.nodes, node))

    def without_node(self, name: str) -> Snapshot:
        """Return the Snapshot without a node; its pods stay as orphans until they are removed themselves."""
        if name not in self.table.index:
            return self
        return self._relaid(tuple(n for n in self.table.nodes if n.name != name))

    def with_booked(self, booked: IntMatrix | None) -> Snapshot:
        """Return the Snapshot with another tentative ledger."""
        return replace(self, booked=booked)

    def _relaid(self, nodes: tuple[NodeInfo, ...]) -> Snapshot:
        bound = [pod for group in (*self.pods, *self.orphans.values()) for pod in group]
        fresh = Snapshot.of(nodes, (*bound, *self.pending.values()))
        return replace(fresh, generation=self.generation + 1)

    def _with_row(self, row: int, group: PodTuple, mix: DemandMix) -> Snapshot:
        used = self.used.copy()
        used[:, row] = _column(self.table, group)
        pods = (*self.pods[:row], group, *self.pods[row + 1 :])
        return self._changed(used=frozen(used), pods=pods, mix=mix)

    def _without_orphan(self, pod: PodInfo) -> Snapshot:
        group = tuple(p for p in self.orphans.get(pod.node_name, ()) if p.uid != pod.uid)
        rest = {name: g for name, g in self.orphans.items() if name != pod.node_name}
        return self._changed(orphans={**rest, pod.node_name: group} if group else rest)

    def _changed(self, **columns: object) -> Snapshot:
        return replace(self, generation=self.generation + 1, **columns)  # type: ignore[arg-type]


def _by_uid(pods: Iterable[PodInfo]) -> PodTuple:
    return tuple(sorted(pods, key=lambda pod: pod.uid))


def _sum_used(table: NodeTable, rows: tuple[PodTuple, ...]) -> IntMatrix:
    used = np.zeros((len(table.axis), len(table)), dtype=np.int64)
    for row, group in enumerate(rows):
        if group:
            used[:, row] = _column(table, group)
    return frozen(used)


def _column(table: NodeTable, group: PodTuple) -> IntVector:
    """Return what a node's pods hold, per resource of the axis; what the axis does not name holds nothing."""
    totals = [0] * len(table.axis)
    index = table.axis.index
    for pod in group:
        totals[index[PODS]] += 1
        for name, amount in pod.requests.items():
            if (at := index.get(name)) is not None:
                totals[at] = capped_sum(totals[at], amount)
    return np.array(totals, dtype=np.int64)
