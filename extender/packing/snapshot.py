"""The immutable state one decision reads: nodes, what is held on them, who waits.

``with_pod`` / ``without_pod`` / ``with_node`` / ``without_node`` return a new value and leave the old one alone. Any
order of them that ends with the same nodes and pods gives an equal Snapshot (``tests/property``), so the cache may
apply watch events one by one or rebuild from scratch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from extender.packing.guidance import Guidance
from extender.packing.history import History
from extender.packing.memory import Lineage
from extender.packing.mix import DemandMix
from extender.packing.occupancy import Occupancy, PodTuple
from extender.packing.resources import minus
from extender.packing.table import IntMatrix, IntVector, NodeTable, Rows, frozen
from extender.packing.types import NodeInfo, PodInfo

T = TypeVar("T")


class Changed(NamedTuple):
    """How a Snapshot differs from one before, of the same nodes.

    Attributes:
        rows: on which what is held or booked may have changed.
        gone, come: the pods that have, holding something or waiting; one that has moved on is in both.
    """

    rows: Collection[int]
    gone: PodTuple = ()
    come: PodTuple = ()


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
        history: what cannot be read off nodes and pods: what has started, ended and come of late, and guidance.
        generation: counts changes.
    """

    table: NodeTable
    used: IntMatrix
    pods: tuple[PodTuple, ...]
    orphans: Mapping[str, PodTuple] = field(default_factory=dict)
    pending: Mapping[str, PodInfo] = field(default_factory=dict)
    mix: DemandMix = field(default_factory=DemandMix)
    booked: IntMatrix | None = None
    history: History = field(default_factory=History)
    generation: int = 0
    # Not an argument of the constructor, so that ``replace`` gives the new value a fresh one.
    _memo: Lineage[Snapshot, Changed] = field(default_factory=Lineage, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, nodes: Iterable[NodeInfo], pods: Iterable[PodInfo] = ()) -> Snapshot:
        """Build a Snapshot from scratch; of two pods with one uid the later one counts. Finished pods are dropped."""
        fresh = cls._counted_anew(NodeTable.of(nodes), pods)
        history = History.of(fresh._running, fresh._everyone, fresh.table.whole_gpus, fresh.mix)  # noqa: SLF001 - ours
        return replace(fresh, history=history)

    @classmethod
    def _counted_anew(cls, table: NodeTable, pods: Iterable[PodInfo]) -> Snapshot:
        """Return the Snapshot of nodes and pods, without a history."""
        known = {pod.uid: pod for pod in pods}.values()
        pending = {pod.uid: pod for pod in known if pod.waiting}
        held = Occupancy.of(table, (pod for pod in known if pod.holds))
        mix = DemandMix.of(pod for group in (*held.pods, pending.values()) for pod in group)
        return cls(table, held.used, held.pods, held.orphans, pending, mix)

    def __len__(self) -> int:
        return len(self.table)

    def remember(
        self,
        kind: str,
        key: object,
        make: Callable[[], T],
        follow: Callable[[T, Snapshot, Changed], T | None] | None = None,
    ) -> T:
        """Return ``make()``, computed once per (kind, key): what follows from this Snapshot alone.

        A quiet cluster keeps one Snapshot for long: keys must be few (resources, settings), never pods. ``follow``
        brings the value along to the next Snapshot of the same nodes, given what has changed (None: it cannot); it must
        give what ``make`` would there, and hold no Snapshot.
        """
        return self._memo.recall((kind, key), make, follow)

    @property
    def guidance(self) -> Guidance | None:
        """Return what a planner has worked out of an earlier state."""
        return self.history.guidance

    # -- what is free ------------------------------------------------------------------------------------------

    @cached_property
    def free(self) -> IntMatrix:
        """Return int64 [resource, node]: allocatable minus held, below zero where a node is overcommitted."""
        return frozen(self.table.allocatable - self.used)

    @cached_property
    def free_for_score(self) -> IntMatrix:
        """Return ``free`` less what the tentative ledger has booked."""
        return self.free if self.booked is None else frozen(minus(self.free, self.booked))

    def free_for_score_of(self, resource: str, rows: Rows) -> IntVector:
        """Return int64 [row] of one resource: ``free_for_score``, never below zero; zeros when no node names it.

        Only the rows asked for are worked out: the ledger changes with every pod that is scored.
        """
        at = self.table.axis.index.get(resource)
        if at is None:
            return np.zeros(len(rows), dtype=np.int64)
        free = self.free[at].take(rows)
        return np.maximum(free if self.booked is None else minus(free, self.booked[at].take(rows)), 0)

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

    @property
    def nominated(self) -> Mapping[int, PodTuple]:
        """Return row -> waiting pods that preemption has nominated to it."""
        return self.remember("nominated", None, self._nominated, _nominated_still)

    def _nominated(self) -> Mapping[int, PodTuple]:
        found: dict[int, list[PodInfo]] = defaultdict(list)
        for pod in self.pending.values():
            if pod.nominated_node and (row := self.table.index.get(pod.nominated_node)) is not None:
                found[row].append(pod)
        return {row: tuple(group) for row, group in found.items()}

    # -- algebra -----------------------------------------------------------------------------------------------

    def with_pod(self, pod: PodInfo) -> Snapshot:
        """Return the Snapshot with a pod that was not in it."""
        return self.with_changes(come=(pod,))

    def without_pod(self, pod: PodInfo) -> Snapshot:
        """Return the Snapshot without a pod that is in it; the same Snapshot when it is not."""
        found = self.pending.get(pod.uid)
        if found is None:
            found = next((held for held in self._held.on(pod.node_name) if held.uid == pod.uid), None)
        return self if found is None else self.with_changes(gone=(found,))

    def with_node(self, node: NodeInfo) -> Snapshot:
        """Return the Snapshot with a node added or replaced; pods that were bound to it before are counted again."""
        row = self.table.index.get(node.name)
        if row is not None and self.table.nodes[row] == node:
            return self
        return self.with_changes(nodes=(*self.table.nodes, node))

    def without_node(self, name: str) -> Snapshot:
        """Return the Snapshot without a node; its pods stay as orphans until they are removed themselves."""
        if name not in self.table.index:
            return self
        return self.with_changes(nodes=tuple(n for n in self.table.nodes if n.name != name))

    def with_changes(
        self, *, gone: Iterable[PodInfo] = (), come: Iterable[PodInfo] = (), nodes: Iterable[NodeInfo] | None = None
    ) -> Snapshot:
        """Return the Snapshot after many changes at once, at the price of what they touch.

        `gone` are pods as they are in it, `come` pods that are not, or no longer; a pod that moves on is in both.
        `nodes` are all nodes from now on, None when they stay.
        """
        gone, come = _counting(gone), _counting(come)
        if not gone and not come and nodes is None:
            return self
        touched = self._held.regrouped(gone, come)
        pending = dict(self.pending)
        for pod in gone:
            pending.pop(pod.uid, None)
        pending.update((pod.uid, pod) for pod in come if pod.waiting)
        held = self._held.with_groups(touched) if nodes is None else self._held.over(NodeTable.of(nodes), touched)
        fresh = Snapshot(held.table, held.used, held.pods, held.orphans, pending)
        mix = self.mix.moved(self._counted(gone, fresh), fresh._counted(come, self))
        fresh = self._succeeded_by(replace(fresh, mix=mix), gone, come)
        if fresh.table is self.table:
            index = self.table.index
            changed = Changed([index[name] for name in touched if name in index], gone, come)
            fresh._memo.inherit(self._memo, fresh, changed)  # noqa: SLF001 - one of us
        return fresh

    def rebuilt(
        self, table: NodeTable, pods: Iterable[PodInfo], gone: Iterable[PodInfo], come: Iterable[PodInfo]
    ) -> Snapshot:
        """Return what ``with_changes`` would, made of all nodes and pods: cheaper when most of them have changed."""
        return self._succeeded_by(Snapshot._counted_anew(table, pods), _counting(gone), _counting(come))

    def _succeeded_by(self, fresh: Snapshot, gone: PodTuple, come: PodTuple) -> Snapshot:
        """Return ``fresh``, which some pods gone and come have made of this Snapshot, with what it has from this."""
        history = self.history.moved(gone, come, fresh._everyone, fresh.table.whole_gpus, fresh.mix)
        return replace(fresh, history=history, booked=self.booked, generation=self.generation + 1)

    @property
    def _held(self) -> Occupancy:
        return Occupancy(self.table, self.used, self.pods, self.orphans)

    @property
    def _running(self) -> Iterator[PodInfo]:
        return chain.from_iterable(self.pods)

    @property
    def _everyone(self) -> Iterator[PodInfo]:
        return chain(self._running, self.pending.values())

    def _counted(self, pods: PodTuple, other: Snapshot) -> list[PodInfo]:
        """Return which of these pods count in the mix here, and all on nodes that the other Snapshot has not."""
        mine, theirs = self.table.index, other.table.index
        alone = () if mine is theirs else mine.keys() - theirs.keys()
        counted = [pod for pod in pods if pod.waiting or (pod.node_name in mine and pod.node_name not in alone)]
        return [*counted, *(pod for name in alone for pod in self.pods_on(name))]

    def with_booked(self, booked: IntMatrix | None) -> Snapshot:
        """Return the Snapshot with another tentative ledger."""
        fresh = replace(self, booked=booked)
        changed = Changed(self._booked_rows | fresh._booked_rows)  # noqa: SLF001 - one of us
        fresh._memo.inherit(self._memo, fresh, changed)  # noqa: SLF001
        return fresh

    @property
    def _booked_rows(self) -> frozenset[int]:
        """Return the rows on which something is booked."""
        return frozenset() if self.booked is None else frozenset(np.flatnonzero(self.booked.any(axis=0)).tolist())

    def with_guidance(self, guidance: Guidance | None) -> Snapshot:
        """Return the Snapshot with other guidance, at the price of a few references.

        Nothing that is remembered depends on guidance, so all of it is carried over.
        """
        fresh = replace(self, history=replace(self.history, guidance=guidance))
        known = dict(vars(self))  # at once: readers may be adding what they have worked out
        fresh.__dict__.update({name: value for name, value in known.items() if name not in vars(fresh)})
        fresh.__dict__["_memo"] = self._memo
        return fresh


def _nominated_still(found: Mapping[int, PodTuple], _: Snapshot, changed: Changed) -> Mapping[int, PodTuple] | None:
    return None if any(pod.nominated_node for pod in (*changed.gone, *changed.come)) else found


def _counting(pods: Iterable[PodInfo]) -> PodTuple:
    return tuple(pod for pod in pods if pod.holds or pod.waiting)
