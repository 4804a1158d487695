"""Node types that could be bought more of: nodes that are alike but for their names, and what a new one would offer.

Pure. Nodes are alike when their GPUs, their CPUs, their GiB of memory, their lasting taints and the labels that the
waiting pods look at are the same; other labels (host name, zone, time stamps) tell equal machines apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.packing.resources import CORE_MILLI, CPU, GIB, MEMORY, PODS
from extender.packing.selectors import Taint
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, PodInfo

INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_HOSTNAME: Final = "kubernetes.io/hostname"
# Taints of these prefixes say how a node fares now, not what it is (kube: well-known labels, annotations and taints).
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node type.

    Attributes:
        name: its instance type if the nodes say one, else what it consists of.
        nodes: the nodes of the type that are there, by name.
        node: an empty node of the type, under a name that no node has.
        model: the GPU model, None when unknown; of several resources the first by name.
        gpus: whole GPUs of one node.
    """

    name: str
    nodes: tuple[str, ...]
    node: NodeInfo
    model: str | None
    gpus: int


def node_shapes(
    snapshot: Snapshot, waiting: Iterable[PodInfo], everywhere: Callable[[PodInfo], bool]
) -> list[NodeShape]:
    """Return the types of the GPU nodes, the one with the first node by name first.

    Args:
        snapshot: the nodes, and the pods that run on them.
        waiting: the pods that the nodes are for.
        everywhere: tells of a running pod whether each new node would get one, too, as from a DaemonSet.
    """
    keys = _looked_at(waiting)
    groups: dict[object, list[int]] = {}
    for row, node in enumerate(snapshot.table.nodes):
        if any(model.whole and _capacity(node, name) for name, model in node.gpus.items()):
            groups.setdefault(_alike(node, keys), []).append(row)
    return [_shape(snapshot, rows, keys, everywhere) for rows in groups.values()]


def _looked_at(pods: Iterable[PodInfo]) -> set[str]:
    """Return the labels that decide where these pods may run."""
    found = set()
    for pod in pods:
        found |= {key for key, _ in pod.constraints.selector}
        found |= {line.key for term in pod.constraints.affinity or () for line in term.expressions}
    return found - {_HOSTNAME}


def _alike(node: NodeInfo, keys: Collection[str]) -> object:
    return (
        tuple(sorted((name, model, _capacity(node, name)) for name, model in node.gpus.items())),
        _capacity(node, CPU),
        round(_capacity(node, MEMORY) / GIB),
        _lasting(node.taints),
        tuple((key, node.labels.get(key)) for key in sorted(keys)),
        _instance_type(node),
    )


def _capacity(node: NodeInfo, resource: str) -> int:
    return node.capacity.get(resource, 0)


def _lasting(taints: Sequence[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if not taint.key.startswith(_PASSING))


def _instance_type(node: NodeInfo) -> str:
    return next((node.labels[key] for key in INSTANCE_TYPES if node.labels.get(key)), "")


def _shape(
    snapshot: Snapshot, rows: Sequence[int], keys: Collection[str], everywhere: Callable[[PodInfo], bool]
) -> NodeShape:
    nodes = [snapshot.table.nodes[row] for row in rows]
    first = nodes[0]
    amounts = {name: _offered(nodes, name) for name in {name for node in nodes for name in node.allocatable}}
    for row in rows:
        for name, amount in _used_everywhere(snapshot, row, everywhere).items():
            amounts[name] = min(amounts.get(name, 0), _offered(nodes, name) - amount)
    labels = {key: value for key, value in first.labels.items() if key in keys}
    gpus = {name: model for name, model in first.gpus.items() if model.whole}
    node = NodeInfo(f"{first.name} (new)", labels, amounts, first.capacity, _lasting(first.taints), gpus=first.gpus)
    model = next((gpus[name].label for name in sorted(gpus)), None)
    whole = sum(_capacity(first, name) for name in gpus)
    return NodeShape(
        _instance_type(first) or _described(first, whole, model), tuple(n.name for n in nodes), node, model, whole
    )


def _offered(nodes: Sequence[NodeInfo], resource: str) -> int:
    """Return what a new node would offer: all its GPUs, as they break later; of the rest the least of its like."""
    if resource in nodes[0].gpus:
        return max(node.allocatable.get(resource, 0) for node in nodes)
    return min(node.allocatable.get(resource, 0) for node in nodes)


def _used_everywhere(snapshot: Snapshot, row: int, everywhere: Callable[[PodInfo], bool]) -> Mapping[str, int]:
    pods = [pod for pod in snapshot.pods[row] if everywhere(pod)]
    used = {PODS: len(pods)}
    for pod in pods:
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + amount
    return used


def _described(node: NodeInfo, gpus: int, model: str | None) -> str:
    cpus, gib = _capacity(node, CPU) // CORE_MILLI, round(_capacity(node, MEMORY) / GIB)
    return f"{gpus} x {model or 'GPU'}, {cpus} CPUs, {gib} GiB"
