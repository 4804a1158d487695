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
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar

from extender.ledger import Booking, Ledger, with_booked
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, PodInfo

K = TypeVar("K")
V = TypeVar("V")

# Pods that filter has seen and a dump does not hold, for the bind that follows within seconds.
_SEEN_LIMIT: Final = 4096
# UIDs of removed pods; a watch delivers a late event within seconds, and a busy cluster deletes tens of pods in one.
_REMOVED_LIMIT: Final = 16384


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
    """

    snapshot: Snapshot
    ledger: Ledger = field(default_factory=Ledger)
    synced: bool = False
    changed: float = 0.0

    def for_scoring(self, uid: str) -> Snapshot:
        """Return the snapshot without the pod's own booking: asked twice, a pod is scored twice the same."""
        if uid not in self.ledger:
            return self.snapshot
        return with_booked(self.snapshot, self.ledger.without((uid,)).booked(self.snapshot.table))

    def with_nodes(self, nodes: Iterable[NodeInfo]) -> View:
        """Return a view that knows further nodes, and what orphaned pods hold on them."""
        old = self.snapshot
        bound = [pod for group in (*old.pods, *old.orphans.values()) for pod in group]
        fresh = Snapshot.of((*old.table.nodes, *nodes), (*bound, *old.pending.values()))
        return replace(self, snapshot=with_booked(fresh, self.ledger.booked(fresh.table)))


class Cache:
    """Nodes, pods and the tentative ledger. All methods may be called from any thread."""

    def __init__(self, *, tentative_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._tentative_seconds = tentative_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodInfo] = {}
        self._uid_by_key: dict[str, str] = {}
        self._seen: OrderedDict[str, PodInfo] = OrderedDict()
        self._removed: OrderedDict[str, None] = OrderedDict()
        self._listed_nodes = self._listed_pods = False
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

    def state(self, uid: str) -> PodState | None:
        """Return where a pod stands, None when it is not known (a booking alone makes it known)."""
        with self._lock:
            pod = self._pods.get(uid)
            if pod is not None and pod.phase.terminal:
                return PodState.TERMINAL
            if pod is not None and pod.node_name:
                return PodState.BOUND
            if uid in self._view.ledger:
                return PodState.TENTATIVE
            return None if pod is None else PodState.PENDING

    # -- nodes -----------------------------------------------------------------------------------------------------

    def update_node(self, node: NodeInfo) -> None:
        """Add a node, or replace the one of that name."""
        with self._lock:
            self._nodes[node.name] = node
            self._publish(self.snapshot.with_node(node), self._view.ledger)

    def remove_node(self, name: str) -> None:
        """Remove a node; what is bound to it is counted again should it return."""
        with self._lock:
            self._nodes.pop(name, None)
            self._publish(self.snapshot.without_node(name), self._view.ledger)

    # -- pods ------------------------------------------------------------------------------------------------------

    def update_pod(self, pod: PodInfo) -> None:
        """Add a pod or move it forward; an update that is late (see the module's head) is ignored."""
        with self._lock:
            old = self._pods.get(pod.uid)
            if pod.uid not in self._removed and pod != old and _is_news(old, pod):
                self._store(pod)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod. The UID alone decides: no other pod of that name loses anything."""
        with self._lock:
            _put(self._removed, uid, None, _REMOVED_LIMIT)
            self._seen.pop(uid, None)
            old = self._pods.pop(uid, None)
            if old is not None and self._uid_by_key.get(old.key) == uid:
                del self._uid_by_key[old.key]
            snapshot = self.snapshot if old is None else self.snapshot.without_pod(old)
            self._publish(snapshot, self._view.ledger.without((uid,)))

    def relist(self, nodes: Iterable[NodeInfo] | None = None, pods: Iterable[PodInfo] | None = None) -> None:
        """Take complete lists for true: what is not in them is gone. None: not listed this time.

        A pod we know to be bound stays bound when the list is older than the binding and shows it waiting.
        """
        with self._lock:
            if nodes is not None:
                self._nodes = {node.name: node for node in nodes}
                self._listed_nodes = True
            if pods is not None:
                self._list_pods({pod.uid: pod for pod in pods})
                self._listed_pods = True
            fresh = Snapshot.of(self._nodes.values(), self._pods.values())
            placed = [pod.uid for pod in self._pods.values() if _placed(pod)]
            self._publish(replace(fresh, generation=self.snapshot.generation + 1), self._view.ledger.without(placed))

    def remember(self, pod: PodInfo) -> None:
        """Note a pod that a request showed: a bind may come before the watch (or a file) shows it."""
        with self._lock:
            _put(self._seen, pod.uid, pod, _SEEN_LIMIT)

    def bind(self, uid: str, namespace: str, name: str, node: str) -> str:
        """Bind a pod of an embedded cluster at once, as `POST pods/NAME/binding` would; return "" or why not.

        Checking and committing are one step under the lock. Repeating a binding that went through succeeds
        (registry/core/pod/storage assignPod; kubernetes#96579). Unlike the API server it refuses to promise a GPU
        twice: there is no kubelet behind an embedded cluster to do so.
        """
        with self._lock:
            pod = self._pods.get(uid) or self._seen.get(uid)
            fault = self._name_fault(uid, f"{namespace}/{name}", pod)
            if fault or pod is None:
                return fault
            if pod.node_name == node and not pod.terminating:
                return ""
            fault = _binding_fault(self.snapshot, pod, node)
            if not fault:
                self._store(replace(pod, node_name=node))
            return fault

    # -- the tentative ledger --------------------------------------------------------------------------------------

    def assume(self, pod: PodInfo, node: str, now: float) -> None:
        """Book a node for a pod the scheduler has surely placed there; `now` in seconds of any steady clock.

        Ignored once we know more: the pod is bound, finished or removed.
        """
        with self._lock:
            known = self._pods.get(pod.uid)
            over = pod.uid in self._removed or (known is not None and _placed(known))
            if self._tentative_seconds > 0 and not over:
                booking = Booking(pod, node, now + self._tentative_seconds)
                self._next_deadline = min(self._next_deadline, booking.deadline)
                self._publish(self.snapshot, self._view.ledger.plus(booking))

    def forget(self, uid: str) -> None:
        """Drop a pod's booking."""
        with self._lock:
            self._publish(self.snapshot, self._view.ledger.without((uid,)))

    def expire(self, now: float) -> None:
        """Drop the bookings whose time is over. Costs nothing while there are none."""
        if now < self._next_deadline:
            return
        with self._lock:
            live = self._view.ledger.live(now)
            self._next_deadline = live.next_deadline
            self._publish(self.snapshot, live)

    # -- with the lock held ----------------------------------------------------------------------------------------

    def _store(self, pod: PodInfo) -> None:
        old = self._pods.get(pod.uid)
        snapshot = self.snapshot if old is None else self.snapshot.without_pod(old)
        self._pods[pod.uid] = pod
        self._claim_key(pod)
        ledger = self._view.ledger
        self._publish(snapshot.with_pod(pod), ledger.without((pod.uid,)) if _placed(pod) else ledger)

    def _claim_key(self, pod: PodInfo) -> None:
        # A finished pod may share its name with the one that follows it; bind asks about the living.
        if not pod.phase.terminal:
            self._uid_by_key[pod.key] = pod.uid

    def _list_pods(self, listed: dict[str, PodInfo]) -> None:
        for uid, pod in listed.items():
            self._removed.pop(uid, None)
            old = self._pods.get(uid)
            if old is not None and not _is_news(old, pod):
                listed[uid] = old
        self._pods = listed
        self._uid_by_key = {}
        for pod in listed.values():
            self._claim_key(pod)

    def _name_fault(self, uid: str, key: str, pod: PodInfo | None) -> str:
        current = self._uid_by_key.get(key)
        if current is not None and current != uid:
            return f"pod {key} has UID {current}, which differs from the UID {uid} to be bound"
        if pod is None or pod.key != key:
            return f"pod {key} with UID {uid} is not known"
        return ""

    def _publish(self, snapshot: Snapshot, ledger: Ledger) -> None:
        old = self._view
        if snapshot.table is not old.snapshot.table:
            snapshot = with_booked(snapshot, ledger.booked(snapshot.table))
        elif ledger is not old.ledger:
            snapshot = with_booked(snapshot, ledger.booked_since(old.ledger, old.snapshot))
        same = snapshot.generation == old.snapshot.generation
        changed = old.changed if same else self._clock()
        self._view = View(snapshot, ledger, self._listed_nodes and self._listed_pods, changed)


def _placed(pod: PodInfo) -> bool:
    return bool(pod.node_name) or pod.phase.terminal


def _is_news(old: PodInfo | None, new: PodInfo) -> bool:
    """Tell whether an update moves a pod forward: a finished pod stays so, a binding is never undone."""
    if old is None or new.phase.terminal:
        return True
    return not old.phase.terminal and (not old.node_name or bool(new.node_name))


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


def _put(memory: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > limit:
        memory.popitem(last=False)
