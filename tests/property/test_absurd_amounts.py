"""Amounts up to the ends of 64 bits: nothing wraps, nothing raises, and Filter stays right.

The oracle counts in Python's integers, which have no end.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache import Cache
from extender.gauges import NodeCollector, StateCollector, gpu_states
from extender.ledger import Booking, Ledger, with_booked
from extender.packing import bound, bound_problem
from extender.packing.fit import filter_nodes, fitting
from extender.packing.framework import MAX_SCORE, run_score
from extender.packing.gpu import GpuModel, GpuRequest
from extender.packing.greedy import greedy
from extender.packing.planner import Limits, plan
from extender.packing.policies import REGISTRY
from extender.packing.problem import PackingProblem
from extender.packing.resources import MAX_AMOUNT, minus, plus, times, total
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, Phase, PodInfo
from extender.reports import fit_report, gpus_report
from extender.simulate import KubeScheduler, PolicyExtender, SchedulerConfig
from extender.simulation_report import simulation_report
from tests.oracle import World, judge
from tests.oracle_bound import most_placed
from tests.strategies import AMD, NVIDIA, TOLERANT

AMOUNTS = st.sampled_from((0, 1, 2, 8, 2**31, 2**53, 2**62 - 1, 2**62, 2**63 - 8, MAX_AMOUNT)) | st.integers(
    0, MAX_AMOUNT
)
NAMES = ("a", "b", "c", "d")
RESOURCES = ("cpu", "memory", NVIDIA, AMD)


@st.composite
def nodes(draw, name):
    amounts = {resource: draw(AMOUNTS) for resource in RESOURCES}
    model = GpuModel(draw(st.sampled_from(("H100", "T4", None))))
    capacity = amounts if draw(st.booleans()) else {NVIDIA: draw(AMOUNTS)}
    is_open = draw(st.booleans())
    return NodeInfo(name, {}, {**amounts, "pods": 110}, capacity, (), not is_open, gpus={NVIDIA: model, AMD: model})


@st.composite
def pods(draw, uid, where):
    requests = {resource: draw(AMOUNTS) for resource in RESOURCES}
    gpu = GpuRequest(NVIDIA, requests[NVIDIA], whole=True) if requests[NVIDIA] else GpuRequest()
    at = draw(st.sampled_from(where))
    held = bool(at) and draw(st.booleans())
    return PodInfo(
        uid, "ml", uid, requests, gpu, TOLERANT, phase=Phase.RUNNING if held else Phase.PENDING,
        node_name=at if held else "", nominated_node="" if held else at, priority=draw(st.integers(0, 1)),
    )  # fmt: skip


@st.composite
def worlds(draw):
    found = [draw(nodes(name)) for name in NAMES[: draw(st.integers(1, len(NAMES)))]]
    where = ("", *(node.name for node in found))
    return World(found, [draw(pods(f"u{at}", where)) for at in range(draw(st.integers(0, 6)))])


def snapshot_of(world):
    """Lay a world out; what is nominated is booked as well."""
    snapshot = Snapshot.of(world.nodes, world.pods)
    lines = {p.uid: Booking(p, p.nominated_node, 0.0) for p in world.pods if p.nominated_node}
    return with_booked(snapshot, Ledger(lines).booked(snapshot.table))


ASKED = pods("asked", ("",))


@given(world=worlds(), asked=ASKED)
def test_filter_judges_as_the_oracle_does(world, asked):
    snapshot = snapshot_of(world)
    verdicts = filter_nodes(snapshot, asked)
    found = [(verdicts.reason(row).text, bool(never)) for row, never in enumerate(verdicts.never)]
    expected = [judge(world, asked, node) for node in snapshot.table.nodes]
    assert found == [(judgement.text, judgement.never) for judgement in expected]
    assert fitting(snapshot, asked, np.arange(len(snapshot))).tolist() == verdicts.fits.tolist()


@given(world=worlds(), asked=ASKED)
def test_every_policy_scores(world, asked):
    snapshot = snapshot_of(world)
    again = snapshot_of(World(world.nodes[::-1], world.pods[::-1]))
    rows = np.arange(len(snapshot))
    for name, make in REGISTRY.items():
        utilities = make().score(snapshot, asked, rows)
        assert np.isfinite(utilities).all(), name
        assert utilities.tolist() == make().score(again, asked, rows).tolist(), name
        scores = run_score(make(), snapshot, asked, rows)
        assert scores.min() >= 0, name
        assert scores.tolist().count(MAX_SCORE) == 1, name


@given(world=worlds())
def test_gauges_and_report_are_never_negative_and_add_up(world):
    cache = Cache(tentative_seconds=10, clock=lambda: 5.0)
    cache.relist(world.nodes, world.pods)
    for collector in (StateCollector(lambda: cache.view, lambda: 7.0), NodeCollector(lambda: cache.view)):
        for family in collector.collect():
            assert all(sample.value >= 0 and math.isfinite(sample.value) for sample in family.samples), family.name
    report = gpus_report(cache.snapshot)
    for row in report["nodes"]:
        assert row["capacity"] == row["used"] + row["free"] + row["withdrawn"] - row["overcommitted"]
        assert min(row[key] for key in ("capacity", "used", "free", "withdrawn", "overcommitted")) >= 0
    built = sum(row["capacity"] for row in report["nodes"])
    assert sum(amount for _, amount in gpu_states(cache.snapshot, whole=True)) == built


@given(world=worlds(), arrivals=st.lists(ASKED, max_size=3))
def test_reports_and_simulation_go_through(world, arrivals):
    snapshot = Snapshot.of(world.nodes, world.pods)
    fit_report(snapshot, [*world.pods, *arrivals])
    scheduler = KubeScheduler(snapshot, PolicyExtender(REGISTRY["hole-aware"]()), SchedulerConfig())
    report = simulation_report(scheduler, arrivals, [])
    assert report["summary"]["free_gpus"] >= 0
    for pod in list(scheduler.snapshot.pods[0]):
        scheduler.remove(pod)


@given(world=worlds(), arrivals=st.lists(ASKED, max_size=4))
def test_plans_keep_to_what_is_free_and_bounds_are_bounds(world, arrivals):
    waiting = {p.uid: p for p in (*world.pods, *arrivals) if not p.node_name}
    problem = PackingProblem.of(Snapshot.of(world.nodes, [*world.pods, *arrivals]), waiting.values())
    assert problem.feasible(greedy(problem))
    found = plan(problem, Limits(deterministic_seconds=0.05))
    assert 0 <= found.objective <= found.bound
    assert all(each.value <= each.bound for each in found.reached if each.level.counts_pods)
    placed = {uid: there.node for uid, there in found.placements.items() if there.node}
    for node in world.nodes:
        here = [waiting[uid] for uid, name in placed.items() if name == node.name]
        held = [p for p in world.pods if p.node_name == node.name]
        for resource in RESOURCES:
            asked = sum(p.requests.get(resource, 0) for p in here)
            free = node.allocatable.get(resource, 0) - sum(p.requests.get(resource, 0) for p in held)
            assert asked == 0 or asked <= free, resource


@given(world=worlds(), arrivals=st.lists(ASKED.filter(lambda pod: pod.gpu.count > 0), max_size=3))
def test_no_placement_uses_more_than_the_proven_bound(world, arrivals):
    # The bound is about nodes that are open; the pods of this file tolerate others, too.
    snapshot = Snapshot.of([replace(node, unschedulable=False) for node in world.nodes], world.pods)
    found = bound.solve(bound_problem.pose(snapshot, NVIDIA, arrivals))
    assert most_placed(snapshot, arrivals) <= found.gpus * (1 + 1e-9) + 1e-6
    asked, free = sum(pod.gpu.count for pod in arrivals), total(snapshot.free_of(NVIDIA))
    assert found.gpus <= min(asked, free) * (1 + 1e-9) + 1e-6
    assert np.isfinite(found.price_of_kind).all()
    assert found.price_of_kind.min(initial=0.0) >= 0
    assert math.isfinite(found.gap)


INT64 = st.integers(-(2**63), 2**63 - 1)
VECTORS = st.lists(st.tuples(INT64, AMOUNTS, AMOUNTS), min_size=1, max_size=5)


@given(rows=VECTORS)
def test_sums_stay_at_the_ends_and_totals_are_exact(rows):
    signed, amounts, others = np.array(rows, dtype=np.int64).T
    assert plus(amounts, others).tolist() == [min(MAX_AMOUNT, a + o) for _, a, o in rows]
    assert minus(signed, others).tolist() == [max(-(2**63), s - o) for s, _, o in rows]
    assert total(signed) == sum(s for s, _, _ in rows)


@given(amounts=st.lists(AMOUNTS, min_size=1, max_size=5), count=st.integers(0, 6000))
def test_products_stay_within_64_bits(amounts, count):
    found = times(np.array(amounts, dtype=np.int64), np.array([count])).tolist()
    assert all(got == amount * count if amount * count <= MAX_AMOUNT else got > MAX_AMOUNT - count
               for got, amount in zip(found, amounts, strict=True))  # fmt: skip


@pytest.mark.parametrize("asked", [2**62, MAX_AMOUNT])
def test_a_full_node_stays_full_however_much_nominated_pods_ask_for(asked):
    held = GpuRequest(NVIDIA, asked, whole=True)
    rivals = [PodInfo(f"r{at}", "ml", f"r{at}", {NVIDIA: asked}, held, nominated_node="n") for at in range(4)]
    node = NodeInfo("n", {}, {"pods": 110, NVIDIA: 8}, {}, gpus={NVIDIA: GpuModel(None)})
    pod = PodInfo("p", "ml", "p", {NVIDIA: 1}, GpuRequest(NVIDIA, 1, whole=True))
    for count in range(1, len(rivals) + 1):
        verdicts = filter_nodes(Snapshot.of([node], rivals[:count]), pod)
        assert verdicts.reason(0).text == f"Insufficient {NVIDIA}"
