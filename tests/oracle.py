"""What the Filter should say, in plain loops over one node and one pod: slow, obvious, and written apart from it.

Nothing here reads a Snapshot; a `World` is nodes, pods and bookings. The policies' oracle is `oracle_policies`.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.packing.gpu import Match
from extender.packing.selectors import Requirement, Taint, Term
from extender.packing.types import NodeInfo, PodInfo

CPU, MEMORY, PODS = "cpu", "memory", "pods"


@dataclass(frozen=True)
class World:
    """The input of a Snapshot.

    `booked` is what the tentative ledger holds, by (node name, resource); `ended` the share of what has started of late
    that has ended.
    """

    nodes: Sequence[NodeInfo]
    pods: Sequence[PodInfo] = ()
    booked: Mapping[tuple[str, str], int] = field(default_factory=dict)
    ended: float = 0.0

    def node(self, name: str) -> NodeInfo:
        return next(n for n in self.nodes if n.name == name)

    def holding(self, node: NodeInfo) -> list[PodInfo]:
        return [p for p in self.pods if p.node_name == node.name and not p.phase.terminal]

    def waiting(self) -> list[PodInfo]:
        return [p for p in self.pods if not p.node_name and not p.phase.terminal and not p.terminating]

    def seen(self) -> list[PodInfo]:
        """Return the pods of the demand mix: those that wait and those that hold something on a known node."""
        return self.waiting() + [p for n in self.nodes for p in self.holding(n)]

    def used(self, node: NodeInfo, resource: str) -> int:
        return sum(1 if resource == PODS else p.requests.get(resource, 0) for p in self.holding(node))

    def free(self, node: NodeInfo, resource: str) -> int:
        """Return what a score sees: bookings taken off, never below zero."""
        left = node.allocatable.get(resource, 0) - self.used(node, resource)
        return max(0, left - self.booked.get((node.name, resource), 0))


# ---------------------------------------------------------------- filter


@dataclass(frozen=True)
class Judgement:
    """Why a node does not take a pod; `never` when no departure of pods helps."""

    text: str
    never: bool


FITS: Final = Judgement("", never=False)


def judge(world: World, pod: PodInfo, node: NodeInfo) -> Judgement:
    """Run kube-scheduler's filters in their order, then ours between NodeAffinity and NodeResourcesFit."""
    if node.unschedulable and not tolerated(pod, Taint("node.kubernetes.io/unschedulable")):
        return Judgement("node(s) were unschedulable", never=True)
    for taint in node.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(pod, taint):
            return Judgement(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", never=True)
    if not selected(pod, node):
        return Judgement("node(s) didn't match Pod's node affinity/selector", never=True)
    model, room = judge_model(pod, node), judge_resources(world, pod, node)
    # A label that may come makes no node larger.
    return room if model is None or (room.never and not model.never) else model


def tolerated(pod: PodInfo, taint: Taint) -> bool:
    for t in pod.constraints.tolerations:
        effect = t.effect in {"", taint.effect}
        if effect and t.exists and t.key in {"", taint.key}:
            return True
        if effect and not t.exists and t.key in {"", taint.key} and t.value == taint.value:
            return True
    return False


def selected(pod: PodInfo, node: NodeInfo) -> bool:
    for key, value in pod.constraints.selector:
        if node.labels.get(key) != value:
            return False
    terms = pod.constraints.affinity
    return terms is None or any(term_matches(term, node) for term in terms)


def term_matches(term: Term, node: NodeInfo) -> bool:
    if not term.expressions and not term.fields:
        return False
    for line in term.expressions:
        if not line_matches(line, node.labels.get(line.key)):
            return False
    for line in term.fields:
        if line.operator not in {"In", "NotIn"} or len(line.values) != 1:
            return False
        have = node.name if line.key == "metadata.name" else ""
        if (have == line.values[0]) != (line.operator == "In"):
            return False
    return True


def line_matches(line: Requirement, value: str | None) -> bool:
    """Tell whether a label satisfies a line; one that the API would refuse matches nothing, whatever its operator."""
    if not all(is_label_value(v) for v in line.values):
        return False
    if line.operator in {"Exists", "DoesNotExist"}:
        return not line.values and (value is not None) == (line.operator == "Exists")
    if line.operator in {"In", "NotIn"}:
        return bool(line.values) and (value in line.values) == (line.operator == "In")
    if line.operator in {"Gt", "Lt"} and len(line.values) == 1 and value is not None:
        have, want = go_int(value), go_int(line.values[0])
        if have is not None and want is not None:
            return have > want if line.operator == "Gt" else have < want
    return False


def is_label_value(text: str) -> bool:
    plain = string.ascii_letters + string.digits
    return not text or (
        len(text) <= 63 and text[0] in plain and text[-1] in plain and all(c in plain + "-_." for c in text)
    )


def go_int(text: str) -> int | None:
    """Return what Go's strconv.ParseInt(text, 10, 64) makes of a text: signs and leading zeros, no blanks, no dots."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits or any(c not in "0123456789" for c in digits):
        return None
    number = int(text)
    return number if -(2**63) <= number <= 2**63 - 1 else None


def judge_model(pod: PodInfo, node: NodeInfo) -> Judgement | None:
    gpu, model = pod.gpu, node.gpus.get(pod.gpu.resource)
    if not gpu.wishful or model is None:
        return None
    verdict = gpu.match(model)
    if verdict is Match.YES:
        return None
    unsure = {
        Match.UNKNOWN: "GPU model",
        Match.UNKNOWN_MEMORY: "GPU memory",
        Match.UNKNOWN_CUDA: "CUDA level",
        Match.UNKNOWN_COMPUTE: "GPU compute capability",
    }
    if verdict in unsure:
        return Judgement(f"{unsure[verdict]} of the node is not known yet", never=False)
    if verdict is Match.WRONG_MODEL:
        names = [wish.name for wish in gpu.types]
        listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return Judgement(f"GPU model {model.label} is not one of {listed}", never=True)
    if verdict is Match.TOO_LITTLE_MEMORY:
        assert model.memory_mib is not None
        assert gpu.min_memory_mib is not None
        what = "GPU memory"
        have, want = (
            f"{tenths / 10:g}Gi"
            for tenths in (math.floor(model.memory_mib / 102.4), math.ceil(gpu.min_memory_mib / 102.4))
        )
    elif verdict is Match.OLD_CUDA:
        what, (have, want) = "CUDA level", map(dotted, (model.cuda, gpu.min_cuda))
    else:
        what, (have, want) = "GPU compute capability", map(dotted, (model.compute, gpu.min_compute))
    return Judgement(f"{what} is below the pod's minimum ({have} of {want})", never=True)


def dotted(level: tuple[int, int] | None) -> str:
    assert level is not None
    return f"{level[0]}.{level[1]}"


def judge_resources(world: World, pod: PodInfo, node: NodeInfo) -> Judgement:
    short, never = [], False
    rivals = [
        p for p in world.waiting()
        if p.nominated_node == node.name and p.uid != pod.uid and p.priority >= pod.priority
    ]  # fmt: skip
    for resource, amount in [(PODS, 1), *sorted(pod.requests.items())]:
        reserved = sum(1 if resource == PODS else p.requests.get(resource, 0) for p in rivals)
        allocatable = node.allocatable.get(resource, 0)
        if amount > 0 and amount > allocatable - world.used(node, resource) - reserved:
            short.append("Too many pods" if resource == PODS else f"Insufficient {resource}")
            never = never or amount > allocatable
    return Judgement(", ".join(short), never) if short else FITS
