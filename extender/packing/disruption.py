"""Which running pods may be moved, and what a move costs: controllers, vetoes, disruption budgets, work at stake.

A move is an eviction followed by a new start elsewhere. Sources: cluster-autoscaler FAQ "What types of pods can prevent
CA from removing a node?" (bare, mirror and annotated pods, budgets), kubectl drain (DaemonSet pods), pkg/registry/core/
pod/storage/eviction.go (a budget counts down with each eviction; a pod under two budgets cannot be evicted).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from extender.packing.selectors import Operator, Requirement
from extender.packing.types import PodInfo

_SECONDS_PER_HOUR: Final = 3600
_DAEMON_SET: Final = "DaemonSet"
_NODE: Final = "Node"
"""Owner of a mirror pod: the kubelet that runs a static pod."""


@dataclass(frozen=True, slots=True)
class PodDisruption:
    """What evicting one running pod would mean.

    Attributes:
        controller: kind of the owner that would start it anew, "" when nobody would.
        mirror: the kubelet runs it from a file; the API server cannot move it.
        pinned_by: the annotation (``key: value``) that forbids to move it, "" if none.
        labels: the pod's labels, which disruption budgets select by.
        started_seconds: when it started, since the epoch; 0.0 when that is not known.
        checkpoint_seconds: when its work was last saved, 0.0 when that is not known.
    """

    controller: str = ""
    mirror: bool = False
    pinned_by: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    started_seconds: float = 0.0
    checkpoint_seconds: float = 0.0

    @property
    def static(self) -> bool:
        """Tell whether the kubelet runs it from a file."""
        return self.mirror or self.controller == _NODE

    @property
    def everywhere(self) -> bool:
        """Tell whether every node like this one runs such a pod: those of DaemonSets, and static ones."""
        return self.static or self.controller == _DAEMON_SET

    @property
    def veto(self) -> str:
        """Return why the pod must stay, whatever the budgets say; "" when it may go."""
        if self.static:
            return "mirror of a static pod"
        if self.controller == _DAEMON_SET:
            return "pod of a DaemonSet"
        return self.pinned_by and f"annotation {self.pinned_by}"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: at most ``allowed`` of the pods it selects may be evicted now.

    ``selector`` is None when it selects nothing; an empty one selects every pod of the namespace.
    """

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None
    allowed: int

    def covers(self, pod: PodInfo, labels: Mapping[str, str]) -> bool:
        """Tell whether the budget counts evictions of this pod."""
        if self.selector is None or pod.namespace != self.namespace:
            return False
        return all(line.valid and _satisfied(line, labels.get(line.key)) for line in self.selector)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def _satisfied(line: Requirement, value: str | None) -> bool:
    """Tell whether a label's value (None: absent) satisfies a line of a LabelSelector, which has four operators."""
    match line.operator:
        case Operator.IN:
            return value in line.values
        case Operator.NOT_IN:
            return value not in line.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case _:
            return False


@dataclass(frozen=True)
class Disruptions:
    """What is known about evicting the pods of a cluster.

    Attributes:
        facts: by ``PodInfo.key``; a pod that is not in it has no controller.
        budgets: all of the cluster.
        now_seconds: the time that ages are counted to, since the epoch.
        bare_pods: pods without a controller may be moved: somebody starts them anew by hand.
    """

    facts: Mapping[str, PodDisruption] = field(default_factory=dict)
    budgets: tuple[DisruptionBudget, ...] = ()
    now_seconds: float = 0.0
    bare_pods: bool = False

    @cached_property
    def _budgets(self) -> Mapping[str, tuple[DisruptionBudget, ...]]:
        namespaces = {budget.namespace for budget in self.budgets}
        return {name: tuple(b for b in self.budgets if b.namespace == name) for name in namespaces}

    def of(self, pod: PodInfo) -> PodDisruption:
        """Return the facts about a pod."""
        return self.facts.get(pod.key, _NOTHING_KNOWN)

    def budgets_of(self, pod: PodInfo) -> tuple[DisruptionBudget, ...]:
        """Return the budgets that count evictions of a pod."""
        labels = self.of(pod).labels
        return tuple(budget for budget in self._budgets.get(pod.namespace, ()) if budget.covers(pod, labels))

    def veto(self, pod: PodInfo) -> str:
        """Return why a running pod must stay where it is; "" when it may be moved."""
        facts = self.of(pod)
        if facts.veto:
            return facts.veto
        if pod.terminating:
            return "it is terminating"
        if not facts.controller and not self.bare_pods:
            return "no controller would start it anew"
        match self.budgets_of(pod):
            case [one] if one.allowed <= 0:
                return f"PodDisruptionBudget {one} allows no disruption"
            case [one, other, *_]:
                return f"under two PodDisruptionBudgets ({one}, {other}), which the API server does not evict"
            case _:
                return ""

    def at_stake_since(self, pod: PodInfo) -> float:
        """Return when a pod started or last saved its work, whichever is later; 0.0 when nothing tells."""
        facts = self.of(pod)
        return max(facts.started_seconds or pod.created, facts.checkpoint_seconds, 0.0)

    def gpu_seconds_at_stake(self, pod: PodInfo) -> int:
        """Return the GPU-seconds that a pod has worked since then; 0 when nothing tells when that was."""
        since = self.at_stake_since(pod)
        lost = self.now_seconds - since if since > 0 else 0.0
        return pod.gpu.count * max(0, round(lost))


_NOTHING_KNOWN: Final = PodDisruption()


def priority_weights(pods: Iterable[PodInfo]) -> Mapping[int, int]:
    """Return priority -> weight of what is at stake: 1 for the lowest of these pods, 2 for the next, and so on.

    Ranks, because the numbers of priority classes mean nothing but an order.
    """
    return {priority: rank for rank, priority in enumerate(sorted({pod.priority for pod in pods}), start=1)}


def gpu_hours(gpu_seconds: int) -> float:
    """Return GPU-seconds as GPU-hours, to the hundredth."""
    return round(gpu_seconds / _SECONDS_PER_HOUR, 2)
