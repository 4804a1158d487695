"""Nodes by name and pods by UID, as the events tell it: the part of the cache that knows what an event changes.

Called with the cache's lock held. Events may be late or repeated: a pod only moves forward, and a UID that was removed
comes back by a list alone. What has changed since the last `settle` is kept: a thousand events cost one Snapshot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from extender.changes import Change, NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from extender.packing.types import NodeInfo, PodInfo

# UIDs of removed pods; a watch delivers a late event within seconds, and a busy cluster deletes tens of pods in one.
_REMOVED_LIMIT: Final = 16384
# With more changed pods than this share of all a Snapshot is cheaper made from nothing.
_MANY_OF_ALL: Final = 0.25


class Books:
    """What the cluster holds.

    Attributes:
        drifted_nodes, drifted_pods: how many objects lists have shown different from these books, ever.
        rebuild_from: changed pods below which a Snapshot is always made from the one before.
    """

    def __init__(self, rebuild_from: int = 256) -> None:
        self.rebuild_from = rebuild_from
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[str, PodInfo] = {}
        self.listed_nodes = self.listed_pods = False
        self.drifted_nodes = self.drifted_pods = 0
        self._uid_by_key: dict[str, str] = {}
        self._removed: OrderedDict[str, None] = OrderedDict()
        self._before: dict[str, PodInfo | None] = {}
        self._nodes_changed = False

    @property
    def complete(self) -> bool:
        """Tell whether both first lists are in."""
        return self.listed_nodes and self.listed_pods

    def was_removed(self, uid: str) -> bool:
        """Tell whether a pod is known to be gone for good."""
        return uid in self._removed

    def uid_of(self, key: str) -> str | None:
        """Return the UID of the unfinished pod that has a name now."""
        return self._uid_by_key.get(key)

    # -- events ----------------------------------------------------------------------------------------------------

    def note(self, change: Change) -> None:
        """Enter one change."""
        match change:
            case PodSeen(pod):
                self.see_pod(pod)
            case PodGone(uid):
                self.drop_pod(uid)
            case NodeSeen(node):
                self.see_node(node)
            case NodeGone(name):
                self.drop_node(name)
            case NodesListed(nodes):
                self.list_nodes(nodes)
            case PodsListed(pods):
                self.list_pods(pods)

    def see_node(self, node: NodeInfo) -> None:
        """Add or replace a node. A heartbeat changes none of the fields we keep, and so nothing."""
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            self._nodes_changed = True

    def drop_node(self, name: str) -> None:
        """Remove a node; pods bound to it wait as orphans for its return or for their own end."""
        if self.nodes.pop(name, None) is not None:
            self._nodes_changed = True

    def see_pod(self, pod: PodInfo) -> None:
        """Add a pod or move it forward."""
        old = self.pods.get(pod.uid)
        if pod.uid not in self._removed and pod != old and is_news(old, pod):
            self._put(pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod. The UID alone decides: no other pod of that name loses anything."""
        self._removed[uid] = None
        self._removed.move_to_end(uid)
        if len(self._removed) > _REMOVED_LIMIT:
            self._removed.popitem(last=False)
        old = self.pods.pop(uid, None)
        if old is not None:
            self._before.setdefault(uid, old)
            if self._uid_by_key.get(old.key) == uid:
                del self._uid_by_key[old.key]

    # -- lists -----------------------------------------------------------------------------------------------------

    def list_nodes(self, nodes: Iterable[NodeInfo]) -> None:
        """Take a complete list for true."""
        listed = {node.name: node for node in nodes}
        if self.listed_nodes:
            self.drifted_nodes += sum(listed.get(name) != self.nodes.get(name) for name in listed | self.nodes)
        self._nodes_changed |= listed != self.nodes
        self.nodes = listed
        self.listed_nodes = True

    def list_pods(self, pods: Iterable[PodInfo]) -> None:
        """Take a complete list for true, but for bindings that are newer than the list."""
        listed = {pod.uid: pod for pod in pods}
        drifted = 0
        for uid in self.pods.keys() - listed.keys():
            self._before.setdefault(uid, self.pods.pop(uid))
            drifted += 1
        self._uid_by_key = {}
        for uid, pod in listed.items():
            self._removed.pop(uid, None)
            old = self.pods.get(uid)
            if pod != old and is_news(old, pod):
                self._put(pod)
                drifted += 1
            else:
                self._claim_key(self.pods[uid])
        self.drifted_pods += drifted if self.listed_pods else 0
        self.listed_pods = True

    # -- to a Snapshot ---------------------------------------------------------------------------------------------

    def settle(self, snapshot: Snapshot) -> tuple[Snapshot, list[str]]:
        """Return the Snapshot after all changes since the last call, and the UIDs of the pods that changed."""
        changed, self._before = self._before, {}
        nodes = self.nodes.values() if self._nodes_changed else None
        self._nodes_changed = False
        gone = [old for old in changed.values() if old is not None]
        come = [self.pods[uid] for uid in changed if uid in self.pods]
        if len(changed) > max(self.rebuild_from, _MANY_OF_ALL * len(self.pods)):
            table = snapshot.table if nodes is None else NodeTable.of(nodes)
            return snapshot.rebuilt(table, self.pods.values(), gone, come), list(changed)
        return snapshot.with_changes(gone=gone, come=come, nodes=nodes), list(changed)

    def _put(self, pod: PodInfo) -> None:
        self._before.setdefault(pod.uid, self.pods.get(pod.uid))
        self.pods[pod.uid] = pod
        self._claim_key(pod)

    def _claim_key(self, pod: PodInfo) -> None:
        # A finished pod may share its name with the one that follows it; bind asks about the living.
        if not pod.phase.terminal:
            self._uid_by_key[pod.key] = pod.uid


def is_news(old: PodInfo | None, new: PodInfo) -> bool:
    """Tell whether an update moves a pod forward: a finished pod stays so, a binding is never undone."""
    if old is None or new.phase.terminal:
        return True
    return not old.phase.terminal and (not old.node_name or bool(new.node_name))


def is_placed(pod: PodInfo) -> bool:
    """Tell whether nothing is left to be decided about a pod."""
    return bool(pod.node_name) or pod.phase.terminal
