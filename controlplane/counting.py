"""What pods hold and nodes have, counted from the objects of the API server alone: the program has no say in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.api import Manifest
from controlplane.cluster import Cluster
from controlplane.objects import GPU, OLD_GPU, node_of, phase_of

JOB_SIZES: Final = (1, 2, 4, 8)
_DONE: Final = ("Succeeded", "Failed")


def name_of(manifest: Manifest) -> str:
    """Return an object's name."""
    name: str = manifest["metadata"]["name"]
    return name


def uid_of(manifest: Manifest) -> str:
    """Return an object's uid."""
    uid: str = manifest["metadata"]["uid"]
    return uid


def gpus_of(pod: Manifest) -> int:
    """Return the whole GPUs a pod asks for, of either resource."""
    limits = [container["resources"].get("limits", {}) for container in pod["spec"]["containers"]]
    return sum(int(limit.get(resource, 0)) for limit in limits for resource in (GPU, OLD_GPU))


def built_in(node: Manifest) -> int:
    """Return the GPUs of a node, of either resource."""
    allocatable = node["status"].get("allocatable", {})
    return sum(int(allocatable.get(resource, 0)) for resource in (GPU, OLD_GPU))


def holds(pod: Manifest) -> bool:
    """Tell whether a pod holds its GPUs on a node."""
    return bool(node_of(pod)) and phase_of(pod) not in _DONE


@dataclass(frozen=True)
class Usage:
    """What pods have left of the GPUs; `stranded` are free GPUs by job size on nodes with fewer free than that."""

    gpus: int
    nodes: int
    stranded: Mapping[int, int]

    @classmethod
    def of(cls, nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> Usage:
        """Count, from the objects alone."""
        held: Counter[str] = Counter()
        for pod in pods:
            if holds(pod):
                held[node_of(pod)] += gpus_of(pod)
        free = [built_in(node) - held[name_of(node)] for node in nodes]
        stranded = {size: sum(left for left in free if left < size) for size in JOB_SIZES}
        return cls(held.total(), sum(count > 0 for count in held.values()), stranded)


def usage(cluster: Cluster) -> Usage:
    """Return the usage of a cluster as the API server shows it."""
    return Usage.of(cluster.nodes(), cluster.pods())
