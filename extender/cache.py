"""What the service knows of the cluster: the one mutable domain object. It publishes immutable Views.

Writers take the one lock; readers take none: they read `view` once and work on that value alone. Pods and bookings
are keyed by UID, never by name, and a pod only ever moves forward, so an event that comes late changes nothing.

                      assume                                   The model is kube-scheduler's
           +-----------------------+                           backend/cache/interface.go; ours differs
           |                       v                           in that a tentative pod holds nothing:
      Pending <----------------- Tentative                     whether a pod fits never looks at it.
         |      forget, expire     |
         |                         |
         |  seen on a node, bind   |     Each state leads to nothing at all (the pod is forgotten):
         +-----------+-------------+     remove_pod, or a relist without the pod. A UID that was
                     v                   removed does not come back by a late update, only by a
                   Bound                 relist that shows it.
                     |  phase Succeeded or Failed (from every state)
                     v
                 Terminal
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from extender.books import Books, is_placed
from extender.changes import Change, NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.ledger import Booking, Ledger, with_booked
from extender.packing.guidance import Guidance
from extender.packing.holds import HoldRules, Holds
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, PodInfo
from extender.recent import Recent

# Pods that filter has seen and a dump does not hold, for the bind that follows within seconds.
_SEEN_LIMIT: Final = 4096
_SEEN_LIMIT_BYTES: Final = 2**25


def _forget(_: PodInfo) -> None:
    """Write nothing down."""


class PodState(Enum):
    """Where a pod stands, see the module's head."""

    PENDING = "pending"
    TENTATIVE = "tentative"
    BOUND = "bound"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class View:
    """One consistent reading of the cache.

    Attributes:
        snapshot: nodes and pods; its `booked` is the sum of the ledger.
        synced: both first lists are in.
        changed: when the snapshot's generation began, by the cache's clock, in seconds.
        holds: nodes promised to larger pods that wait; deadlines by the clock of `expire`.
    """

    snapshot: Snapshot
    ledger: Ledger = field(default_factory=Ledger)
    synced: bool = False
    changed: float = 0.0
    holds: Holds = field(default_factory=Holds)

    def for_scoring(self, uid: str) -> Snapshot:
        """Return the snapshot without the pod's own booking: asked twice, a pod is scored twice the same."""
        if uid not in self.ledger:
            return self.snapshot
        return with_booked(self.snapshot, self.ledger.without((uid,)).booked(self.snapshot.table))

    def with_nodes(self, nodes: Iterable[NodeInfo]) -> View:
        """Return a view that knows further nodes, and what orphaned pods hold on them; what has happened stays."""
        old = self.snapshot
        bound = [pod for group in (*old.pods, *old.orphans.values()) for pod in group]
        fresh = Snapshot.of((*old.table.nodes, *nodes), (*bound, *old.pending.values()))
        fresh = replace(fresh, history=old.history)
        return replace(self, snapshot=with_booked(fresh, self.ledger.booked(fresh.table)))


class Cache:
    """Nodes, pods and the tentative ledger. All methods may be called from any thread."""

    def __init__(
        self,
        *,
        tentative_seconds: float,
        hold_rules: HoldRules = HoldRules(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tentative_seconds = tentative_seconds
        self._hold_rules = hold_rules
        self._clock = clock
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._books = Books()
        # A lock of its own, taken inside the other if both: filter must not wait for a batch of changes to be applied.
        self._seen_lock = threading.Lock()
        self._seen: Recent[str, PodInfo] = Recent(_SEEN_LIMIT, _SEEN_LIMIT_BYTES)
        self._next_deadline = Ledger().next_deadline
        self._view = View(Snapshot.of(()))

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """Return the present View; never changes once read."""
        return self._view

    @property
    def snapshot(self) -> Snapshot:
        """Return the present Snapshot."""
        return self._view.snapshot

    @property
    def synced(self) -> bool:
        """Tell whether both first lists are in."""
        return self._view.synced

    def wait(self, view: View, seconds: float) -> View:
        """Return the View as soon as its Snapshot is of another generation than `view`'s, at the latest in time."""
        with self._news:
            self._news.wait_for(lambda: self.snapshot.generation != view.snapshot.generation, seconds)
            return self._view

    def state(self, uid: str) -> PodState | None:
        """Return where a pod stands, None when it is not known (a booking alone makes it known)."""
        with self._lock:
            pod = self._books.pods.get(uid)
            if pod is not None and pod.phase.terminal:
                return PodState.TERMINAL
            if pod is not None and pod.node_name:
                return PodState.BOUND
            if uid in self._view.ledger:
                return PodState.TENTATIVE
            return None if pod is None else PodState.PENDING

    @property
    def drifted(self) -> tuple[int, int]:
        """Return how many (nodes, pods) lists have shown different from what was known, since the start."""
        return self._books.drifted_nodes, self._books.drifted_pods

    # -- what the cluster tells ------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change]) -> None:
        """Enter changes in their order and publish once: readers see all of them or none."""
        with self._lock:
            for change in changes:
                self._books.note(change)
            self._settle()

    def update_node(self, node: NodeInfo) -> None:
        """Add a node, or replace the one of that name."""
        self.apply((NodeSeen(node),))

    def remove_node(self, name: str) -> None:
        """Remove a node; what is bound to it is counted again should it return."""
        self.apply((NodeGone(name),))

    def update_pod(self, pod: PodInfo) -> None:
        """Add a pod or move it forward; an update that is late (see the module's head) is ignored."""
        self.apply((PodSeen(pod),))

    def remove_pod(self, uid: str) -> None:
        """Forget a pod. The UID alone decides: no other pod of that name loses anything."""
        self.apply((PodGone(uid),))

    def relist(self, nodes: Iterable[NodeInfo] | None = None, pods: Iterable[PodInfo] | None = None) -> None:
        """Take complete lists for true: what is not in them is gone. None: not listed this time.

        A pod we know to be bound stays bound when the list is older than the binding and shows it waiting.
        """
        changes: list[Change] = [] if nodes is None else [NodesListed(tuple(nodes))]
        self.apply(changes if pods is None else [*changes, PodsListed(tuple(pods))])

    def remember(self, pod: PodInfo) -> None:
        """Note a pod that a request showed: a bind may come before the watch (or a file) shows it."""
        with self._seen_lock:
            self._seen.put(pod.uid, pod, pod.size_bytes)

    def bind(self, uid: str, namespace: str, name: str, node: str, record: Callable[[PodInfo], None] = _forget) -> str:
        """Bind a pod of an embedded cluster at once, as `POST pods/NAME/binding` would; return "" or why not.

        Checking and committing are one step under the lock. Repeating a binding that went through succeeds
        (registry/core/pod/storage assignPod; kubernetes#96579). Unlike the API server it refuses to promise a GPU
        twice: there is no kubelet behind an embedded cluster to do so. `record` is given the pod with its node before
        the binding counts; what it raises leaves everything as it was.
        """
        with self._lock:
            pod = self._known(uid)
            fault = self._name_fault(uid, f"{namespace}/{name}", pod)
            if fault or pod is None:
                return fault
            if pod.node_name == node and not pod.terminating:
                return ""
            fault = _binding_fault(self.snapshot, pod, node)
            if not fault:
                record(replace(pod, node_name=node))
                self._enter_binding(pod, node)
            return fault

    def bound(self, uid: str, node: str) -> None:
        """Enter a binding that the API server has confirmed, ahead of the watch; of an unknown pod nothing."""
        with self._lock:
            pod = self._known(uid)
            if pod is not None and not is_placed(pod):
                self._enter_binding(pod, node)

    # -- the tentative ledger --------------------------------------------------------------------------------------

    def assume(self, pod: PodInfo, node: str, now: float) -> None:
        """Book a node for a pod the scheduler has surely placed there; `now` in seconds of any steady clock.

        Ignored once we know more: the pod is bound, finished or removed.
        """
        with self._lock:
            known = self._books.pods.get(pod.uid)
            over = self._books.was_removed(pod.uid) or (known is not None and is_placed(known))
            if self._tentative_seconds > 0 and not over:
                booking = Booking(pod, node, now + self._tentative_seconds)
                self._next_deadline = min(self._next_deadline, booking.deadline)
                self._publish(self.snapshot, self._view.ledger.plus(booking))

    def forget(self, uid: str) -> None:
        """Drop a pod's booking."""
        with self._lock:
            self._publish(self.snapshot, self._view.ledger.without((uid,)))

    def expire(self, now: float) -> None:
        """Drop the bookings and holds whose time is over; `now` by the cache's clock. Costs nothing while none are."""
        if now < self._next_deadline:
            return
        with self._lock:
            ledger = self._view.ledger.live(now)
            holds = self._view.holds.renewed(self.snapshot, now, self._hold_rules)
            self._next_deadline = min(ledger.next_deadline, holds.next_deadline)
            self._publish(self.snapshot, ledger, holds)

    # -- plans -----------------------------------------------------------------------------------------------------

    def advise(self, make: Callable[[Snapshot], Guidance | None]) -> None:
        """Publish guidance, made of the present snapshot under the lock: so nothing starts in between."""
        with self._lock:
            self._publish(self.snapshot.with_guidance(make(self.snapshot)), self._view.ledger)

    # -- with the lock held ----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        snapshot, changed = self._books.settle(self.snapshot)
        pods, ledger = self._books.pods, self._view.ledger
        over = [uid for uid in changed if (pod := pods.get(uid)) is None or is_placed(pod)]
        # A booking may be of a pod that only a request has shown, so what was removed is not among the changed ones.
        over += [uid for uid in ledger.lines if self._books.was_removed(uid)]
        with self._seen_lock:
            for uid in over:
                self._seen.pop(uid)
        holds = self._view.holds
        if snapshot is not self.snapshot:
            holds = holds.renewed(snapshot, self._clock(), self._hold_rules)
            self._next_deadline = min(self._next_deadline, holds.next_deadline)
        self._publish(snapshot, ledger.without(over), holds)

    def _known(self, uid: str) -> PodInfo | None:
        return self._books.pods.get(uid) or self._seen.get(uid)

    def _enter_binding(self, pod: PodInfo, node: str) -> None:
        self._books.see_pod(replace(pod, node_name=node))
        self._settle()

    def _name_fault(self, uid: str, key: str, pod: PodInfo | None) -> str:
        current = self._books.uid_of(key)
        if current is not None and current != uid:
            return f"pod {key} has UID {current}, which differs from the UID {uid} to be bound"
        if pod is None or pod.key != key:
            return f"pod {key} with UID {uid} is not known"
        return ""

    def _publish(self, snapshot: Snapshot, ledger: Ledger, holds: Holds | None = None) -> None:
        old = self._view
        if snapshot.table is not old.snapshot.table:
            snapshot = with_booked(snapshot, ledger.booked(snapshot.table))
        elif ledger is not old.ledger:
            snapshot = with_booked(snapshot, ledger.booked_since(old.ledger, old.snapshot))
        same = snapshot.generation == old.snapshot.generation
        changed = old.changed if same else self._clock()
        self._view = View(snapshot, ledger, self._books.complete, changed, old.holds if holds is None else holds)
        if not same:
            self._news.notify_all()


def _binding_fault(snapshot: Snapshot, pod: PodInfo, node: str) -> str:
    """Return why a pod cannot be bound now, "" when it can; the first two are the API server's words."""
    if pod.terminating:
        return f"pod is being deleted: {pod.key}"
    if pod.node_name:
        return f"pod {pod.key} is already assigned to {pod.node_name}"
    if pod.gated or pod.phase.terminal:
        return f"pod {pod.key} has {'scheduling gates' if pod.gated else 'finished'}"
    row = snapshot.table.index.get(node)
    if row is None:
        return f"node {node} is not known"
    wanted = ((pod.gpu.resource, pod.gpu.count), *pod.gpu.others)
    short = [name for name, count in wanted if count > int(snapshot.free_of(name)[row])]
    return f"node {node}: Insufficient {', '.join(short)}" if short else ""
