"""Nodes as device plugins and labellers leave them, and pods as people write them, for a real API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from controlplane.api import Manifest

GPU: Final = "nvidia.com/gpu"
OLD_GPU: Final = "alpha.kubernetes.io/nvidia-gpu"
PRODUCT: Final = "nvidia.com/gpu.product"
OLD_NAME: Final = "alpha.kubernetes.io/nvidia-gpu-name"
RUN_SECONDS: Final = "e2e/run-seconds"
"""Annotation of a pod: the kubelet lets it run this long, then it has succeeded. Without it a pod runs for ever."""


@dataclass(frozen=True)
class Model:
    """What GPU Feature Discovery says of a GPU; memory in MiB."""

    product: str
    memory: int
    family: str
    compute: tuple[int, int]
    machine: str = "PowerEdge-XE9680"


H100: Final = Model("NVIDIA-H100-80GB-HBM3", 81559, "hopper", (9, 0))
A100: Final = Model("NVIDIA-A100-SXM4-80GB", 81920, "ampere", (8, 0))
L40S: Final = Model("NVIDIA-L40S", 46068, "ada-lovelace", (8, 9), "PowerEdge-R760xa")
T4: Final = Model("Tesla-T4", 15360, "turing", (7, 5), "PowerEdge-R740")

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})


# ---------------------------------------------------------------- nodes


def node(
    name: str,
    labels: Mapping[str, str] = _NO_LABELS,
    devices: Mapping[str, int] = _NO_AMOUNTS,
    *,
    cpu: int = 96,
    memory_gib: int = 1024,
    pods: int = 110,
    taints: Sequence[Manifest] = (),
) -> Manifest:
    """Return a ready node; `devices` are its extended resources."""
    amounts = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": str(pods), "ephemeral-storage": "1Ti"}
    amounts |= {resource: str(count) for resource, count in devices.items()}
    common = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**common, **labels}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
            ],
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


def gfd_labels(model: Model, gpus: int, **changes: str) -> dict[str, str]:
    """Return the labels of GPU Feature Discovery; changes are named by what follows `nvidia.com/`, dots as `__`."""
    major, minor = model.compute
    labels = {
        "gpu.product": model.product,
        "gpu.count": str(gpus),
        "gpu.memory": str(model.memory),
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.family": model.family,
        "gpu.compute.major": str(major),
        "gpu.compute.minor": str(minor),
        "gpu.machine": model.machine,
        "gpu.mode": "compute",
        "gpu.present": "true",
        "mig.capable": "true" if major in {8, 9} and minor == 0 else "false",
        "mig.strategy": "single",
        "mps.capable": "false",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "82",
        "cuda.driver-version.revision": "07",
        "cuda.driver-version.full": "580.82.07",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "gfd.timestamp": "1764480000",
    }
    labels |= {key.replace("__", "."): value for key, value in changes.items()}
    pci = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    return pci | {f"nvidia.com/{key}": value for key, value in labels.items()}


def gfd_node(name: str, model: Model = H100, gpus: int = 8, *, cpu: int = 96, memory_gib: int = 1024) -> Manifest:
    """Return a node of today: whole GPUs, labelled by GPU Feature Discovery."""
    return node(name, gfd_labels(model, gpus), {GPU: gpus}, cpu=cpu, memory_gib=memory_gib)


def old_node(name: str, product: str = "Tesla-K80", gpus: int = 8) -> Manifest:
    """Return a node as of Kubernetes 1.3 to 1.10: the alpha resource, the model in a label of the admin's."""
    return node(name, {OLD_NAME: product}, {OLD_GPU: gpus}, cpu=64, memory_gib=256)


def mig_node(name: str, model: Model = H100, gpus: int = 8, **profiles: int) -> Manifest:
    """Return a node with MIG strategy mixed, all GPUs cut: `mig_node("n", _1g__10gb=14)` (`_` and dots as `__`)."""
    named = {profile.removeprefix("_").replace("__", "."): count for profile, count in profiles.items()}
    labels = gfd_labels(model, gpus) | {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.config": "custom"}
    for profile, count in named.items():
        labels |= {
            f"nvidia.com/mig-{profile}.product": f"{model.product}-MIG-{profile}",
            f"nvidia.com/mig-{profile}.count": str(count),
        }
    return node(name, labels, {GPU: 0} | {f"nvidia.com/mig-{profile}": count for profile, count in named.items()})


def shared_node(name: str, model: Model = T4, gpus: int = 4, replicas: int = 4) -> Manifest:
    """Return a node that time-slices its GPUs without renaming the resource."""
    changes = {
        "gpu__product": f"{model.product}-SHARED",
        "gpu__replicas": str(replicas),
        "gpu__sharing-strategy": "time-slicing",
    }
    return node(name, gfd_labels(model, gpus, **changes), {GPU: gpus * replicas}, cpu=48, memory_gib=384)


# ---------------------------------------------------------------- pods


def pod(
    name: str,
    gpus: int = 0,
    resource: str = GPU,
    *,
    cpu: int = 1,
    memory_gib: int = 4,
    annotations: Mapping[str, str] = _NO_LABELS,
    labels: Mapping[str, str] = _NO_LABELS,
    **spec: object,
) -> Manifest:
    """Return a pod of one container; more keyword arguments are fields of its spec."""
    requests = {"cpu": str(cpu), "memory": f"{memory_gib}Gi"}
    limits = {resource: str(gpus)} if gpus else {}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": requests | limits, "limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations), "labels": dict(labels)},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec},
    }


def needs_model(*products: str, key: str = "nvidia.com/gpu.product") -> Manifest:
    """Return the `affinity` of a pod that takes these models only."""
    line = {"key": key, "operator": "In", "values": list(products)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def node_of(pod: Manifest) -> str:
    """Return the node a pod is bound to, "" for none."""
    name: str = pod["spec"].get("nodeName", "")
    return name


def phase_of(pod: Manifest) -> str:
    """Return a pod's phase."""
    phase: str = pod["status"]["phase"]
    return phase


def is_refused(pod: Manifest) -> bool:
    """Tell whether kube-scheduler has said that no node takes the pod."""
    conditions = pod["status"].get("conditions", [])
    return any(line["type"] == "PodScheduled" and line.get("reason") == "Unschedulable" for line in conditions)
