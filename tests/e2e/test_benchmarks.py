"""The benchmarks with a real control plane run, small, and what they measure is plausible."""

import pytest

from benchmarks import scheduler_throughput
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
