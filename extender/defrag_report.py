"""The answer of ``defrag``: the moves that open a hole or let a pod in, or why there are none.

Pure functions of a dump; the solver is imported here, so importing this module takes OR-Tools in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from extender import defrag_reasons, defrag_warnings
from extender.defrag_reasons import VetoRow
from extender.dump import ClusterDump
from extender.packing.defrag import Plan, find_moves
from extender.packing.disruption import Disruptions, gpu_hours, priority_weights
from extender.packing.holes import Ask, Hole, hole_asks, pod_ask
from extender.packing.plan import Status
from extender.packing.relocation import Goal, relocation
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

# A functional definition, because "from" is a keyword.
MoveRow = TypedDict("MoveRow", {"pod": str, "from": str, "to": str, "step": int, "gpus": int, "gpu_hours": float})
"""One step of a plan; each begins when the pod of the one before runs again. `gpu_hours`: its work at stake."""


class DefragReport(TypedDict):
    """Answer of `defrag`.

    `cost`: GPU-hours of work at stake, weighed by priority. `status`: `OPTIMAL` when no plan has less of what was to be
    minimised (`goal`), `FEASIBLE` when none has less than `bound`, `INFEASIBLE` when there is no plan, `UNKNOWN` when
    none was found. `bound`: in moves or GPU-hours. `node`: where the room is. `reason`: why it is not possible, `never`
    or `busy` first.
    """

    possible: bool
    moves: list[MoveRow]
    cost: float
    status: str
    goal: str
    bound: float
    node: str | None
    reason: str | None
    vetoes: list[VetoRow]
    warnings: list[str]


def disruptions_of(dump: ClusterDump, *, bare_pods: bool | None = None) -> Disruptions:
    """Return what a dump says about evictions; ages are counted to the newest time it shows.

    Args:
        dump: the cluster.
        bare_pods: whether pods without a controller may be moved. None: only when no pod of the dump shows a
            controller, because then the owners were left out of it; a real cluster has DaemonSets at least.
    """
    facts = dump.disruptions
    times = [pod.created for pod in dump.pods]
    times += [time for fact in facts.values() for time in (fact.started_seconds, fact.checkpoint_seconds)]
    ownerless = not any(fact.controller for fact in facts.values())
    return Disruptions(facts, dump.budgets, max(times, default=0.0), ownerless if bare_pods is None else bare_pods)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A plan; without one the reason, and who holds the room."""

    plan: Plan
    reason: str | None = None
    vetoes: tuple[VetoRow, ...] = ()


def defrag_report(
    dump: ClusterDump, wanted: PodInfo | Hole, goal: Goal = Goal.MOVES, *, bare_pods: bool | None = None
) -> DefragReport:
    """Find the moves and report them."""
    snapshot = Snapshot.of(dump.nodes, dump.pods)
    disruptions = disruptions_of(dump, bare_pods=bare_pods)
    asks = hole_asks(snapshot, wanted) if isinstance(wanted, Hole) else [pod_ask(snapshot, wanted)]
    answer = _answer(snapshot, wanted, asks, disruptions, goal)
    warnings = [
        *defrag_warnings.of_dump(dump, snapshot, wanted, asks, answer.plan),
        *(() if isinstance(wanted, Hole) else defrag_warnings.of_group(snapshot, wanted)),
        *defrag_warnings.of_plan(dump, disruptions, answer.plan, bare_pods=bare_pods),
        *(defrag_warnings.of_room(snapshot, answer.plan.row) if isinstance(wanted, Hole) else ()),
    ]
    return _report(snapshot, disruptions, answer, goal, warnings)


def _answer(
    snapshot: Snapshot, wanted: PodInfo | Hole, asks: Sequence[Ask], disruptions: Disruptions, goal: Goal
) -> _Answer:
    row = _filled(snapshot, asks)
    if row is not None:
        return _Answer(Plan(Status.OPTIMAL, row=row))
    if words := defrag_reasons.never(snapshot, wanted):
        return _Answer(Plan(Status.INFEASIBLE), words)
    problem = relocation(snapshot, asks, disruptions, goal)
    plan = find_moves(problem, goal)
    if plan.row is not None:
        return _Answer(plan)
    words, vetoes = defrag_reasons.busy(snapshot, wanted, asks, problem, plan)
    return _Answer(plan, words, tuple(vetoes))


def _filled(snapshot: Snapshot, asks: Iterable[Ask]) -> int | None:
    """Return a row that has the room already, one without a taint if there is one; None when there is none."""
    rows = [row for ask in asks for row in ask.filled.nonzero()[0].tolist()]
    return min(rows, key=lambda row: (bool(snapshot.table.nodes[row].taints), row), default=None)


def _report(
    snapshot: Snapshot, disruptions: Disruptions, answer: _Answer, goal: Goal, warnings: list[str]
) -> DefragReport:
    plan, names = answer.plan, snapshot.table.names
    weights = priority_weights(pod for group in snapshot.pods for pod in group)
    at_stake = [disruptions.gpu_seconds_at_stake(resident.pod) for resident, _, _ in plan.steps]
    weighed = [weights[step[0].pod.priority] * seconds for step, seconds in zip(plan.steps, at_stake, strict=True)]
    rows: list[MoveRow] = [
        {
            "pod": resident.pod.key,
            "from": names[origin],
            "to": names[to],
            "step": number,
            "gpus": resident.pod.gpu.count,
            "gpu_hours": gpu_hours(seconds),
        }
        for number, ((resident, origin, to), seconds) in enumerate(zip(plan.steps, at_stake, strict=True), start=1)
    ]
    return {
        "possible": plan.row is not None,
        "moves": rows,
        "cost": gpu_hours(sum(weighed)),
        "status": str(plan.status),
        "goal": str(goal),
        "bound": plan.bound if goal is Goal.MOVES else gpu_hours(plan.bound),
        "node": None if plan.row is None else names[plan.row],
        "reason": answer.reason,
        "vetoes": list(answer.vetoes),
        "warnings": warnings,
    }
