"""The benchmarks run, small, and the page says what the results say."""

import json

import pytest

from benchmarks import page, planner, quality, workloads


def test_the_page_is_what_the_results_make_it():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run `make docs`"


def test_planner_proves_small_queues(tmp_path):
    path = tmp_path / "planner.json"
    planner.main(["--small", "--output", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["scenario"] for row in rows] == [scenario.name for scenario in planner.SMALL]
    assert all(row["proven"] == row["seeds"] == 1 and row["gap_percent_max"] == 0 for row in rows)


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
