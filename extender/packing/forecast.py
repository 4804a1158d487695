"""What is worked out ahead of the requests: the question put to the solvers, and the guidance made of their answer.

    snapshot --pose--> Question --[solvers.solve, in a child process]--> Answer --guidance--> Guidance of a snapshot

The question is plain arrays, so that a child process can be given it; what the answer's rows mean stays here.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from extender.packing import quota_problem
from extender.packing.guidance import Guidance
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.plan import JointPlan
from extender.packing.problem import PackingProblem, queue_order
from extender.packing.quota_problem import QuotaProblem
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """What the solvers are asked.

    Attributes:
        quotas: the quota LP per GPU resource.
        queue: the pods that wait for whole GPUs, None when none does.
        previous: uid -> node of the plan before, to stay with where that costs nothing.
        deterministic_seconds: of CP-SAT for the queue.
    """

    quotas: Mapping[str, QuotaProblem] = field(default_factory=dict)
    queue: PackingProblem | None = None
    previous: Mapping[str, str] = field(default_factory=dict)
    deterministic_seconds: float = 1.0


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """What they answer.

    Attributes:
        wanted: float [group, kind] per GPU resource, GPUs; a resource whose LP was not solved is left out.
        plan: of the queue, None when none was asked for.
        gains: the plan places more than one pod after the other by best fit would.
    """

    wanted: Mapping[str, Floats] = field(default_factory=dict)
    plan: JointPlan | None = None
    gains: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Posed:
    """A question, and what its answer means: ``groups`` are the rows of ``wanted`` per resource."""

    snapshot: Snapshot
    question: Question
    groups: Mapping[str, Mapping[PodClass, int]]

    def guidance(self, answer: Answer, now: Snapshot) -> Guidance:
        """Return the guidance for a later snapshot: what pods have taken since the question is counted."""
        quotas = {
            resource: quota_problem.quotas_of(
                NodeKinds.of(self.snapshot.table, resource), self.groups[resource], wanted
            )
            for resource, wanted in answer.wanted.items()
        }
        nodes = _worth_following(answer, now)
        return Guidance(quotas, nodes).after(now.table, started_since(self.snapshot, now))


def pose(snapshot: Snapshot, queue_limit: int) -> Posed:
    """Return the question of a snapshot; of the queue at most so many pods, the first first."""
    posed = {resource: quota_problem.pose(snapshot, resource) for resource in snapshot.table.whole_gpu_resources}
    waiting = [pod for pod in snapshot.pending.values() if pod.gpu.count and pod.gpu.whole and not pod.gated]
    first = heapq.nsmallest(queue_limit, waiting, key=queue_order)
    question = Question(
        {resource: problem for resource, (problem, _) in posed.items()},
        PackingProblem.of(snapshot, first) if first else None,
        {} if snapshot.guidance is None else snapshot.guidance.nodes,
    )
    return Posed(snapshot, question, {resource: groups for resource, (_, groups) in posed.items()})


def _worth_following(answer: Answer, now: Snapshot) -> Mapping[str, str]:
    """Return uid -> node for pods that wait still.

    Only of a plan that gains: where best fit places as much, scoring decides better, because it looks ahead at what may
    come, and the plan at the queue alone.
    """
    if answer.plan is None or not answer.gains:
        return {}
    return {uid: node for uid, node in answer.plan.nodes.items() if uid in now.pending}


def started_since(before: Snapshot, now: Snapshot) -> list[PodInfo]:
    """Return the pods that hold a node now and did not before."""
    if before.table is now.table:
        changed = [row for row, (old, new) in enumerate(zip(before.pods, now.pods, strict=True)) if old is not new]
        known = {pod.uid for row in changed for pod in before.pods[row]}
        return [pod for row in changed for pod in now.pods[row] if pod.uid not in known]
    known = {pod.uid for group in before.pods for pod in group}
    return [pod for group in now.pods for pod in group if pod.uid not in known]
