"""What is worked out ahead of the requests: the questions put to the solvers, and the guidance made of their answers.

    Snapshot --pose--> QuotaQuestion, QueueQuestion --[solvers.solve, in a child]--> answers --> Guidance of a Snapshot

Questions are plain arrays, so that a child process can be given them; what the rows of an answer mean stays here.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from extender.packing import quota_problem
from extender.packing.guidance import Guidance
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.plan import JointPlan
from extender.packing.problem import PackingProblem, queue_order
from extender.packing.quota_problem import MOST_VARIABLES, QuotaProblem
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class QuotaQuestion:
    """The quota LP of each GPU resource."""

    problems: Mapping[str, QuotaProblem]


@dataclass(frozen=True, eq=False, slots=True)
class QuotaAnswer:
    """Float [group, kind] per GPU resource, in GPUs; a resource whose LP was not solved is left out."""

    wanted: Mapping[str, Floats]


@dataclass(frozen=True, eq=False, slots=True)
class QueueQuestion:
    """The queue to be planned jointly.

    Attributes:
        problem: the pods that wait for whole GPUs, and the nodes.
        previous: uid -> node of the plan before, to stay with where that costs nothing.
        deterministic_seconds: what CP-SAT may take.
    """

    problem: PackingProblem
    previous: Mapping[str, str]
    deterministic_seconds: float


@dataclass(frozen=True, eq=False, slots=True)
class QueueAnswer:
    """The joint plan; ``gains`` says that it places more than best fit, one pod after the other, would."""

    plan: JointPlan
    gains: bool


Question = QuotaQuestion | QueueQuestion
Answer = QuotaAnswer | QueueAnswer


@dataclass(frozen=True, eq=False, slots=True)
class PosedQuotas:
    """The question of a snapshot, and which row of its answer each class of pods is, per resource."""

    snapshot: Snapshot
    question: QuotaQuestion
    groups: Mapping[str, Mapping[PodClass, int]]

    def guidance(self, answer: QuotaAnswer, now: Snapshot) -> Guidance:
        """Return a later snapshot's guidance with these quotas."""
        table, problems = self.snapshot.table, self.question.problems
        quotas = {
            name: quota_problem.quotas_of(NodeKinds.of(table, name), self.groups[name], problems[name], wanted)
            for name, wanted in answer.wanted.items()
        }
        return replace(now.guidance or Guidance(), quotas=quotas)


def pose_quotas(snapshot: Snapshot, most_variables: int = MOST_VARIABLES) -> PosedQuotas:
    """Return the quota question of a snapshot, each LP of so many variables at most (see ``quota_problem.pose``)."""
    resources = snapshot.table.whole_gpu_resources
    posed = {resource: quota_problem.pose(snapshot, resource, most_variables) for resource in resources}
    question = QuotaQuestion({resource: problem for resource, (problem, _) in posed.items()})
    return PosedQuotas(snapshot, question, {resource: groups for resource, (_, groups) in posed.items()})


def pose_queue(snapshot: Snapshot, limit: int, deterministic_seconds: float) -> QueueQuestion | None:
    """Return the question of a snapshot's queue, at most so many pods, the first first; None when nobody waits."""
    waiting = [pod for pod in snapshot.pending.values() if pod.gpu.count and pod.gpu.whole and not pod.gated]
    if not waiting:
        return None
    problem = PackingProblem.of(snapshot, heapq.nsmallest(limit, waiting, key=queue_order))
    return QueueQuestion(problem, snapshot.guidance.nodes if snapshot.guidance else {}, deterministic_seconds)


def queue_guidance(answer: QueueAnswer | None, now: Snapshot) -> Guidance:
    """Return a later snapshot's guidance with the nodes of a plan, for pods that wait still.

    Only of a plan that gains: where best fit places as much, scoring decides better, because it looks ahead at what may
    come, and the plan at the queue alone.
    """
    nodes = answer.plan.nodes if answer is not None and answer.gains else {}
    return replace(now.guidance or Guidance(), nodes={uid: node for uid, node in nodes.items() if uid in now.pending})


def started_since(before: Snapshot, now: Snapshot) -> list[PodInfo]:
    """Return the pods that hold a node now and did not before."""
    if before.table is now.table:
        changed = [row for row, (old, new) in enumerate(zip(before.pods, now.pods, strict=True)) if old is not new]
        known = {pod.uid for row in changed for pod in before.pods[row]}
        return [pod for row in changed for pod in now.pods[row] if pod.uid not in known]
    known = {pod.uid for group in before.pods for pod in group}
    return [pod for group in now.pods for pod in group if pod.uid not in known]
