"""The few fields of API objects that we read, as msgspec Structs: for dumps, HTTP bodies and the watch alike.

Field names are the API's in snake case. Whatever the API server may leave out, or write as null, is optional here, so
decoding fails only for what no API server sends: a wrong type. Amounts stay as they were written (text, number or
rubbish) because one bad quantity must not cost the object.

`gc=False` is safe: decoded objects are trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Amounts = dict[str, Any] | None
"""Quantities by resource name, unread."""

Texts = dict[str, str | None] | None
"""Labels or annotations; JSON null as a value is the empty text, as in the API server's decoder."""


class _Raw(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base: camelCase keys, unknown keys skipped."""


class Opaque(_Raw, frozen=True, gc=False):
    """An object of which only the presence matters."""


class RawOwner(_Raw, frozen=True, gc=False):
    """An owner reference; the one with `controller` set makes the object anew when it is gone."""

    kind: str | None = None
    controller: bool | None = None


class RawMeta(_Raw, frozen=True, gc=False):
    """`metadata` of any object."""

    name: str | None = None
    resource_version: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Texts = None
    annotations: Texts = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[RawOwner] | None = None


class RawResources(_Raw, frozen=True, gc=False):
    """`resources` of a container or a pod."""

    requests: Amounts = None
    limits: Amounts = None


# ---------------------------------------------------------------- where a pod may run


class RawRequirement(_Raw, frozen=True, gc=False):
    """A node selector requirement."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class RawTerm(_Raw, frozen=True, gc=False):
    """A node selector term."""

    match_expressions: list[RawRequirement] | None = None
    match_fields: list[RawRequirement] | None = None


class RawPreferredTerm(_Raw, frozen=True, gc=False):
    """A preferred scheduling term."""

    weight: int | None = None
    preference: RawTerm | None = None


class RawNodeSelector(_Raw, frozen=True, gc=False):
    """The required part of a node affinity."""

    node_selector_terms: list[RawTerm] | None = None


class RawNodeAffinity(_Raw, frozen=True, gc=False):
    """A node affinity."""

    required: RawNodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[RawPreferredTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class RawPodAffinity(_Raw, frozen=True, gc=False):
    """An affinity or anti-affinity between pods; we only note that there is one."""

    required: list[Opaque] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class RawAffinity(_Raw, frozen=True, gc=False):
    """`spec.affinity`, and the annotation it was before Kubernetes 1.6."""

    node_affinity: RawNodeAffinity | None = None
    pod_affinity: RawPodAffinity | None = None
    pod_anti_affinity: RawPodAffinity | None = None


class RawToleration(_Raw, frozen=True, gc=False):
    """A toleration; `tolerationSeconds` says nothing about where a pod may start."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


# ---------------------------------------------------------------- pods


class RawPort(_Raw, frozen=True, gc=False):
    """A container port."""

    host_port: int | None = None


class RawContainer(_Raw, frozen=True, gc=False):
    """A container or init container; `restartPolicy: Always` makes an init container a sidecar."""

    resources: RawResources | None = None
    restart_policy: str | None = None
    ports: list[RawPort] | None = None


class RawVolume(_Raw, frozen=True, gc=False):
    """A volume, as far as it can tie a pod to nodes."""

    persistent_volume_claim: Opaque | None = None
    ephemeral: Opaque | None = None


class RawSpreadConstraint(_Raw, frozen=True, gc=False):
    """A topology spread constraint."""

    when_unsatisfiable: str | None = None


class RawSchedulingGroup(_Raw, frozen=True, gc=False):
    """`spec.schedulingGroup`, Kubernetes' own gangs (KEP-4671)."""

    pod_group_name: str | None = None


class RawPodSpec(_Raw, frozen=True, gc=False):
    """`spec` of a pod."""

    node_name: str | None = None
    scheduler_name: str | None = None
    containers: list[RawContainer] | None = None
    init_containers: list[RawContainer] | None = None
    overhead: Amounts = None
    resources: RawResources | None = None
    node_selector: Texts = None
    affinity: RawAffinity | None = None
    tolerations: list[RawToleration] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[Opaque] | None = None
    scheduling_group: RawSchedulingGroup | None = None
    topology_spread_constraints: list[RawSpreadConstraint] | None = None
    volumes: list[RawVolume] | None = None
    resource_claims: list[Opaque] | None = None


class RawCondition(_Raw, frozen=True, gc=False):
    """A condition of a node or a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None


class RawPodStatus(_Raw, frozen=True, gc=False):
    """`status` of a pod."""

    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[RawCondition] | None = None
    extended_resource_claim_status: Opaque | None = None


class RawPod(_Raw, frozen=True, gc=False):
    """A pod."""

    metadata: RawMeta | None = None
    spec: RawPodSpec | None = None
    status: RawPodStatus | None = None


# ---------------------------------------------------------------- disruption budgets


class RawLabelSelector(_Raw, frozen=True, gc=False):
    """A label selector."""

    match_labels: Texts = None
    match_expressions: list[RawRequirement] | None = None


class RawBudgetSpec(_Raw, frozen=True, gc=False):
    """`spec` of a PodDisruptionBudget."""

    selector: RawLabelSelector | None = None


class RawBudgetStatus(_Raw, frozen=True, gc=False):
    """`status` of a PodDisruptionBudget, kept by the disruption controller."""

    disruptions_allowed: int | None = None


class RawBudget(_Raw, frozen=True, gc=False):
    """A PodDisruptionBudget of policy/v1 or policy/v1beta1."""

    api_version: str | None = None
    metadata: RawMeta | None = None
    spec: RawBudgetSpec | None = None
    status: RawBudgetStatus | None = None


class RawGangPolicy(_Raw, frozen=True, gc=False):
    """`spec.schedulingPolicy.gang` of a PodGroup of Kubernetes' own (KEP-4671)."""

    min_count: int | None = None


class RawSchedulingPolicy(_Raw, frozen=True, gc=False):
    """`spec.schedulingPolicy` of a PodGroup of Kubernetes' own: one of the two."""

    gang: RawGangPolicy | None = None
    basic: Opaque | None = None


class RawPodGroupSpec(_Raw, frozen=True, gc=False):
    """`spec` of a PodGroup: coscheduling and Volcano know ``minMember``, Kubernetes a policy."""

    min_member: int | None = None
    scheduling_policy: RawSchedulingPolicy | None = None


class RawPodGroup(_Raw, frozen=True, gc=False):
    """A PodGroup, of whatever API group."""

    metadata: RawMeta | None = None
    spec: RawPodGroupSpec | None = None


# ---------------------------------------------------------------- nodes


class RawTaint(_Raw, frozen=True, gc=False):
    """A taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class RawNodeSpec(_Raw, frozen=True, gc=False):
    """`spec` of a node."""

    taints: list[RawTaint] | None = None
    unschedulable: bool | None = None


class RawNodeStatus(_Raw, frozen=True, gc=False):
    """`status` of a node."""

    capacity: Amounts = None
    allocatable: Amounts = None
    conditions: list[RawCondition] | None = None


class RawNode(_Raw, frozen=True, gc=False):
    """A node."""

    metadata: RawMeta | None = None
    spec: RawNodeSpec | None = None
    status: RawNodeStatus | None = None


# ---------------------------------------------------------------- lists and watches


class RawStatus(_Raw, frozen=True, gc=False):
    """What the API server says when it refuses, and the object of a watch event of type ERROR."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None


class RawListMeta(_Raw, frozen=True, gc=False):
    """`metadata` of a list; `more` is the token that continues it."""

    resource_version: str | None = None
    more: str | None = msgspec.field(name="continue", default=None)


class RawListHead(_Raw, frozen=True, gc=False):
    """A page of anything, without its items."""

    metadata: RawListMeta = RawListMeta()


class RawNodeList(_Raw, frozen=True, gc=False):
    """A page of nodes."""

    metadata: RawListMeta = RawListMeta()
    items: list[RawNode] | None = None


class RawPodList(_Raw, frozen=True, gc=False):
    """A page of pods."""

    metadata: RawListMeta = RawListMeta()
    items: list[RawPod] | None = None


class UnreadList(_Raw, frozen=True, gc=False):
    """A page of anything, its items as bytes: one that cannot be read must not cost the others."""

    metadata: RawListMeta = RawListMeta()
    items: list[msgspec.Raw] | None = None


class RawEvent(_Raw, frozen=True, gc=False):
    """A watch event, its object as bytes: how it is read depends on the type."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw()


class Named(_Raw, frozen=True, gc=False):
    """Any object, as far as its name goes."""

    metadata: RawMeta | None = None


def raw_node(manifest: Mapping[str, Any]) -> RawNode:
    """Return a manifest that is already in memory as a RawNode.

    Raises:
        msgspec.ValidationError: for a field of the wrong type.
    """
    return msgspec.convert(manifest, RawNode)


def raw_pod(manifest: Mapping[str, Any]) -> RawPod:
    """Return a manifest that is already in memory as a RawPod.

    Raises:
        msgspec.ValidationError: for a field of the wrong type.
    """
    return msgspec.convert(manifest, RawPod)
