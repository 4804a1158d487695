"""What the API server tells about the cluster, one value per event or list. The cache applies them in their order."""

from __future__ import annotations

from dataclasses import dataclass

from extender.packing.types import NodeInfo, PodInfo


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node is there, as it is now."""

    node: NodeInfo


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node is no longer there."""

    name: str


@dataclass(frozen=True, slots=True)
class NodesListed:
    """These are all nodes."""

    nodes: tuple[NodeInfo, ...]


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod is there, as it is now."""

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod is no longer there; nothing but its UID is needed to know which."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodsListed:
    """These are all pods."""

    pods: tuple[PodInfo, ...]


Change = NodeSeen | NodeGone | NodesListed | PodSeen | PodGone | PodsListed
