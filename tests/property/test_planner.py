"""Plans against Filter and against trying everything."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.packing import planner, prefix
from extender.packing.equal_plans import settled
from extender.packing.fit import filter_nodes
from extender.packing.greedy import greedy, one_by_one
from extender.packing.plan import Status, Why
from extender.packing.problem import Goal, Level, PackingProblem, queue_order
from extender.packing.snapshot import Snapshot
from extender.packing.types import GroupRef, Phase
from extender.whatif import queued
from tests.builders import H100, node, pod
from tests.strategies import snapshot_of, waiting_pods, worlds

QUICK = planner.Limits(deterministic_seconds=0.3)
T4 = "Tesla-T4"


def placed_at(snapshot, member, name):
    """The snapshot with a pod that ran elsewhere, or waited, running on a node."""
    running = replace(member, node_name=name, phase=Phase.RUNNING, nominated_node="")
    return snapshot.without_pod(member).with_pod(running)


# ---------------------------------------------------------------- small worlds, all placements


ANY = (None, None, ("a", None), ("b", None), ("two", 2), ("three", 3))
ELASTIC = (("two", 2), ("two", 2), ("two", 2), ("three", 3), None)


@st.composite
def small_worlds(draw, *, sides=True):
    """Draw at most 3 nodes and 5 pods of 2 priorities, some in gangs, some with CPU to run out of.

    Half of the worlds have gangs that may start without some of their pods.
    """
    groups = draw(st.sampled_from((ANY, ELASTIC)))
    nodes = []
    for number in range(draw(st.integers(1, 3))):
        model = draw(st.sampled_from((H100, T4)))
        made = node(f"n{number}").gpus(draw(st.sampled_from((2, 4, 8))), model).label("nvidia.com/gpu.product", model)
        if sides:
            made = made.resource("cpu", draw(st.sampled_from((4, 8, 96))) * 1000)
            made = made.resource("pods", draw(st.sampled_from((2, 110))))
        nodes.append(made.build())
    running = [
        draw(small_members(pod(f"r{number}").gpus(1).on(f"n{number}"), groups)).build()
        for number in range(len(nodes))
        if draw(st.booleans())
    ]
    return Snapshot.of(nodes, running), [
        draw(small_pods(number, groups, sides=sides)) for number in range(draw(st.integers(1, 5)))
    ]


@st.composite
def small_pods(draw, number, groups, *, sides):
    made = pod(f"p{number}").priority(draw(st.sampled_from((0, 0, 7))))
    gpus = draw(st.sampled_from((1, 2, 3, 4, 0) if sides else (1, 2, 4, 8)))
    made = made.gpus(gpus) if gpus else made
    if sides:
        made = made.cpu(draw(st.sampled_from((1, 2, 3))))
    if draw(st.booleans()):
        made = made.select("nvidia.com/gpu.product", draw(st.sampled_from((H100, T4))))
    return draw(small_members(made, groups)).build()


@st.composite
def small_members(draw, made, groups):
    """Draw the gang of a pod: none, all or nothing, or one of which two or three pods have to run together."""
    group = draw(st.sampled_from(groups))
    return made.group(*group) if group else made


def everything(snapshot, pods):
    """Yield (node or None per pod) for every way to place the pods that Filter allows, gangs whole."""
    if not pods:
        yield ()
        return
    first, *rest = pods
    for row in filter_nodes(snapshot, first).fits.nonzero()[0]:
        name = snapshot.table.names[row]
        for others in everything(placed_at(snapshot, first, name), rest):
            yield (name, *others)
    for others in everything(snapshot, rest):
        yield (None, *others)


def gangs_are_whole(snapshot, pods, nodes):
    """Tell whether of every gang no pod is placed, or all where no size is known, or enough beside those that run."""
    running = Counter(member.group for group in snapshot.pods for member in group)
    gangs = defaultdict(list)
    for member, name in zip(pods, nodes, strict=True):
        gangs[member.group].append(name is not None)
    return all(
        not any(placed) or (all(placed) if group.size is None else sum(placed) + running[group] >= group.size)
        for group, placed in gangs.items()
        if group is not None
    )


def worth(pods, nodes):
    """GPUs, then pods without GPUs, priority by priority."""
    found = []
    for priority in sorted({member.priority for member in pods}, reverse=True):
        mine = [p for p, name in zip(pods, nodes, strict=True) if p.priority == priority and name is not None]
        found += [sum(p.gpu.count for p in mine), sum(not p.gpu.count for p in mine)]
    return tuple(found)


def best_of_all(snapshot, pods):
    return max(worth(pods, nodes) for nodes in everything(snapshot, pods) if gangs_are_whole(snapshot, pods, nodes))


@pytest.fixture(params=["nodewise", "aggregated", "patterns"])
def models(request, monkeypatch):
    """Solve small problems by the model for them, and by those for large ones."""
    if request.param != "nodewise":
        monkeypatch.setattr(planner, "SMALL", 0)
        monkeypatch.setattr(planner, "LARGE", 0)
    if request.param == "patterns":
        monkeypatch.setattr(prefix, "applies", lambda _: False)
    return request.param


def check_against_everything(world, *, always_proven):
    snapshot, pods = world
    problem = PackingProblem.of(snapshot, pods)
    plan = planner.plan(problem, QUICK)
    nodes = tuple(plan.placements[member.uid].node for member in pods)
    best = best_of_all(snapshot, pods)
    assert gangs_are_whole(snapshot, pods, nodes)
    assert worth(pods, nodes) <= best
    total = sum(best[::2])
    assert plan.objective == sum(p.gpu.count for p, name in zip(pods, nodes, strict=True) if name) <= plan.bound
    assert total <= plan.bound
    assert plan.status is Status.OPTIMAL or not always_proven
    if plan.status is Status.OPTIMAL:
        assert worth(pods, nodes) == best
        assert plan.bound == plan.objective


@settings(max_examples=60)
@given(world=small_worlds())
def test_small_problems_are_solved_to_the_end(world):
    check_against_everything(world, always_proven=True)


@pytest.mark.parametrize("sides", [True, False])
def test_the_models_for_many_nodes_claim_nothing_false(models, sides):
    @settings(max_examples=40)
    @given(world=small_worlds(sides=sides))
    def check(world):
        check_against_everything(world, always_proven=False)

    check()


def test_members_without_gpus_count_for_what_a_gang_needs(models):
    nodes = [node("n").gpus(2).resource("cpu", 8000).resource("pods", 110).build()]
    pods = [pod(f"g{number}").gpus(2).cpu(1).group("two", 2).build() for number in range(2)]
    check_against_everything((Snapshot.of(nodes), [*pods, pod("c").cpu(1).group("two", 2).build()]), always_proven=True)


@settings(max_examples=40)
@given(world=small_worlds())
def test_all_fit_is_answered_as_trying_everything_would(world):
    snapshot, pods = world
    fits = any(None not in nodes and gangs_are_whole(snapshot, pods, nodes) for nodes in everything(snapshot, pods))
    answer = planner.all_fit(PackingProblem.of(snapshot, pods), QUICK)
    assert answer is (Status.FEASIBLE if fits else Status.INFEASIBLE)


@settings(max_examples=40)
@given(world=small_worlds())
def test_whether_a_gang_can_start_is_answered_as_trying_everything_would(world):
    snapshot, pods = world
    for group in {member.group for member in pods if member.group is not None}:
        members = [member for member in pods if member.group == group]
        problem = PackingProblem.of(snapshot, members)
        if not problem.gangs:
            continue
        ways = (nodes for nodes in everything(snapshot, members) if gangs_are_whole(snapshot, members, nodes))
        starts = any(any(nodes) for nodes in ways)
        assert planner.some_fit(problem, QUICK) is (Status.FEASIBLE if starts else Status.INFEASIBLE)


# ---------------------------------------------------------------- odd worlds, carried out


@st.composite
def queues(draw):
    """Draw a world and what waits in it, some of it in gangs."""
    world = draw(worlds())
    more = [draw(waiting_pods(f"w{number}")) for number in range(draw(st.integers(0, 6)))]
    sizes = {"a": None, "b": draw(st.sampled_from((None, 1, 2)))}
    named = [draw(st.sampled_from("ab")) for _ in more[:3]]
    grouped = [replace(p, group=GroupRef(p.namespace, g, sizes[g])) for p, g in zip(more[:3], named, strict=True)]
    return snapshot_of(world), queued([*world.pods, *grouped, *more[3:]])


@settings(max_examples=50)
@given(queue=queues())
def test_a_plan_can_be_carried_out_by_filter(queue):
    snapshot, pods = queue
    problem = PackingProblem.of(snapshot, pods)
    plan = planner.plan(problem, QUICK)
    assert plan.placements.keys() == {member.uid for member in pods}
    for member in sorted(pods, key=lambda p: (p.uid not in problem.seated, queue_order(p))):
        if (name := plan.placements[member.uid].node) is not None:
            assert filter_nodes(snapshot, member).fits[snapshot.table.index[name]], member
            snapshot = placed_at(snapshot, member, name)


@settings(max_examples=50)
@given(queue=queues())
def test_a_settled_plan_is_worth_the_same_and_can_be_carried_out(queue):
    snapshot, pods = queue
    problem = PackingProblem.of(snapshot, pods)
    plan = planner.plan(problem, QUICK)
    after = settled(snapshot, pods, problem, plan)
    assert replace(after, placements={}) == replace(plan, placements={})
    assert after.nodes.keys() == plan.nodes.keys()
    assert problem.feasible(layout_of(problem, after))
    assert problem.value(layout_of(problem, after)) == problem.value(layout_of(problem, plan))
    assert all(after.nodes[uid] == problem.nodes[row] for uid, row in problem.seated.items())
    assert settled(snapshot, pods, problem, plan) == after


def layout_of(problem, plan):
    rows = {name: row for row, name in enumerate(problem.nodes)}
    counts = [Counter(rows[plan.nodes[uid]] for uid in group.uids if uid in plan.nodes) for group in problem.classes]
    return tuple(tuple(sorted(count.items())) for count in counts)


@settings(max_examples=50)
@given(queue=queues())
def test_a_plan_is_never_worse_than_greedy_and_the_same_twice(queue):
    problem = PackingProblem.of(*queue)
    plan = planner.plan(problem, QUICK)
    first, alone = greedy(problem), one_by_one(problem, [p.uid for p in queue[1]])
    assert problem.feasible(first)
    assert problem.feasible(alone)
    counted = [r.value for r in plan.reached if r.level.counts_pods]
    assert counted >= list(problem.value(first)[: len(counted)])
    assert planner.plan(problem, QUICK) == plan


@settings(max_examples=50)
@given(queue=queues())
def test_without_promised_room_a_pod_fits_alone_where_filter_says(queue):
    snapshot, pods = queue
    problem = PackingProblem.of(snapshot, pods)
    by_uid = {member.uid: member for member in pods}
    for group in problem.classes:
        for uid in group.uids:
            fits = filter_nodes(snapshot, by_uid[uid]).fits
            alone = problem.alone(group)
            assert not (alone & ~fits).any()
            if not snapshot.nominated:
                assert alone.tolist() == fits.tolist()


@settings(max_examples=50)
@given(queue=queues())
def test_what_is_not_placed_has_its_reason(queue):
    snapshot, pods = queue
    plan = planner.plan(PackingProblem.of(snapshot, pods), QUICK)
    for member in pods:
        to = plan.placements[member.uid]
        assert (to.why is Why.PLACED) == (to.node is not None)
        if to.why is Why.NOWHERE:
            assert not to.alone


def test_levels_are_in_the_order_of_priorities():
    made = partial(PackingProblem.of, Snapshot.of([node("n").gpus(8, H100).build()]))
    problem = made([pod("a").gpus(1).build(), pod("b").gpus(1).priority(5).build(), pod("c").cpu(1).build()])
    assert problem.levels == (
        Level(Goal.GPUS, 5), Level(Goal.GPUS), Level(Goal.OTHERS), Level(Goal.OPENED), Level(Goal.PARTIAL),
    )  # fmt: skip
