"""API objects -> NodeInfo and PodInfo: the one way in for dumps, HTTP bodies and the watch.

Never fails. What cannot be used is said through `warn`, one line that starts with `node NAME:` or `pod NS/NAME:`, and
counts as absent; an amount that cannot be read counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from typing import Final

from extender.kube.annotations import (
    group_of,
    old_affinity,
    old_taints,
    old_tolerations,
    with_wishes,
)
from extender.kube.gpurules import GpuRules
from extender.kube.ourkeys import say_strange_keys_of_node, say_strange_keys_of_pod
from extender.kube.raw import (
    RawAffinity,
    RawMeta,
    RawNode,
    RawNodeSpec,
    RawNodeStatus,
    RawPod,
    RawPodSpec,
    RawPodStatus,
    RawRequirement,
    RawTaint,
    RawTerm,
    RawToleration,
)
from extender.kube.requests import Say, amounts, effective_requests, unread_amount
from extender.packing.selectors import (
    HARD_EFFECTS,
    LOST_KEYS,
    NodeConstraints,
    Operator,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from extender.packing.types import NodeInfo, Phase, PodInfo

Warn = Callable[[str], None]

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_SCHEDULER: Final = "default-scheduler"
_NO_META = RawMeta()
_OPERATORS: Final[Mapping[str, Operator]] = {str(operator): operator for operator in Operator}
_PHASES: Final[Mapping[str, Phase]] = {str(phase): phase for phase in Phase}
_SCHEDULED: Final = "PodScheduled"
_UNSCHEDULABLE: Final = "Unschedulable"
_MOST_WEIGHT: Final = 100
_MOST_LINES: Final = 20


def _speaker(who: str, warn: Warn) -> Say:
    """Return what takes lines about one object; the first ones are passed on, lest one object fill the log."""
    left = count(_MOST_LINES, -1)

    def say(text: str) -> None:
        rest = next(left)
        if rest > 0:
            warn(f"{who}: {text}")
        elif not rest:
            warn(f"{who}: more like this is not shown")

    return say


# ---------------------------------------------------------------- nodes


def node_info(raw: RawNode, rules: GpuRules, warn: Warn) -> NodeInfo:
    """Convert a node. Amounts named with 0 stay, so that reports can list them."""
    meta, spec, status = raw.metadata or _NO_META, raw.spec or RawNodeSpec(), raw.status or RawNodeStatus()
    name = meta.name or ""

    say = _speaker(f"node {name}", warn)
    labels = _texts(meta.labels)
    say_strange_keys_of_node(labels, meta.annotations or {}, say)
    capacity, allocatable = _node_amounts(status, say)
    raw_taints = old_taints(meta.annotations or {}, say) if spec.taints is None else spec.taints
    taints = tuple(_taint(taint) for taint in raw_taints)
    return NodeInfo(
        name=name,
        labels=labels,
        allocatable=allocatable,
        capacity=capacity,
        taints=taints,
        unschedulable=bool(spec.unschedulable),
        ready=_ready(status, taints),
        gpus=rules.models(dict.fromkeys((*capacity, *allocatable)), labels),
    )


def _node_amounts(status: RawNodeStatus, say: Say) -> tuple[dict[str, int], dict[str, int]]:
    """Return (capacity, allocatable); of two maps one that is absent altogether is a copy of the other.

    For allocatable that is the API's own default (SetDefaults_NodeStatus), reversed it is a courtesy to hand-made
    dumps. A map that is there and does not name a resource means there is none of it.
    """
    capacity = amounts(status.capacity, "status.capacity", say)
    allocatable = amounts(status.allocatable, "status.allocatable", say)
    if status.allocatable is None:
        return capacity, capacity
    return (allocatable if status.capacity is None else capacity), allocatable


def _taint(raw: RawTaint) -> Taint:
    return Taint(raw.key or "", raw.value or "", raw.effect or "")


def _ready(status: RawNodeStatus, taints: tuple[Taint, ...]) -> bool:
    """Tell whether the node is ready; without the condition the taints of the node controller tell."""
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return not any(taint.key in LOST_KEYS and taint.effect in HARD_EFFECTS for taint in taints)


# ---------------------------------------------------------------- pods


def pod_key(raw: RawPod) -> tuple[str, str]:
    """Return (namespace, name) of a pod; the name is "" when it has none."""
    meta = raw.metadata or _NO_META
    return meta.namespace or DEFAULT_NAMESPACE, meta.name or ""


def pod_info(raw: RawPod, rules: GpuRules, warn: Warn) -> PodInfo:
    """Convert a pod. Without a uid `namespace/name` stands in for it."""
    meta, spec, status = raw.metadata or _NO_META, raw.spec or RawPodSpec(), raw.status or RawPodStatus()
    namespace, name = pod_key(raw)
    labels, annotations = meta.labels or {}, meta.annotations or {}

    say = _speaker(f"pod {namespace}/{name}", warn)
    say_strange_keys_of_pod(labels, annotations, say)
    remarks: list[str] = []
    requests = effective_requests(spec, remarks.append)
    gpu = rules.request(requests)
    if remarks:
        gpu = replace(gpu, unread=unread_amount(spec, lambda resource: rules.kind(resource) is not None))
    for remark in remarks:
        say(remark)
    affinity = old_affinity(annotations, say) if spec.affinity is None else spec.affinity
    return PodInfo(
        uid=meta.uid or f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        requests=requests,
        gpu=with_wishes(gpu, annotations, say),
        constraints=_constraints(spec, affinity, annotations, say),
        preferred=_preferred(affinity, say),
        priority=spec.priority or 0,
        created=seconds(meta.creation_timestamp, "metadata.creationTimestamp", say),
        phase=_phase(status.phase, say),
        node_name=spec.node_name or "",
        nominated_node=status.nominated_node_name or "",
        terminating=bool(meta.deletion_timestamp),
        gated=bool(spec.scheduling_gates),
        may_preempt=spec.preemption_policy != "Never",
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        group=group_of(namespace, spec, labels, annotations),
        served_by_dra=status.extended_resource_claim_status is not None,
        failure_reason=status.reason or "",
        refused=_refused(spec, status),
        unmodelled=tuple(_unmodelled(spec, affinity)),
    )


def _refused(spec: RawPodSpec, status: RawPodStatus) -> bool:
    """Tell whether the scheduler has left the condition that it found no node; `SchedulerError` is no such."""
    if spec.node_name:
        return False
    conditions = status.conditions or ()
    return any(c.type == _SCHEDULED and c.status == "False" and c.reason == _UNSCHEDULABLE for c in conditions)


def _phase(text: str | None, say: Say) -> Phase:
    if not text:
        return Phase.PENDING
    if (phase := _PHASES.get(text)) is None:
        say(f"status.phase: {text!r:.40} is no phase; taken for Unknown")
        return Phase.UNKNOWN
    return phase


def seconds(text: str | None, field: str, say: Say) -> float:
    """Return an RFC 3339 time as seconds since the epoch, 0.0 when there is none."""
    if not text:
        return 0.0
    try:
        return _since_epoch(text)
    except ValueError:
        say(f"{field}: {text!r:.40} is no time; ignored")
        return 0.0


@lru_cache(maxsize=1024)  # pods come in groups, within a second
def _since_epoch(text: str) -> float:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _constraints(
    spec: RawPodSpec, affinity: RawAffinity | None, annotations: Mapping[str, str | None], say: Say
) -> NodeConstraints:
    raw_tolerations = spec.tolerations or old_tolerations(annotations, say)
    return NodeConstraints(
        selector=tuple(sorted(_texts(spec.node_selector).items())),
        affinity=_required(affinity),
        tolerations=tuple(t for raw in raw_tolerations if (t := _toleration(raw, say)) is not None),
    )


def _required(affinity: RawAffinity | None) -> tuple[Term, ...] | None:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return None if required is None else tuple(map(_term, required.node_selector_terms or ()))


def _preferred(affinity: RawAffinity | None, say: Say) -> tuple[PreferredTerm, ...]:
    terms = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
    return tuple(PreferredTerm(_weight(t.weight, say), _term(t.preference or RawTerm())) for t in terms or ())


def _weight(given: int | None, say: Say) -> int:
    """Return the weight of a preferred term; 0, which the API server refuses, counts for nothing in the scheduler."""
    weight = max(0, min(given or 0, _MOST_WEIGHT))
    if given is not None and given != weight:
        say(f"spec.affinity: a preferred term weighs {given!s:.20}, not 1 to {_MOST_WEIGHT}; counted as {weight}")
    return weight


def _term(raw: RawTerm) -> Term:
    return Term(
        tuple(map(requirement, raw.match_expressions or ())),
        tuple(map(requirement, raw.match_fields or ())),
    )


def requirement(raw: RawRequirement) -> Requirement:
    """Return one line of a selector; an operator that the API would refuse is None."""
    return Requirement(raw.key or "", _OPERATORS.get(raw.operator or ""), tuple(raw.values or ()))


def _toleration(raw: RawToleration, say: Say) -> Toleration | None:
    """Return the toleration; None for operators we do not know, which then tolerate nothing."""
    if raw.operator not in (None, "", "Equal", "Exists"):
        say(f"spec.tolerations: operator {raw.operator!r:.40} is not modelled; it tolerates nothing")
        return None
    return _one_toleration(raw.key or "", raw.operator or "", raw.value or "", raw.effect or "")


@lru_cache(maxsize=1024)  # almost every pod has the same two, which then are two objects and not a hundred thousand
def _one_toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration(key, operator == "Exists", value, effect)


def _unmodelled(spec: RawPodSpec, affinity: RawAffinity | None) -> list[str]:
    """List what kube-scheduler's other filters would look at."""
    between = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    found = {
        "affinity between pods": any(part and part.required for part in between),
        "topology spread": any(
            c.when_unsatisfiable != "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
        ),
        "volumes": any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()),
        "host ports": any(port.host_port for c in spec.containers or () for port in c.ports or ()),
        "resource claims": bool(spec.resource_claims),
    }
    return [words for words, there in found.items() if there]


def _texts(raw: Mapping[str, str | None] | None) -> dict[str, str]:
    return {key: value or "" for key, value in raw.items()} if raw else {}
