"""The benchmarks with a real control plane run, small, and what they measure is plausible."""

import pytest

from benchmarks import planner_busy, scheduler_throughput, start_to_ready
from benchmarks.schedulerrun import FLOOR, NAMES, NODES, NONE, Bench, Variant

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PODS = 20


@pytest.fixture
def bench(plane, cluster):
    return Bench(plane, nodes=30)


def test_the_scheduler_is_timed_with_every_extender(bench):
    runs = {Variant(name): bench.run(Variant(name), PODS, seed=1) for name in (NONE, NAMES, NODES, FLOOR)}
    ours = runs[Variant(NAMES)]
    assert all(run.pods_per_second > 0 and run.cycle_ms > 0 for run in runs.values())
    assert ours.filter_ms > 0 < ours.prioritize_ms
    assert ours.handoff_hits == 1
    assert runs[Variant(NONE)].filter_ms == 0 == runs[Variant(FLOOR)].filter_ms
    # Spread over all nodes there is an end to whole ones soon.
    assert ours.opened < runs[Variant(NONE)].opened
    assert ours.whole > runs[Variant(NONE)].whole
    rows = list(scheduler_throughput.summarise(scheduler_throughput.Size(30, PODS, PODS), [runs]))
    assert [row["ratio"] for row in rows if row["variant"] == NONE] == [1.0]
    assert all(f"| 30 | {name} |" in scheduler_throughput.table(rows) for name in (NONE, NAMES, NODES, FLOOR))


def test_the_start_is_told_apart_from_the_bare_lists(plane, cluster):
    bench = start_to_ready.Bench(plane, 20, 600)
    round_ = bench.download(), bench.start()
    bare, start = round_
    # 20 nodes of 15 KB and 600 pods of 7 KB, in two pages.
    assert 4 < bare.megabytes < 6
    assert 0 < start.listening < start.ready
    assert 30 < start.megabytes <= start.most_megabytes
    row = start_to_ready.summarise(20, 600, [round_])
    assert row["ours_seconds"] == pytest.approx(start.ready - bare.seconds, abs=0.01)
    assert "| memory once ready |" in start_to_ready.table(row)


def test_calls_are_timed_while_the_child_solves_and_while_it_does_not(plane, cluster):
    rows = list(planner_busy.measure(plane, planner_busy.Size(nodes=200, waiting=30, calls=40, groups=1)))
    expected = [(pace, verb) for pace in planner_busy.PERIODS for verb in planner_busy.VERBS]
    assert [(row["planner"], row["verb"]) for row in rows] == expected
    for row in rows:
        assert row["calls"] == 80
        assert 0 < row["idle_p50"] <= row["idle_p99"]
        assert 0 < row["busy_p50"] <= row["busy_p99"]
        # It has been busy, and only when it was let.
        assert row["quotas"] + row["plans"] > 0 < row["solver_cpu_share"]
        assert row["solved_while_idle"] == 0
    assert "| 200 | as shipped | prioritize |" in planner_busy.table(rows)
