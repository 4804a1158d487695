"""The answer of ``defrag``: the moves that open a hole or let a pod in, or why there are none.

Pure functions of a dump; the solver is imported here, so importing this module takes OR-Tools in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypedDict

from extender.dump import ClusterDump
from extender.errors import InputError
from extender.packing.defrag import Plan, find_moves
from extender.packing.disruption import Disruptions, gpu_hours, priority_weights
from extender.packing.fit import filter_nodes
from extender.packing.holes import Ask, hole_asks, pod_ask
from extender.packing.plan import Status
from extender.packing.relocation import Goal, Relocation, relocation
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

_LISTED: Final = 4
_DIGITS: Final = 6


# A functional definition, because "from" is a keyword.
MoveRow = TypedDict("MoveRow", {"pod": str, "from": str, "to": str, "step": int, "gpus": int, "gpu_hours": float})
"""One step of a plan; each begins when the pod of the one before runs again. `gpu_hours`: its work at stake."""


class VetoRow(TypedDict):
    """A pod that may not be moved, on a node where it would have helped."""

    pod: str
    node: str
    reason: str


class DefragReport(TypedDict):
    """Answer of `defrag`.

    `cost`: GPU-hours of work at stake, weighed by priority. `status`: `OPTIMAL` when no plan has less of what was to be
    minimised (`goal`), `FEASIBLE` when none has less than `bound`, `INFEASIBLE` when there is no plan, `UNKNOWN` when
    none was found. `bound`: in moves or GPU-hours. `node`: where the room is. `reason`: why it is not possible.
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


@dataclass(frozen=True, slots=True)
class Hole:
    """So many free GPUs on one node, of a model or of any."""

    gpus: int
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``N`` or ``N:MODEL``.

        Raises:
            InputError: for anything else.
        """
        number, _, model = text.partition(":")
        if not (number.isascii() and number.isdigit() and int(number[:_DIGITS]) > 0 and len(number) <= _DIGITS):
            raise InputError(f"--hole {text}: give N or N:MODEL, such as 8 or 8:H100; N is a number of GPUs")
        return cls(int(number), model.strip() or None)

    def __str__(self) -> str:
        return f"a hole of {self.gpus} GPUs" + (f" of model {self.model}" if self.model else "")


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


def defrag_report(
    dump: ClusterDump, wanted: PodInfo | Hole, goal: Goal = Goal.MOVES, *, bare_pods: bool | None = None
) -> DefragReport:
    """Find the moves and report them."""
    snapshot = Snapshot.of(dump.nodes, dump.pods)
    disruptions = disruptions_of(dump, bare_pods=bare_pods)
    asks = hole_asks(snapshot, wanted.gpus, wanted.model) if isinstance(wanted, Hole) else [pod_ask(snapshot, wanted)]
    warnings = [*dump.warnings, *_warnings(dump, disruptions, bare_pods)]
    for ask in asks:
        if ask.filled.any():
            plan = Plan(Status.OPTIMAL, row=int(ask.filled.argmax()))
            return _report(snapshot, disruptions, plan, goal, warnings)
    problem = relocation(snapshot, asks, disruptions, goal)
    plan = find_moves(problem, goal)
    report = _report(snapshot, disruptions, plan, goal, [*warnings, *_moved_warnings(plan)])
    if not report["possible"]:
        report["vetoes"] = list(_vetoes(problem, asks))
        report["reason"] = _reason(snapshot, wanted, asks, problem, plan)
    return report


def _report(
    snapshot: Snapshot, disruptions: Disruptions, plan: Plan, goal: Goal, warnings: Iterable[str]
) -> DefragReport:
    names = snapshot.table.names
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
        "reason": None,
        "vetoes": [],
        "warnings": list(warnings),
    }


# ---------------------------------------------------------------- why not


def _reason(snapshot: Snapshot, wanted: PodInfo | Hole, asks: Sequence[Ask], problem: Relocation, plan: Plan) -> str:
    what = str(wanted) if isinstance(wanted, Hole) else f"pod {wanted.key}"
    candidates = sum(int(ask.rows.sum()) for ask in asks)
    if plan.status is Status.UNKNOWN:
        return f"no order of moves was found that makes room for {what}, and none was ruled out"
    if not problem.targets:
        never = _never(snapshot, wanted, candidates)
        if never:
            return never
        return (
            f"on none of the {candidates} nodes that could take {what} can enough pods leave: {_counted(problem, asks)}"
        )
    movable = (
        f"pods could leave {len(problem.targets)} of {candidates} nodes for {what}, but no node has a place for them"
    )
    counted = _counted(problem, asks)
    return f"{movable}; {counted}" if counted else movable


def _never(snapshot: Snapshot, wanted: PodInfo | Hole, candidates: int) -> str:
    """Return why no node could take it even if empty, "" when some could."""
    if isinstance(wanted, Hole):
        if candidates:
            return ""
        largest = max((int(snapshot.allocatable_of(r).max()) for r in snapshot.table.whole_gpu_resources), default=0)
        of = f" of model {wanted.model}" if wanted.model else ""
        return f"no open node has {wanted.gpus} GPUs{of}; the largest node has {largest}"
    verdicts = filter_nodes(snapshot, wanted)
    if not verdicts.never.all():
        return ""
    counts = Counter(verdicts.reason(row).text for row in range(len(snapshot)))
    listed = ", ".join(f"{count} x {text}" for text, count in counts.most_common(_LISTED))
    return f"no departure of pods helps pod {wanted.key}: {listed or 'there are no nodes'}"


def _counted(problem: Relocation, asks: Sequence[Ask]) -> str:
    counts = Counter(row["reason"] for row in _vetoes(problem, asks))
    return ", ".join(f"{count} pods must stay ({reason})" for reason, count in counts.most_common(_LISTED))


def _vetoes(problem: Relocation, asks: Sequence[Ask]) -> Iterator[VetoRow]:
    """Yield the pods that must stay and hold something of which their node is short."""
    for ask in asks:
        for row in ask.rows.nonzero()[0].tolist():
            short = {name for name, amount in ask.amounts.items() if problem.room_of(row, name) < amount}
            for pod, reason in problem.vetoed.get(row, ()):
                if short & pod.requests.keys():
                    yield {"pod": pod.key, "node": problem.table.names[row], "reason": reason}


# ---------------------------------------------------------------- warnings


def _warnings(dump: ClusterDump, disruptions: Disruptions, bare_pods: bool | None) -> Iterator[str]:  # noqa: FBT001
    if disruptions.bare_pods and bare_pods is None and dump.pods:
        yield (
            "no pod of the input shows its controller (metadata.ownerReferences): all are taken for movable; "
            "a pod without one does not come back after an eviction"
        )
    if not dump.budgets:
        yield "the input has no PodDisruptionBudgets; `kubectl get nodes,pods,poddisruptionbudgets -A` prints them, too"


def _moved_warnings(plan: Plan) -> Iterator[str]:
    for resident, _, _ in plan.steps:
        pod = resident.pod
        if pod.unmodelled:
            yield f"pod {pod.key}: its {', '.join(pod.unmodelled)} may keep it from the node it is to move to"
        if pod.group is not None:
            yield f"pod {pod.key}: is one of group {pod.group}; the others may have to start anew with it"
