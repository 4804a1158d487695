"""Quotas and the joint plan's nodes in scores; the turnover that switches quotas off."""

import pickle

import numpy as np
import pytest

from extender.packing import forecast, quota_problem, quotas, solvers
from extender.packing.framework import best_row
from extender.packing.guidance import CPU_CLASSES, Guidance, Quotas, column_of
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass, Turnover
from extender.packing.policies.hole_aware import HoleAware
from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from tests.builders import GPU, H100, node, pod

LABEL = "nvidia.com/gpu.product"
T4 = "Tesla-T4"


def small_cluster(*pods):
    nodes = [node("h").label(LABEL, H100).gpus(8, H100).build(), node("t").label(LABEL, T4).gpus(8, T4).build()]
    return Snapshot.of(nodes, pods)


def solved(snapshot):
    problem, groups = quota_problem.pose(snapshot, GPU)
    wanted = quotas.solve(problem)
    assert wanted is not None
    return quota_problem.quotas_of(NodeKinds.of(snapshot.table, GPU), groups, problem, wanted)


def on(snapshot, of_resource, name, asked):
    """Return the GPUs that a pod's group should take on nodes of the kind of a node."""
    kind = NodeKinds.of(snapshot.table, GPU).of_row[snapshot.table.index[name]]
    wanted = of_resource.wanted[of_resource.groups[PodClass.of(asked)]]
    return wanted.reshape(-1, CPU_CLASSES)[kind].sum()


def test_what_only_one_model_can_take_is_left_to_who_must_have_it():
    # 16 free GPUs; 8 wanted on H100 alone, 8 anywhere: all of them fit only if the latter take T4.
    picky = [pod(f"w{i}").gpus(1).select(LABEL, H100).build() for i in range(8)]
    easy = [pod(f"e{i}").gpus(1).build() for i in range(8)]
    snapshot = small_cluster(*picky, *easy)
    wanted = solved(snapshot)
    assert (on(snapshot, wanted, "h", picky[0]), on(snapshot, wanted, "h", easy[0])) == pytest.approx((8.0, 0.0))
    assert on(snapshot, wanted, "t", easy[0]) == pytest.approx(8.0)


def test_cpu_poor_nodes_are_for_pods_that_ask_for_little():
    # 12 cores a GPU on "rich", 4 on "poor": 8 pods of 12 cores and 8 of 4 fit only if each takes the nodes made for it.
    nodes = [node("rich").gpus(8, H100).build(), node("poor").resource("cpu", 32_000).gpus(8, T4).build()]
    heavy, light = ([pod(f"{c}-{i}").gpus(1).cpu(c).build() for i in range(8)] for c in (12, 4))
    snapshot = Snapshot.of(nodes, [*heavy, *light])
    wanted = solved(snapshot)
    assert on(snapshot, wanted, "rich", heavy[0]) == pytest.approx(8.0)
    assert on(snapshot, wanted, "poor", light[0]) == pytest.approx(8.0)
    guided = snapshot.with_guidance(Guidance({GPU: wanted}))
    assert [snapshot.table.names[best_row(Planned(), guided, p[0], np.arange(2))] for p in (heavy, light)] == [
        "rich",
        "poor",
    ]


def test_quotas_are_missed_the_more_the_less_the_place_gets_beside_the_best():
    wanted = np.zeros((2, 2 * CPU_CLASSES))
    wanted[0, [0, 3, CPU_CLASSES]] = 6.0, 3.0, 3.0
    free = np.ones(2 * CPU_CLASSES)
    free[[0, 3, CPU_CLASSES]] = 8.0, 3.0, 16.0
    of_resource = Quotas((), {}, wanted, free)
    assert of_resource.missed_kind[0].tolist() == [0.0] * CPU_CLASSES + [1 - 3 / 9] * CPU_CLASSES + [1.0]
    # Of the columns' free GPUs 3/4, all and 3/16.
    assert of_resource.missed_column[0, [0, 3, CPU_CLASSES, 1, -1]].tolist() == [0.25, 0.0, 1 - 3 / 16, 1.0, 1.0]
    assert of_resource.missed_kind[1].tolist() == [1.0] * (2 * CPU_CLASSES + 1)


def test_a_column_where_nothing_was_free_is_read_as_the_nearest_of_its_kind():
    wanted, free = np.zeros((2, 3 * CPU_CLASSES)), np.zeros(3 * CPU_CLASSES)
    free[[2, 6]] = 4.0
    free[CPU_CLASSES] = 8.0
    wanted[0, [2, 6, CPU_CLASSES]] = 4.0, 2.0, 2.0
    missed = Quotas((), {}, wanted, free).missed_column[0]
    assert missed[:CPU_CLASSES].tolist() == [0.0] * 5 + [0.5] * 4
    assert missed[CPU_CLASSES : 2 * CPU_CLASSES].tolist() == [0.75] * CPU_CLASSES
    assert missed[2 * CPU_CLASSES :].tolist() == [1.0] * (CPU_CLASSES + 1)


def test_quotas_of_a_kind_that_have_grown_old_open_no_second_node():
    snapshot = Snapshot.of([node(f"n{i}").gpus(8, H100).build() for i in range(8)], [pod("w").gpus(1).cpu(4).build()])
    guidance = Guidance({GPU: solved(snapshot)})
    for i in range(8):
        asked = pod(f"p{i}").gpus(1).cpu(4)
        guided = snapshot.with_pod(asked.build()).with_guidance(guidance)
        chosen = best_row(Planned(), guided, asked.build(), np.arange(8))
        snapshot = guided.with_pod(asked.on(snapshot.table.names[chosen]).build())
    assert sorted(snapshot.free_of(GPU).tolist()) == [0, *[8] * 7]


def test_without_groups_there_are_no_quotas():
    assert Quotas((), {}, np.zeros((0, CPU_CLASSES)), np.zeros(CPU_CLASSES)).missed_kind.shape == (0, CPU_CLASSES + 1)


def test_quotas_speak_of_a_class_of_pods_that_they_give_something():
    asked, other = pod("p").gpus(2).build(), pod("q").gpus(4).build()
    kinds = NodeKinds.of(small_cluster(asked).table, GPU)
    wanted = np.zeros((2, len(kinds) * CPU_CLASSES))
    wanted[0, 6] = 3.0
    of_resource = Quotas(kinds.signature, {PodClass.of(asked): 0, PodClass.of(other): 1}, wanted, wanted[0])
    assert of_resource.group_of(PodClass.of(asked), kinds) == 0
    assert of_resource.group_of(PodClass.of(other), kinds) is None
    assert of_resource.group_of(PodClass.of(pod("x").gpus(1).build()), kinds) is None


def test_with_room_to_spare_quotas_do_not_open_whole_nodes():
    # The quotas are for demand as large as the room, whatever comes, so they send pods to untouched nodes too.
    nodes = [node(f"n{i}").gpus(8, H100).build() for i in range(4)]
    running = [pod(f"r{i}").gpus(1).cpu(4).on("n0").build() for i in range(4)]
    snapshot = Snapshot.of(nodes, [*running, *(pod(f"w{i}").gpus(1).cpu(8).build() for i in range(4))])
    for waiting in list(snapshot.pending.values()):
        guided = snapshot.with_guidance(Guidance({GPU: solved(snapshot)}))
        assert guided.table.names[best_row(Planned(), guided, waiting, np.arange(4))] == "n0"


def test_small_pods_fill_the_node_that_they_started():
    # Whole nodes have more GPUs to give, so the quotas name more of theirs than of those of the started one.
    snapshot = Snapshot.of([node(f"n{i}").gpus(8, H100).build() for i in range(3)])
    for i in range(8):
        asked = pod(f"w{i}").gpus(1).cpu(1)
        snapshot = snapshot.with_pod(asked.build())
        guided = snapshot.with_guidance(Guidance({GPU: solved(snapshot)}))
        chosen = best_row(Planned(), guided, asked.build(), np.arange(3))
        snapshot = snapshot.with_pod(asked.on(snapshot.table.names[chosen]).build())
    assert sorted(snapshot.free_of(GPU).tolist()) == [0, 8, 8]


@pytest.mark.parametrize(
    ("started", "asked", "lost"),
    [
        (node("s").gpus(8, H100), pod("p").gpus(2), 1.0),
        (node("s").gpus(8, H100).unready(), pod("p").gpus(2), 0.0),
        (node("s").gpus(8, H100), pod("p").gpus(6), 0.0),
        (node("s").gpus(8, H100), pod("p").gpus(2).cpu(40), 0.0),
        (node("s").gpus(8, H100), pod("p").gpus(2).memory(1000), 0.0),
    ],
    ids=["room", "closed", "GPUs", "CPU", "memory"],
)
def test_an_untouched_node_loses_its_advantage_where_a_started_one_has_room(started, asked, lost):
    running = pod("r").gpus(3).cpu(64).memory(600).on("s").build()
    waiting = asked.build()
    snapshot = Snapshot.of([node("u").gpus(8, H100).build(), started.build()], [running, waiting])
    kinds, untouched = NodeKinds.of(snapshot.table, GPU), np.array([snapshot.table.index["u"]])
    wanted = np.zeros((1, len(kinds) * CPU_CLASSES))
    # All of it on what is untouched: what is started misses 1 per GPU.
    wanted[0, column_of(kinds.of_row[untouched], *(snapshot.free_of(name)[untouched] for name in (GPU, "cpu")))] = 8.0
    quotas_of_all = Quotas(kinds.signature, {PodClass.of(waiting): 0}, wanted, np.full(wanted.shape[1], 8.0))
    guided = snapshot.with_guidance(Guidance({GPU: quotas_of_all}))
    without, default = (policy.score(guided, waiting, untouched) for policy in (Planned(cpu_quota=0.0), Planned()))
    assert without - default == pytest.approx([lost * waiting.gpu.count])


def test_columns_are_kinds_by_classes_of_cpu_per_gpu():
    kinds, gpus = np.array([0, 1, 1, -1], dtype=np.int32), np.array([8, 1, 0, 4])
    columns = column_of(kinds, gpus, np.array([96_000, 1_999, 5_000_000, 8_000]))
    assert columns.tolist() == [6, CPU_CLASSES, 2 * CPU_CLASSES - 1, 1 - CPU_CLASSES]


def test_the_node_of_the_joint_plan_comes_first():
    waiting = pod("p").gpus(1).build()
    for name in ("h", "t"):
        snapshot = small_cluster(waiting).with_guidance(Guidance(nodes={waiting.uid: name}))
        assert snapshot.table.names[best_row(Planned(), snapshot, waiting, np.arange(2))] == name


@pytest.mark.parametrize("gpus", [1, 128, 2**40])
def test_the_planned_node_comes_first_though_it_is_the_last_rung_of_a_large_pod(gpus):
    waiting = pod("p").gpus(gpus).types(f"T4,H100={1e300}").build()
    nodes = [node("h").gpus(gpus, H100).build(), node("t").gpus(gpus, T4).build()]
    snapshot = Snapshot.of(nodes, [waiting])
    assert snapshot.table.names[best_row(Planned(), snapshot, waiting, np.arange(2))] == "t"
    planned = snapshot.with_guidance(Guidance({GPU: solved(snapshot)}, {waiting.uid: "h"}))
    assert snapshot.table.names[best_row(Planned(), planned, waiting, np.arange(2))] == "h"


def test_guidance_outlives_an_added_node_of_a_known_kind_and_not_an_unknown_one():
    snapshot = small_cluster(pod("p").gpus(1).build())
    wanted = solved(snapshot)
    like = snapshot.with_node(node("h2").label(LABEL, H100).gpus(8, H100).build())
    assert wanted.speak_of(NodeKinds.of(like.table, GPU))
    unlike = snapshot.with_node(node("x").gpus(4, "L4").build())
    assert not wanted.speak_of(NodeKinds.of(unlike.table, GPU))


def test_quotas_for_a_resource_that_no_node_names_any_more_change_nothing():
    asked = pod("w").gpus(2, "amd.com/gpu").cpu(4).build()
    snapshot = Snapshot.of([node("a").build(), node("m").gpus(4, "MI300X", resource="amd.com/gpu").build()], [asked])
    posed = forecast.pose_quotas(snapshot)
    guidance = posed.guidance(solvers.solve_quotas(posed.question), snapshot)
    assert list(guidance.quotas) == ["amd.com/gpu"]
    gone = snapshot.with_guidance(guidance).with_node(node("m").build())
    rows = np.arange(2)
    assert Planned().score(gone, asked, rows).tolist() == HoleAware().score(gone, asked, rows).tolist()


def test_a_snapshot_carries_guidance_from_change_to_change():
    guidance = Guidance()
    snapshot = small_cluster().with_guidance(guidance)
    assert snapshot.with_pod(pod("p").gpus(1).on("h").build()).guidance is guidance
    assert snapshot.with_booked(None).guidance is guidance
    assert snapshot.without_node("t").guidance is guidance


def test_with_guidance_keeps_what_was_worked_out():
    snapshot = small_cluster(pod("p").gpus(1).build())
    made = snapshot.remember("anything", GPU, lambda: [1])
    free = snapshot.free
    other = snapshot.with_guidance(Guidance())
    assert other.remember("anything", GPU, lambda: [2]) is made
    assert other.free is free
    assert snapshot.guidance is None


def test_the_problem_is_plain_arrays():
    problem, _ = quota_problem.pose(small_cluster(pod("p").gpus(2).cpu(16).build()), GPU)
    first, again = quotas.solve(problem), quotas.solve(pickle.loads(pickle.dumps(problem)))
    assert first is not None
    assert again is not None
    assert first.tolist() == again.tolist()


def test_demand_is_what_waits_and_what_has_come_of_late_for_the_rest():
    # 16 GPUs, 4 held: 12 free. One pod of 8 waits: 8. The other 4 as what has come: a pod of 8 that counts half,
    # because a quarter of the GPUs has come since, and one of 4, so half of them in pods of 8.
    snapshot = small_cluster(pod("p").gpus(8).build(), pod("r").gpus(4).on("h").build())
    problem, groups = quota_problem.pose(snapshot, GPU)
    demand = problem.demand[[groups[PodClass.of(pod("x").gpus(n).build())] for n in (8, 4)]]
    assert demand.tolist() == pytest.approx([8 + 2, 2])


def test_turnover_counts_pods_that_start_and_end():
    snapshot = small_cluster()
    assert snapshot.history.turnover == Turnover()
    running = pod("p").gpus(8).on("h").build()
    snapshot = snapshot.with_pod(running)
    assert (snapshot.history.turnover.started, snapshot.history.turnover.ended_share) == (8.0, 0.0)
    assert snapshot.with_pod(pod("w").gpus(8).build()).history.turnover == snapshot.history.turnover
    # What changes on a pod that runs already neither starts nor ends.
    assert snapshot.with_changes(gone=(running,), come=(running,)).history.turnover == snapshot.history.turnover
    # Half-life is an eighth of 16 GPUs: 8 ended GPUs are 4 half-lives, 8 / 16 are left of what had started.
    emptied = snapshot.without_pod(running).history.turnover
    assert (emptied.started, emptied.ended) == (0.5, 8.0)
    assert emptied.ended_share == 1.0


def test_turnover_of_a_fresh_start_takes_what_runs_for_what_has_started():
    assert small_cluster(pod("p").gpus(8).on("h").build(), pod("w").gpus(8).build()).history.turnover == Turnover(8.0)
