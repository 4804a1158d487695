"""The answer of `plan`: the joint plan of a queue in the keys of the command line contract. Needs no clock, no file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from extender.advice import verdict
from extender.packing.equal_plans import less_preferred
from extender.packing.fit import filter_nodes
from extender.packing.gangs import GangKey, Quorum, gang_key, waiting_text
from extender.packing.greedy import one_by_one
from extender.packing.plan import JointPlan, Why
from extender.packing.problem import PackingProblem
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.reports import unmodelled
from extender.simulate import unschedulable_text
from extender.simulation_report import PlacementRow


class UnplacedRow(TypedDict):
    """A pod without a place, and why."""

    pod: str
    reason: str


class PlanReport(TypedDict):
    """The report of ``plan``.

    ``status`` is OPTIMAL when ``bound`` is reached: no plan that gives every priority as many GPUs as it can, the
    highest first, places more than ``bound`` GPUs. Otherwise it is FEASIBLE, and ``bound - placed_gpus`` the gap.
    """

    placements: list[PlacementRow]
    placed: int
    placed_gpus: int
    status: str
    bound: int
    unplaced: list[UnplacedRow]
    warnings: list[str]


@dataclass(frozen=True)
class Queue:
    """A queue, in order, beside the cluster it waits for, and what it comes to as a problem."""

    snapshot: Snapshot
    pods: Sequence[PodInfo]
    problem: PackingProblem

    @classmethod
    def of(cls, snapshot: Snapshot, pods: Sequence[PodInfo]) -> Queue:
        """Build the problem of a queue."""
        return cls(snapshot, pods, PackingProblem.of(snapshot, pods))


def plan_report(queue: Queue, plan: JointPlan, warnings: Iterable[str] = ()) -> PlanReport:
    """Return a row per pod, in the order of the queue, and the warnings given with those about its pods."""
    words = _Words(queue, plan)
    rows = [PlacementRow(pod=p.key, node=plan.placements[p.uid].node, reason=words.reason(p)) for p in queue.pods]
    return {
        "placements": rows,
        "placed": sum(row["node"] is not None for row in rows),
        "placed_gpus": plan.objective,
        "status": str(plan.status),
        "bound": plan.bound,
        "unplaced": [UnplacedRow(pod=row["pod"], reason=row["reason"]) for row in rows if row["node"] is None],
        "warnings": [*warnings, *unmodelled(queue.pods, "the plan")],
    }


def order_matters(queue: Queue, plan: JointPlan) -> str | None:
    """Return a line about what the order of the queue would cost, None when one by one places as much."""
    layout = one_by_one(queue.problem, [pod.uid for pod in queue.pods])
    placed = sum(count for rows in layout for _, count in rows) + len(queue.problem.seated)
    if placed >= len(plan.nodes):
        return None
    return (
        f"the order of arrival matters here: one by one, each by best fit, {placed} of these {len(queue.pods)} pods "
        f"would be placed, planned together {len(plan.nodes)}"
    )


def preferences_unmet(queue: Queue, plan: JointPlan) -> str | None:
    """Return a line about the pods that prefer other nodes than the plan gives them, None without any."""
    pods = less_preferred(queue.snapshot, queue.pods, queue.problem, plan)
    if not pods:
        return None
    prefer = f"{pods[0].key} prefers another node" if len(pods) == 1 else f"{len(pods)} pods prefer other nodes"
    return (
        f"{prefer} than the plan gives: preferences and ladders come last in it, after GPUs placed and nodes opened; "
        f"`simulate` weighs them pod by pod"
    )


class _Words:
    """Why each pod of one plan has no place."""

    def __init__(self, queue: Queue, plan: JointPlan) -> None:
        self._queue, self._plan = queue, plan
        self._quorums = {quorum.group: quorum for quorum in queue.problem.gangs}
        self._lost: dict[GangKey, PodInfo] = {}
        for pod in queue.pods:
            to = plan.placements[pod.uid]
            if pod.group is not None and to.why is Why.GANG_MEMBER and not to.alone:
                self._lost.setdefault(gang_key(pod.group), pod)

    def reason(self, pod: PodInfo) -> str:
        to = self._plan.placements[pod.uid]
        if to.why is Why.NOWHERE:
            return self._nowhere(pod)
        if to.why is Why.BESIDE:
            nodes = "1 node" if to.alone == 1 else f"{to.alone} nodes"
            return f"fits alone on {nodes}; the plan uses the room for other pods"
        return "" if pod.group is None else self._gang_reason(pod, str(pod.group), to.why)

    def _gang_reason(self, pod: PodInfo, group: str, why: Why) -> str:
        match why:
            case Why.GANG_WAITS:
                return waiting_text(self._queue.problem.waiting_gangs[group])
            case Why.GANG_MEMBER if pod.group is not None:
                lost = self._lost[gang_key(pod.group)]
                return f"{self._quorums[group]}; {lost.key}: {self._nowhere(lost)}"
            case Why.GANG_APART:
                return _apart(self._quorums[group])
            case Why.GANG_BESIDE:
                return f"group {group}: fits together; the plan uses the room for other pods"
            case Why.GANG_UNSURE:
                which = "all its pods" if (quorum := self._quorums[group]).everyone else _some_of(quorum)
                return f"group {group}: no room was found for {which} together"
            case _:
                return ""

    def _nowhere(self, pod: PodInfo) -> str:
        verdicts = filter_nodes(self._queue.snapshot, pod)
        return f"{verdict(pod, verdicts)}; {unschedulable_text(verdicts)}"


def _some_of(quorum: Quorum) -> str:
    return f"{quorum.needed} of its {quorum.pods} waiting pods"


def _apart(quorum: Quorum) -> str:
    which = "its pods do not fit together" if quorum.everyone else f"no {_some_of(quorum)} fit together"
    return f"group {quorum.group}: {which}, even if no other pod starts (proved)"
