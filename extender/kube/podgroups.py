"""PodGroups -> how many pods of a group start together. Read from dumps alone: nothing that serves needs it.

    scheduling.x-k8s.io, scheduling.sigs.k8s.io   coscheduling       spec.minMember
    scheduling.volcano.sh                         Volcano            spec.minMember
    scheduling.k8s.io                             Kubernetes' own    spec.schedulingPolicy.gang.minCount (KEP-4671)

Pods find their PodGroup by its name in their namespace, whatever marker of ``annotations.py`` says that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from extender.kube.convert import DEFAULT_NAMESPACE, Warn
from extender.kube.raw import RawMeta, RawPodGroup, RawPodGroupSpec, RawSchedulingPolicy
from extender.packing.gangs import GangKey, gang_key
from extender.packing.types import GroupRef, PodInfo

POD_GROUP: Final = "PodGroup"
API_GROUPS: Final = frozenset(
    {"scheduling.x-k8s.io", "scheduling.sigs.k8s.io", "scheduling.volcano.sh", "scheduling.k8s.io"}
)


def pod_group(raw: RawPodGroup, warn: Warn) -> GroupRef:
    """Read a PodGroup. One that does not say how many pods it takes has no size: then it takes all of them."""
    meta, spec = raw.metadata or RawMeta(), raw.spec or RawPodGroupSpec()
    found = GroupRef(meta.namespace or DEFAULT_NAMESPACE, meta.name or "")
    policy = spec.scheduling_policy or RawSchedulingPolicy()
    if policy.basic is not None and policy.gang is None:
        return replace(found, size=1)  # no gang at all: every pod starts by itself
    field, size = ("minMember", spec.min_member)
    if policy.gang is not None:
        field, size = ("schedulingPolicy.gang.minCount", policy.gang.min_count)
    if size is not None and size < 1:
        warn(f"podgroup {found}: spec.{field}: {size} is less than 1; it is ignored, all pods of the group are taken")
        return found
    return replace(found, size=size)


def with_size(pod: PodInfo, pod_groups: Mapping[GangKey, GroupRef]) -> PodInfo:
    """Return the pod with the size that its PodGroup says, which counts before what its marker promises."""
    if pod.group is None or (found := pod_groups.get(gang_key(pod.group))) is None or found.size is None:
        return pod
    return replace(pod, group=replace(pod.group, size=found.size))
