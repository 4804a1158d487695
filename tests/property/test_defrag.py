"""Plans of moves against plain search on small clusters: never longer, each step possible, nobody moved who may not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender.packing.defrag import find_moves
from extender.packing.disruption import DisruptionBudget, Disruptions, PodDisruption, priority_weights
from extender.packing.fit import filter_nodes
from extender.packing.holes import pod_ask
from extender.packing.plan import Status
from extender.packing.relocation import Goal, relocation
from extender.packing.selectors import Operator, Requirement
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from tests.builders import node, pod
from tests.oracle_moves import destinations, least_price, moved

NOW = 1_000_000.0
SELDOM = st.integers(0, 7).map(lambda number: number == 7)
VETOES = (
    PodDisruption("DaemonSet"),
    PodDisruption("Node", mirror=True),
    PodDisruption("ReplicaSet", pinned_by="gpu-extender.io/movable: false"),
    PodDisruption(""),
)


@dataclass(frozen=True)
class Question:
    snapshot: Snapshot
    asked: PodInfo
    disruptions: Disruptions


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Draw two to four nodes with little room on each, and a pod that finds it on none."""
    nodes, pods, facts = [], [], {}
    for i in range(draw(st.sampled_from((3, 4, 2)))):
        size, cpus = draw(st.sampled_from((4, 4, 2))), draw(st.sampled_from((6, 6, 4)))
        built = node(f"n{i}").gpus(size).resource("cpu", 1000 * cpus).label("zone", draw(st.sampled_from("ab")))
        built = built.taint("team") if draw(SELDOM) else built
        nodes.append((built.cordoned() if draw(SELDOM) else built).build())
        left = size - draw(st.sampled_from((1, 2, 0, 1)))
        while left > 0:
            gpus, cores = min(left, draw(st.sampled_from((1, 2, 3)))), draw(st.sampled_from((1, 1, 0, 2)))
            pods.append(_running(draw, f"p{i}{left}", f"n{i}", gpus, min(cores, cpus)))
            left, cpus = left - gpus, cpus - min(cores, cpus)
        if cpus and draw(SELDOM):
            pods.append(_running(draw, f"c{i}", f"n{i}", 0, cpus))
    for one in pods:
        labels, started = {"app": draw(st.sampled_from("xyz"))}, NOW - 3600 * draw(st.integers(0, 3))
        fact = PodDisruption("ReplicaSet", labels=labels, started_seconds=started)
        facts[one.key] = draw(st.sampled_from(VETOES)) if draw(SELDOM) else fact
    asked = pod("asked").gpus(draw(st.sampled_from((2, 3, 4)))).cpu(draw(st.sampled_from((1, 2)))).build()
    budgets = tuple(
        DisruptionBudget("ml", app, (Requirement("app", Operator.IN, (app,)),), draw(st.integers(0, 2)))
        for app in (draw(st.sets(st.sampled_from("xy"))) if draw(SELDOM) else ())
    )
    return Question(Snapshot.of(nodes, pods), asked, Disruptions(facts, budgets, NOW))


def _running(draw: st.DrawFn, name: str, node_name: str, gpus: int, cores: int) -> PodInfo:
    made = pod(name).on(node_name).priority(draw(st.sampled_from((0, 0, 100))))
    made = made.gpus(gpus) if gpus else made
    made = made.cpu(cores) if cores else made
    return (made.select("zone", draw(st.sampled_from("ab"))) if draw(SELDOM) else made).build()


@settings(max_examples=120, deadline=None)
@given(questions(), st.sampled_from(Goal))
def test_a_plan_can_be_carried_out_and_is_what_it_says(question, goal):
    snapshot, disruptions = question.snapshot, question.disruptions
    ask = pod_ask(snapshot, question.asked)
    if ask.filled.any():
        return
    problem = relocation(snapshot, [ask], disruptions, goal)
    plan = find_moves(problem, goal)
    weights = priority_weights(p for group in snapshot.pods for p in group)

    def price(one: PodInfo) -> int:
        return 1 if goal is Goal.MOVES else weights[one.priority] * disruptions.gpu_seconds_at_stake(one)

    best = least_price(snapshot, lambda state: bool(filter_nodes(state, question.asked).fits.any()), disruptions, price)
    event(f"{plan.status}, {len(plan.steps)} moves")
    if plan.row is None:
        assert plan.status in (Status.INFEASIBLE, Status.UNKNOWN)
        assert best is None or plan.status is Status.UNKNOWN
        return
    _carry_out(question, plan, problem)
    assert plan.price == sum(price(resident.pod) for resident, _, _ in plan.steps)
    assert plan.bound <= plan.price
    if best is not None:
        assert plan.bound <= best
        assert plan.status is not Status.OPTIMAL or plan.price <= best


def _carry_out(question, plan, problem):
    state = question.snapshot
    spent = dict.fromkeys(question.disruptions.budgets, 0)
    for resident, origin, to in plan.steps:
        name = state.table.names[origin]
        (held,) = [p for p in state.pods_on(name) if p.uid == resident.pod.uid]
        assert not question.disruptions.veto(held)
        for budget in question.disruptions.budgets_of(held):
            spent[budget] += 1
        assert state.table.names[to] in destinations(state, held)
        state = moved(state, held, state.table.names[to])
    assert all(count <= budget.allowed for budget, count in spent.items())
    assert filter_nodes(state, question.asked).fits[plan.row]
    assert np.array_equal(problem.table.names, state.table.names)
