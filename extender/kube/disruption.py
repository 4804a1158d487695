"""What pods and PodDisruptionBudgets say about being evicted -> values of ``packing.disruption``.

Read from dumps alone: nothing that serves needs it. Never fails; what cannot be used is said through ``warn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extender.kube.convert import DEFAULT_NAMESPACE, Warn, pod_key, requirement, seconds
from extender.kube.ourkeys import LAST_CHECKPOINT, MOVABLE
from extender.kube.raw import RawBudget, RawBudgetSpec, RawBudgetStatus, RawMeta, RawOwner, RawPod, RawPodStatus
from extender.kube.requests import Say
from extender.packing.disruption import DisruptionBudget, PodDisruption
from extender.packing.selectors import Operator, Requirement

MIRROR: Final = "kubernetes.io/config.mirror"

_PINNING: Final = (
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("karpenter.sh/do-not-evict", "true"),  # its name before v0.32
)
# Controllers of these kinds always set `controller`; where it is missing, somebody has shortened the object.
_CONTROLLERS: Final = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_NO_SELECTOR_MEANS_NOTHING: Final = "policy/v1beta1"


def pod_disruption(raw: RawPod, warn: Warn) -> PodDisruption:
    """Read what evicting a pod would mean."""
    meta, status = raw.metadata or RawMeta(), raw.status or RawPodStatus()
    annotations = meta.annotations or {}

    def say(text: str) -> None:
        warn(f"pod {'/'.join(pod_key(raw))}: {text}")

    return PodDisruption(
        controller=_controller(meta.owner_references or ()),
        mirror=MIRROR in annotations,
        pinned_by=_pinned_by_us(annotations.get(MOVABLE), say) or _pinned_by_others(annotations),
        labels={key: value or "" for key, value in (meta.labels or {}).items()},
        started_seconds=seconds(status.start_time, "status.startTime", say),
        checkpoint_seconds=seconds(annotations.get(LAST_CHECKPOINT), f"annotation {LAST_CHECKPOINT}", say),
    )


def _pinned_by_us(text: str | None, say: Say) -> str:
    """Return our own veto; whoever writes it with another word than false means one all the same."""
    if text is None or _is(text, "true"):
        return ""
    if not _is(text, "false"):
        say(f"annotation {MOVABLE}: {text!r:.40} is neither true nor false; taken for false, the pod is not moved")
    return f"{MOVABLE}: {text.strip():.40}"


def _pinned_by_others(annotations: Mapping[str, str | None]) -> str:
    return next((f"{key}: {no}" for key, no in _PINNING if _is(annotations.get(key), no)), "")


def _is(text: str | None, word: str) -> bool:
    return text is not None and text.strip().casefold() == word


def _controller(owners: list[RawOwner] | tuple[()]) -> str:
    for owner in owners:
        if owner.controller or (owner.controller is None and owner.kind in _CONTROLLERS):
            return owner.kind or "?"
    return ""


def disruption_budget(raw: RawBudget, warn: Warn) -> DisruptionBudget:
    """Read a PodDisruptionBudget. One that does not say how many disruptions it allows allows none."""
    meta, spec, status = raw.metadata or RawMeta(), raw.spec or RawBudgetSpec(), raw.status or RawBudgetStatus()
    namespace, name = meta.namespace or DEFAULT_NAMESPACE, meta.name or ""
    if status.disruptions_allowed is None:
        warn(f"poddisruptionbudget {namespace}/{name}: status.disruptionsAllowed is missing; taken for 0")
    return DisruptionBudget(namespace, name, _selector(spec, raw.api_version or ""), status.disruptions_allowed or 0)


def _selector(spec: RawBudgetSpec, version: str) -> tuple[Requirement, ...] | None:
    """Return the lines of the selector; policy/v1 reads an empty one as "all", policy/v1beta1 as "none"."""
    if spec.selector is None:
        return None
    labels: Mapping[str, str | None] = spec.selector.match_labels or {}
    lines = (
        *(Requirement(key, Operator.IN, (value or "",)) for key, value in sorted(labels.items())),
        *map(requirement, spec.selector.match_expressions or ()),
    )
    return None if not lines and version == _NO_SELECTOR_MEANS_NOTHING else lines
