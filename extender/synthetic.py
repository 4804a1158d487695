"""Synthetic clusters and arrivals as Kubernetes objects: what the demo, the benchmarks and the tests run on.

Everything is a function of a spec and a seed. Objects are plain dicts in the form ``kubectl get -o json`` prints, so
they pass through the same converters as a real dump.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

GFD_PRODUCT: Final = "nvidia.com/gpu.product"
OLD_NAME: Final = "alpha.kubernetes.io/nvidia-gpu-name"
GPU: Final = "nvidia.com/gpu"
MAX_PODS: Final = 10**6
"""More than the largest cluster has room for; so many make a file of 1 GB."""

_SPACE: Final = uuid.UUID("6f2d3c1a-5b64-4a0e-9d43-0d1b1c1f0a51")
_READY: Final = MappingProxyType({"type": "Ready", "status": "True"})
_EPOCH_ISO: Final = "2026-01-01T{:02d}:{:02d}:{:02d}Z"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes. ``model`` is the value of label ``label_key``; no GPUs when ``gpus`` is 0."""

    prefix: str
    nodes: int
    gpus: int
    cpu: int
    memory_gib: int
    model: str = ""
    label_key: str = GFD_PRODUCT
    gpu_memory_mib: int = 0
    resource: str = GPU


@dataclass(frozen=True, slots=True)
class SizeShare:
    """One job size: its share of the GPU *demand* (not of the pods) and what it asks beside each GPU."""

    gpus: int
    demand_share: float
    cpu_per_gpu: tuple[int, ...]
    memory_gib_per_gpu: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What arrives.

    Attributes:
        sizes: job sizes by share of GPU demand.
        typed_share: share of the pods that name models by required node affinity.
        model_sets: the model lists such pods name, with the relative weight of each.
        cpu_only_share: share of the pods that ask for no GPU.
    """

    sizes: tuple[SizeShare, ...]
    typed_share: float = 0.0
    model_sets: tuple[tuple[tuple[str, ...], float], ...] = ()
    cpu_only_share: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Node groups, and how full they are to begin with.

    Attributes:
        groups: the nodes.
        busy_share: share of the GPU nodes that hold running pods from the start.
    """

    groups: tuple[NodeGroup, ...]
    busy_share: float = 0.0

    @property
    def gpus(self) -> int:
        """Return all GPUs of the cluster."""
        return sum(group.nodes * group.gpus for group in self.groups)

    def label_of(self, model: str) -> str:
        """Return the label key under which nodes of a model carry its name."""
        return next(group.label_key for group in self.groups if group.model == model)


def node_manifests(spec: ClusterSpec) -> list[Manifest]:
    """Return the Node objects of a cluster."""
    return [_node(group, number) for group in spec.groups for number in range(group.nodes)]


def _node(group: NodeGroup, number: int) -> Manifest:
    name = f"{group.prefix}-{number:04d}"
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    amounts = {"cpu": str(group.cpu), "memory": f"{group.memory_gib}Gi", "pods": "110"}
    if group.gpus:
        labels[group.label_key] = group.model
        amounts[group.resource] = str(group.gpus)
        if group.gpu_memory_mib:
            labels["nvidia.com/gpu.memory"] = str(group.gpu_memory_mib)
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": _uid("node", name), "labels": labels},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": dict(amounts), "conditions": [dict(_READY)]},
    }  # fmt: skip


def _uid(*parts: object) -> str:
    return str(uuid.uuid5(_SPACE, "/".join(map(str, parts))))


def pod_manifest(  # noqa: PLR0913 - the fields of a pod
    name: str, requests: Mapping[str, str], *, namespace: str = "ml", node: str = "", second: int = 0,
    models: tuple[str, tuple[str, ...]] | None = None, priority: int = 0, annotations: Mapping[str, str] | None = None,
) -> Manifest:  # fmt: skip
    """Return a Pod object; ``models`` is (label key, accepted values), ``second`` its age order."""
    limits = {key: value for key, value in requests.items() if "/" in key}
    spec: Manifest = {
        "containers": [{"name": "main", "resources": {"requests": dict(requests), "limits": limits}}],
        "priority": priority,
    }
    if models:
        spec["affinity"] = {"nodeAffinity": _required_in(*models)}
    if node:
        spec["nodeName"] = node
    stamp = _EPOCH_ISO.format(second // 3600 % 24, second // 60 % 60, second % 60)
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": _uid("pod", namespace, name),
                     "creationTimestamp": stamp, "annotations": dict(annotations or {})},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }  # fmt: skip


def _required_in(key: str, values: tuple[str, ...]) -> Manifest:
    line = {"key": key, "operator": "In", "values": list(values)}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}


class Arrivals:
    """Draws pods of a workload for a cluster, one by one, from a seed."""

    def __init__(self, spec: ClusterSpec, workload: Workload, seed: int, prefix: str = "job") -> None:
        self._spec, self._workload, self._prefix = spec, workload, prefix
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        # A share of demand becomes a share of pods when divided by the pod's size.
        self._size_weights = [size.demand_share / size.gpus for size in workload.sizes]

    def pods(self, count: int) -> Iterator[Manifest]:
        """Yield ``count`` pending pods."""
        return (self._pod(number) for number in range(count))

    def demand(self, gpus: int) -> Iterator[Manifest]:
        """Yield pending pods until they ask for ``gpus`` GPUs in all."""
        asked, number = 0, 0
        while asked < gpus:
            pod = self._pod(number)
            asked += gpu_count(pod)
            number += 1
            yield pod

    def _pod(self, number: int) -> Manifest:
        name, draw = f"{self._prefix}-{number:05d}", self._random
        if draw.random() < self._workload.cpu_only_share:
            cpu = draw.choice((2, 4, 8))
            return pod_manifest(f"{name}-cpu", {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}, second=number)
        size = draw.choices(self._workload.sizes, self._size_weights)[0]
        at = draw.randrange(len(size.cpu_per_gpu))
        requests = {
            "cpu": str(size.cpu_per_gpu[at] * size.gpus),
            "memory": f"{size.memory_gib_per_gpu[at] * size.gpus}Gi",
            GPU: str(size.gpus),
        }
        return pod_manifest(f"{name}-{size.gpus}g", requests, second=number, models=self._models(size.gpus))

    def _models(self, gpus: int) -> tuple[str, tuple[str, ...]] | None:
        """Return the models a typed pod names: a set of which at least one model has nodes large enough."""
        if self._random.random() >= self._workload.typed_share:
            return None
        large = {group.model for group in self._spec.groups if group.gpus >= gpus}
        fitting = [(names, weight) for names, weight in self._workload.model_sets if large.intersection(names)]
        if not fitting:
            return None
        names = self._random.choices([f[0] for f in fitting], [f[1] for f in fitting])[0]
        return self._spec.label_of(names[0]), names


def gpu_count(pod: Manifest) -> int:
    """Return the GPUs a pod of ours asks for."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"].get(GPU, 0))


def running_pods(spec: ClusterSpec, seed: int) -> list[Manifest]:
    """Return pods that already run: on a share of the GPU nodes one to half of the GPUs are taken by small pods."""
    draw = random.Random(seed)  # noqa: S311
    pods: list[Manifest] = []
    for group in spec.groups:
        for number in range(group.nodes if group.gpus else 0):
            if draw.random() < spec.busy_share:
                pods += _fill(f"{group.prefix}-{number:04d}", group, draw)
    return pods


def _fill(node: str, group: NodeGroup, draw: random.Random) -> list[Manifest]:
    left = draw.randint(1, max(1, group.gpus // 2))
    pods: list[Manifest] = []
    while left:
        gpus = draw.choice([n for n in (1, 2, 4) if n <= left])
        cpu = max(1, min(4, group.cpu // group.gpus - 1))
        requests = {"cpu": str(cpu * gpus), "memory": f"{8 * gpus}Gi", group.resource: str(gpus)}
        pods.append(pod_manifest(f"run-{node}-{len(pods)}", requests, node=node))
        left -= gpus
    return pods


def as_list(items: Sequence[Manifest]) -> Manifest:
    """Wrap objects as ``kubectl get -o json`` does."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


_BALANCED: Final = ((4, 8, 12), (24, 48, 64))

FOUR_SIZES: Final = (
    SizeShare(1, 0.30, *_BALANCED),
    SizeShare(2, 0.15, *_BALANCED),
    SizeShare(4, 0.20, *_BALANCED),
    SizeShare(8, 0.35, (8, 12), (48, 64)),
)

MIXED_CLUSTER: Final = ClusterSpec(
    groups=(
        NodeGroup("h100", 40, 8, 128, 1024, "NVIDIA-H100-80GB-HBM3", gpu_memory_mib=81559),
        NodeGroup("a100", 60, 8, 96, 768, "NVIDIA-A100-SXM4-40GB", gpu_memory_mib=40960),
        NodeGroup("l40s", 45, 4, 64, 384, "NVIDIA-L40S", gpu_memory_mib=46068),
        NodeGroup("p100", 40, 4, 48, 256, "Tesla-P100", label_key=OLD_NAME),
        NodeGroup("k80", 35, 8, 64, 256, "Tesla-K80", label_key=OLD_NAME),
        NodeGroup("cpu", 20, 0, 64, 256),
    ),
)

UNIFORM_CLUSTER: Final = ClusterSpec(
    groups=(
        NodeGroup("h100x8", 100, 8, 96, 768, "NVIDIA-H100-80GB-HBM3", gpu_memory_mib=81559),
        NodeGroup("h100x4", 30, 4, 48, 384, "NVIDIA-H100-80GB-HBM3", gpu_memory_mib=81559),
        NodeGroup("cpu", 10, 0, 64, 256),
    ),
)

TYPED_WORKLOAD: Final = Workload(
    FOUR_SIZES,
    typed_share=0.4,
    model_sets=(
        (("NVIDIA-H100-80GB-HBM3",), 4.0),
        (("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"), 2.0),
        (("NVIDIA-L40S",), 2.0),
        (("Tesla-P100",), 1.0),
        (("Tesla-K80", "Tesla-P100"), 1.0),
    ),
    cpu_only_share=0.1,
)  # fmt: skip

UNTYPED_WORKLOAD: Final = Workload(FOUR_SIZES, cpu_only_share=0.1)
