"""What the core knows of a node and of a pod. Frozen values; adapters build them, nothing here reads JSON.

Times are seconds since the epoch as floats; resources are integers in the units of ``resources``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from extender.packing.gpu import GpuModel, GpuRequest
from extender.packing.selectors import HARD_EFFECTS, LOST_KEYS, NO_CONSTRAINTS, NodeConstraints, PreferredTerm, Taint

_EMPTY: Final[Mapping[str, int]] = {}
_POD_BYTES: Final = 600
_TEXT_BYTES: Final = 100


class Phase(StrEnum):
    """Pod phase as the API server spells it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def terminal(self) -> bool:
        """Tell whether the pod has let go of its resources for good."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node: what it offers and what it says about itself.

    Attributes:
        allocatable: amount per resource that pods may use; the only truth for fitting.
        capacity: amount per resource as built; ``capacity - allocatable`` of a GPU is *withdrawn*.
        ready: the Ready condition is True (absent counts as ready: hand-made dumps).
        gpus: one GpuModel per GPU resource that the node names in capacity or allocatable, zeros too.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    gpus: Mapping[str, GpuModel] = field(default_factory=dict)

    @property
    def closed(self) -> str:
        """Return why the node takes no new pods, in words: `cordoned`, `not ready` or both; "" when it does."""
        why = (("cordoned", self.unschedulable), ("not ready", not self.ready))
        return ", ".join(words for words, holds in why if holds)

    @property
    def taken_for_ready(self) -> bool:
        """Tell whether kube-scheduler would use the node although it is not ready: it looks at taints alone."""
        lost = any(taint.key in LOST_KEYS and taint.effect in HARD_EFFECTS for taint in self.taints)
        return not (self.ready or self.unschedulable or lost)

    def with_name(self, name: str) -> NodeInfo:
        """Return the same node under another name (tests and generators)."""
        return NodeInfo(
            name, {**self.labels, "kubernetes.io/hostname": name}, self.allocatable, self.capacity,
            self.taints, self.unschedulable, self.ready, self.gpus,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupRef:
    """The gang a pod belongs to, by the marker of its framework.

    ``size`` is the number of members the marker promises, None when it does not say.
    """

    namespace: str
    name: str
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodInfo:
    """One pod: who it is, what it asks for, where it may run.

    Attributes:
        requests: effective request of the whole pod (KEP-753) per resource, zeros left out; ``pods`` is not in it.
        gpu: the GPU side of the request.
        constraints: where the pod may run at all (selector, required affinity, tolerations, node name).
        preferred: its preferred node affinity terms, as (weight, term).
        node_name: node it is bound to, "" while it waits.
        nominated_node: node that preemption has promised to it, "" if none.
        gated: it has scheduling gates and is not in the queue.
        refused: it waits, and kube-scheduler has tried it before and found no node.
        unmodelled: what else kube-scheduler looks at for this pod and we do not, in words; "fits" is then a maybe.
    """

    uid: str
    namespace: str
    name: str
    requests: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    gpu: GpuRequest = field(default_factory=GpuRequest)
    constraints: NodeConstraints = NO_CONSTRAINTS
    preferred: tuple[PreferredTerm, ...] = ()
    priority: int = 0
    created: float = 0.0
    phase: Phase = Phase.PENDING
    node_name: str = ""
    nominated_node: str = ""
    terminating: bool = False
    gated: bool = False
    may_preempt: bool = True
    scheduler_name: str = "default-scheduler"
    group: GroupRef | None = None
    served_by_dra: bool = False
    failure_reason: str = ""
    refused: bool = False
    unmodelled: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the value takes."""
        texts = [self.uid, self.namespace, self.name, self.nominated_node, self.scheduler_name, self.failure_reason]
        texts += [*self.requests, *(wish.name for wish in self.gpu.types), str(self.group)]
        preferred = NodeConstraints(affinity=tuple(each.term for each in self.preferred))
        own = _POD_BYTES + _TEXT_BYTES * len(texts) + sum(map(len, texts))
        return own + self.constraints.size_bytes + preferred.size_bytes

    @property
    def key(self) -> str:
        """Return ``namespace/name``, the way people name a pod."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds(self) -> bool:
        """Tell whether the pod holds its request on ``node_name``: bound and not finished."""
        return bool(self.node_name) and not self.phase.terminal

    @property
    def waiting(self) -> bool:
        """Tell whether the pod is pending without a node (gated ones too)."""
        return not self.node_name and not self.phase.terminal and not self.terminating
