"""What pods and nodes say in annotations and labels rather than in fields: our wishes, gangs, and the 1.5 era.

An annotation that cannot be read is said once, by its key, and ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from extender.kube.gpurules import parse_version
from extender.kube.ourkeys import MIN_COMPUTE, MIN_CUDA, MIN_MEMORY, TYPES, WISHES, Texts
from extender.kube.raw import RawAffinity, RawPodSpec, RawTaint, RawToleration
from extender.kube.requests import Say
from extender.packing.gpu import GpuRequest, TypeWish, parse_ladder
from extender.packing.resources import QuantityError, parse_quantity
from extender.packing.types import GroupRef

T = TypeVar("T")

# Kubernetes 1.2 to 1.5: what are fields today was JSON in annotations (plugin API helpers of v1.5).
AFFINITY: Final = "scheduler.alpha.kubernetes.io/affinity"
TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
TAINTS: Final = "scheduler.alpha.kubernetes.io/taints"

_AFFINITY: Final = msgspec.json.Decoder(RawAffinity | None)
_TOLERATIONS: Final = msgspec.json.Decoder(list[RawToleration] | None)
_TAINTS: Final = msgspec.json.Decoder(list[RawTaint] | None)

_MIB = 2**20


# ---------------------------------------------------------------- our wishes


def with_wishes(gpu: GpuRequest, annotations: Texts, say: Say) -> GpuRequest:
    """Return the GPU request with the wishes of our annotations; pods without GPUs have none."""
    if not gpu.count or WISHES.isdisjoint(annotations):
        return gpu
    return replace(
        gpu,
        types=_read(TYPES, _ladder, annotations, say) or (),
        min_memory_mib=_read(MIN_MEMORY, _memory_mib, annotations, say),
        min_cuda=_read(MIN_CUDA, _level, annotations, say),
        min_compute=_read(MIN_COMPUTE, _level, annotations, say),
    )


@lru_cache(maxsize=1024)  # the pods of a kind have the same
def _ladder(text: str) -> tuple[TypeWish, ...]:
    return parse_ladder(text)


def _read(key: str, parse: Callable[[str], T], annotations: Texts, say: Say) -> T | None:
    text = annotations.get(key)
    if not text:
        return None
    try:
        return parse(text)
    except (ValueError, msgspec.DecodeError) as error:
        say(f"annotation {key} is ignored: {error}")
    except RecursionError:
        say(f"annotation {key} is ignored: it is nested too deeply")
    return None


def _memory_mib(text: str) -> int:
    """Read a quantity of bytes as MiB, rounded up. Less than a MiB is taken for a forgotten unit, not for a wish."""
    try:
        amount = parse_quantity(text)
    except QuantityError as error:
        raise ValueError(f"{error}; write bytes as 40Gi (2^30) or 40G (10^9)") from error
    if amount < _MIB:
        raise ValueError(f"{text!r:.40} is less than 1Mi; write bytes with a unit, such as 40Gi")
    return -(-amount // _MIB)


def _level(text: str) -> tuple[int, int]:
    version = parse_version(text)
    if version is None:
        raise ValueError(f"{text!r:.40} is no version such as 12.4 or 8.0")
    return version


# ---------------------------------------------------------------- Kubernetes 1.2 to 1.5


def old_affinity(annotations: Texts, say: Say) -> RawAffinity | None:
    """Return the affinity of a pod whose spec has none."""
    return _read(AFFINITY, _AFFINITY.decode, annotations, say)


def old_tolerations(annotations: Texts, say: Say) -> list[RawToleration]:
    """Return the tolerations of a pod whose spec has none."""
    return _read(TOLERATIONS, _TOLERATIONS.decode, annotations, say) or []


def old_taints(annotations: Texts, say: Say) -> list[RawTaint]:
    """Return the taints of a node whose spec has none."""
    return _read(TAINTS, _TAINTS.decode, annotations, say) or []


# ---------------------------------------------------------------- gangs


@dataclass(frozen=True, slots=True)
class _Marker:
    """Where a framework writes the gang's name, and its size if it writes that on pods."""

    name: str
    size: str = ""


# The unit that some scheduler treats as a gang stands before the object that merely owns the pods: a JobSet run under
# coscheduling is the PodGroup. Of owners the outermost counts: a JobSet, not its Jobs. A plain Job is no gang.
_MARKERS: Final = (
    _Marker("scheduling.x-k8s.io/pod-group"),  # coscheduling
    _Marker("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/min-available"),  # coscheduling, old
    _Marker("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),  # older
    _Marker("scheduling.k8s.io/group-name"),  # Volcano
    _Marker("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
    _Marker("jobset.sigs.k8s.io/jobset-name"),
    _Marker("training.kubeflow.org/job-name"),
    _Marker("ray.io/cluster"),  # KubeRay
)
_MARKED: Final = frozenset(marker.name for marker in _MARKERS)


def group_of(namespace: str, spec: RawPodSpec, labels: Texts, annotations: Texts) -> GroupRef | None:
    """Return the gang a pod belongs to: by its own field (KEP-4671), else by the first marker in the order above.

    Labels and annotations are both looked at: Volcano uses annotations, Kueue keeps the size in one.
    """
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return GroupRef(namespace, spec.scheduling_group.pod_group_name)
    if _MARKED.isdisjoint(labels) and _MARKED.isdisjoint(annotations):
        return None
    for marker in _MARKERS:
        if name := labels.get(marker.name) or annotations.get(marker.name):
            return GroupRef(namespace, name, _size(labels.get(marker.size) or annotations.get(marker.size)))
    return None


def _size(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text) else None  # noqa: PLR2004
