"""The benchmarks run, small, and the page says what the results say."""

import json

import numpy as np
import pytest

from benchmarks import openb, openb_quality, openb_tables, page, planner, quality, score_cost, workloads
from benchmarks.decisive import DecisiveScheduler
from benchmarks.shared_gpus import Devices, PublishedFgd
from extender.packing.gpu import GpuModel
from extender.packing.policies import REGISTRY
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo
from extender.simulate import KubeScheduler, PolicyExtender, SchedulerConfig, schedule_all


def test_the_page_is_what_the_results_make_it():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run `make docs`"


def test_planner_proves_small_queues(tmp_path):
    path = tmp_path / "planner.json"
    planner.main(["--small", "--output", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["scenario"] for row in rows] == [scenario.name for scenario in planner.SMALL]
    assert all(row["proven"] == row["seeds"] == 1 and row["gap_percent_max"] == 0 for row in rows)


def test_a_score_is_measured_beside_the_wire_for_each_policy_and_sort_of_class(tmp_path):
    path = tmp_path / "score_cost.json"
    score_cost.main(["--small", "--output", str(path)])
    rows = json.loads(path.read_text())["rows"]
    sorts = {(policy, sort) for policy in score_cost.POLICIES for sort in (score_cost.SEEN, score_cost.NEW)}
    assert {(row["policy"], row["pod_class"]) for row in rows} == sorts
    for row in rows:
        assert 0 < row["floor_p50"] <= row["floor_p99"]
        assert 0 < row["score_p50"] <= row["score_p99"]
        assert row["ratio"] == pytest.approx(row["score_p50"] / row["floor_p50"])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("quality") / "quality.json"
    policies = ["hole-aware", "first-fit", "fgd"]
    quality.main(["--small", "--workers", "1", "--output", str(path), "--policies", *policies])
    return {(r["kind"], r["scenario"], r["policy"]): r for r in json.loads(path.read_text())["rows"]}


@pytest.mark.slow
def test_quality_measures_every_policy_in_both_regimes(small):
    for scenario in ("typed", "untyped"):
        for policy in ("hole-aware", "first-fit", "fgd", quality.STOCK, quality.MOST_ALLOCATED):
            assert 0 <= small["saturation", scenario, policy]["unallocated_percent"]["median"] < 100
            assert small["churn", scenario, policy]["wait_all_seconds"]["median"] >= 0
        assert ("churn", scenario, quality.POOLED) in small


@pytest.mark.slow
def test_packing_beats_spreading_by_far(small):
    for scenario in ("typed", "untyped"):
        ours, stock = (
            small["saturation", scenario, p]["unallocated_percent"]["median"] for p in ("hole-aware", quality.STOCK)
        )
        assert ours < stock / 2


def test_pooled_nodes_hold_what_their_parts_held():
    nodes = workloads.nodes(workloads.shrunk(workloads.TYPED, 8))
    merged = quality.pooled(nodes)
    assert sum(n.allocatable.get("nvidia.com/gpu", 0) for n in merged) == sum(
        n.allocatable.get("nvidia.com/gpu", 0) for n in nodes
    )
    assert len(merged) == 6


def test_jobs_offer_the_load_they_are_asked_for():
    scenario = workloads.UNTYPED
    jobs = list(workloads.jobs(scenario, seed=3, load=0.9, count=2000))
    gpu_seconds = sum(job.duration_seconds * job.pod.gpu.count for job in jobs)
    assert gpu_seconds / jobs[-1].arrival_seconds / scenario.cluster.gpus == pytest.approx(0.9, rel=0.1)


# -- openb ---------------------------------------------------------------------------------------------------------

CHURNED = ("churn/multigpu50/planned/", "churn/multigpu50/pooled")


@pytest.fixture(scope="module")
def openb_small(tmp_path_factory):
    path = tmp_path_factory.mktemp("openb") / "openb.json"
    only = ["gpuspec33/planned/", "gpuspec33/hole-aware/", "gpuspec33/proven bound/", "shared GPUs/planned/", *CHURNED]
    openb_quality.main(["--small", "--workers", "1", "--output", str(path), "--only", *only])
    rows = json.loads(path.read_text())["rows"]
    return {(r["kind"], r["workload"], r["policy"]): r["seeds"]["5000"] for r in rows}


@pytest.mark.slow
def test_no_policy_beats_the_proven_bound(openb_small):
    for (kind, workload, policy), figures in openb_small.items():
        if (bound := openb_small.get((kind, workload, openb_tables.BOUND))) is not None:
            assert figures["unallocated_percent"] >= bound["unallocated_percent"] - 1e-3, policy


@pytest.mark.slow
def test_every_kind_of_run_has_its_figures(openb_small):
    assert {kind for kind, _, _ in openb_small} == set(openb_quality.KINDS)
    assert ("churn", "multigpu50", quality.POOLED) in openb_small
    assert 0 <= openb_small["saturation", "default, shared GPUs", "planned"]["unallocated_percent"] < 20


def test_a_weight_that_decides_leaves_nothing_to_the_neighbours():
    workload = openb.Trace(openb_quality.SAMPLE).workload("gpuspec33", cpu_only=True)
    pods = openb.arrivals(workload, seed=7)[:120]
    policy, config = PolicyExtender(REGISTRY["fgd"]()), SchedulerConfig(seed=7)
    ways = (KubeScheduler, DecisiveScheduler)
    whole, short = (schedule_all(way(Snapshot.of(workload.nodes), policy, config), pods) for way in ways)
    assert [p.node for p in whole] == [p.node for p in short]


def test_arrivals_ask_for_the_share_they_should():
    workload = openb.Trace(openb_quality.SAMPLE).workload("multigpu50")
    pods = openb.arrivals(workload, seed=3)
    assert 0 <= sum(p.gpu.count for p in pods) - workload.gpus < 8
    assert [p.requests for p in openb.arrivals(workload, seed=3)] == [p.requests for p in pods]


def test_pods_that_share_gpus_ask_for_thousandths():
    trace = openb.Trace(openb_quality.SAMPLE)
    shared, whole = trace.workload("default", shared=True), trace.workload("default")
    assert shared.gpus == 1000 * whole.gpus
    assert any(0 < shape.gpus < 1000 for shape in shared.shapes)
    assert all(shape.gpus for shape in whole.shapes)


def test_results_are_merged_by_seed():
    key = ("saturation", "default", "planned")
    rows = openb_tables.merged([], key, 1, {"unallocated_percent": 2.0})
    rows = openb_tables.merged(rows, ("saturation", "default", openb_tables.BOUND), 2, {"unallocated_percent": 0.5})
    for seed, value in ((2, 1.0), (1, 3.0)):
        rows = openb_tables.merged(rows, key, seed, {"unallocated_percent": value})
    assert {r["policy"]: r["seeds"] for r in rows}["planned"] == {
        "1": {"unallocated_percent": 3.0},
        "2": {"unallocated_percent": 1.0},
    }
    # Against the bound only over the seed that both have: 1.0 - 0.5.
    assert "| planned | 2.00 (1.00 .. 3.00) |  | 0.50 | 2 |" in openb_tables.render(rows)


def shared_node(name, gpus):
    amounts = {"cpu": 96_000, "memory": 2**40, "pods": 110, openb.GPU: gpus * openb.MILLI}
    return NodeInfo(name, {}, amounts, amounts, gpus={openb.GPU: GpuModel("G2")})


def test_a_pod_that_shares_needs_one_device_and_whole_ones_untouched_devices():
    devices = Devices.of(Snapshot.of([shared_node("n", 2)]).table)
    devices.take(0, 600)
    devices.take(0, 700)
    # 400 and 300 are left: 700 in the pool, and yet 500 fit on no device, nor does a whole GPU.
    assert sorted(devices.free[0].tolist()) == [300, 400]
    row = np.array([0])
    assert [len(devices.fit(asked, row)) for asked in (300, 400, 500, 1000)] == [1, 1, 0, 0]
    devices.take(0, 300)
    assert sorted(devices.free[0].tolist()) == [0, 400], "the fullest device that will do"


def test_published_fgd_scores_what_it_leaves_unusable():
    # Typical: whole GPUs. On "whole" 500 of 1000 become useless, F + 500; on "broken" 500 useless ones go, F - 500.
    nodes = (shared_node("broken", 1), shared_node("whole", 1))
    workload = openb.Workload(nodes, (openb.Shape(1000, 0, 0, ()),), openb.MILLI, by_device=True)
    snapshot = Snapshot.of(nodes)
    devices = Devices.of(snapshot.table)
    devices.take(0, 500)
    policy = PublishedFgd.of(workload, devices, snapshot.table)
    asked = openb.pod(1, openb.Shape(500, 0, 0, ()))
    # 100 / (1 + exp(-+ 0.5)) = 62.2 and 37.8
    assert policy.score(snapshot, asked, np.array([0, 1])).tolist() == [62.0, 37.0]
    assert policy.device_for(asked, 0) == 0
