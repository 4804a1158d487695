"""Quotas: what they say, how pods use them up, and the turnover that switches them off."""

import pickle

import numpy as np
import pytest

from extender.packing import quota_problem, quotas
from extender.packing.framework import best_row
from extender.packing.guidance import Guidance
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass, Turnover
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
    return quota_problem.quotas_of(NodeKinds.of(snapshot.table, GPU), groups, wanted)


def on(snapshot, of_resource, name, asked):
    """Return the GPUs left to a pod's group on the kind of a node."""
    kind = NodeKinds.of(snapshot.table, GPU).of_row[snapshot.table.index[name]]
    return of_resource.left(PodClass.of(asked))[kind]


def test_what_only_one_model_can_take_is_left_to_who_must_have_it():
    # 16 free GPUs; 8 wanted on H100 alone, 8 anywhere: all of them fit only if the latter take T4.
    picky = [pod(f"w{i}").gpus(1).select(LABEL, H100).build() for i in range(8)]
    easy = [pod(f"e{i}").gpus(1).build() for i in range(8)]
    snapshot = small_cluster(*picky, *easy)
    wanted = solved(snapshot)
    assert (on(snapshot, wanted, "h", picky[0]), on(snapshot, wanted, "h", easy[0])) == pytest.approx((8.0, 0.0))
    assert on(snapshot, wanted, "t", easy[0]) == pytest.approx(8.0)


def test_pods_that_start_use_quotas_up():
    waiting = pod("p").gpus(2).build()
    snapshot = small_cluster(waiting, pod("q").gpus(2).build())
    snapshot = snapshot.with_guidance(Guidance({GPU: solved(snapshot)}))
    before = snapshot.guidance.quotas[GPU]
    after = snapshot.without_pod(waiting).with_pod(pod("p").gpus(2).on("h").build())
    taken = on(snapshot, before, "h", waiting) - on(after, after.guidance.quotas[GPU], "h", waiting)
    assert taken == pytest.approx(min(2.0, on(snapshot, before, "h", waiting)))
    # What changes on a pod that runs already uses nothing up.
    again = after.with_changes(gone=(pod("p").gpus(2).on("h").build(),), come=(pod("p").gpus(2).on("h").build(),))
    assert again.guidance.quotas[GPU].taken == after.guidance.quotas[GPU].taken


def test_the_node_of_the_joint_plan_comes_first():
    waiting = pod("p").gpus(1).build()
    for name in ("h", "t"):
        snapshot = small_cluster(waiting).with_guidance(Guidance(nodes={waiting.uid: name}))
        assert snapshot.table.names[best_row(Planned(), snapshot, waiting, np.arange(2))] == name


def test_guidance_outlives_an_added_node_of_a_known_kind_and_not_an_unknown_one():
    snapshot = small_cluster(pod("p").gpus(1).build())
    wanted = solved(snapshot)
    like = snapshot.with_node(node("h2").label(LABEL, H100).gpus(8, H100).build())
    assert wanted.fits(NodeKinds.of(like.table, GPU))
    unlike = snapshot.with_node(node("x").gpus(4, "L4").build())
    assert not wanted.fits(NodeKinds.of(unlike.table, GPU))


def test_the_problem_is_plain_arrays():
    problem, _ = quota_problem.pose(small_cluster(pod("p").gpus(2).cpu(16).build()), GPU)
    again = pickle.loads(pickle.dumps(problem))
    assert np.array_equal(quotas.solve(again), quotas.solve(problem))


def test_demand_is_what_waits_and_the_mix_for_the_rest():
    # 16 GPUs, 4 held: 12 free. One pod of 8 waits: 8. The other 4 as the mix: 8 of 12 GPUs in pods of 8, 4 of 12 in 4.
    snapshot = small_cluster(pod("p").gpus(8).build(), pod("r").gpus(4).on("h").build())
    problem, groups = quota_problem.pose(snapshot, GPU)
    demand = problem.demand[[groups[PodClass.of(pod("x").gpus(n).build())] for n in (8, 4)]]
    assert demand.tolist() == pytest.approx([8 + 4 * 8 / 12, 4 * 4 / 12])


def test_turnover_counts_pods_that_start_and_end():
    snapshot = small_cluster()
    assert snapshot.turnover == Turnover()
    running = pod("p").gpus(8).on("h").build()
    snapshot = snapshot.with_pod(running)
    assert (snapshot.turnover.started, snapshot.turnover.ended_share) == (8.0, 0.0)
    assert snapshot.with_pod(pod("w").gpus(8).build()).turnover == snapshot.turnover
    # Half-life is an eighth of 16 GPUs: 8 ended GPUs are 4 half-lives, 8 / 16 are left of what had started.
    emptied = snapshot.without_pod(running).turnover
    assert (emptied.started, emptied.ended) == (0.5, 8.0)
    assert emptied.ended_share == 1.0


def test_turnover_of_a_fresh_start_takes_what_runs_for_what_has_started():
    assert small_cluster(pod("p").gpus(8).on("h").build(), pod("w").gpus(8).build()).turnover == Turnover(8.0)
