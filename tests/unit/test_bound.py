"""The bound: against brute force on small clusters, on cases whose answer is plain, and what it says of prices."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import pytest

from extender.packing import bound, bound_problem
from extender.packing.resources import MAX_AMOUNT
from extender.packing.snapshot import Snapshot
from tests.builders import GI, GPU, H100, node, pod
from tests.oracle_bound import most_placed

LABEL = "nvidia.com/gpu.product"
T4 = "Tesla-T4"


def bound_of(nodes, waiting, running=(), **options):
    snapshot = Snapshot.of(nodes, running)
    return bound.solve(bound_problem.pose(snapshot, GPU, waiting), **options)


def draw_world(draw):
    """Return a few small nodes of two models with odd amounts of CPU and memory, and a few pods."""
    nodes = [
        node(f"n{i}")
        .label(LABEL, model)
        .resource("cpu", draw.choice((3_900, 8_000, 16_300)))
        .resource("memory", draw.choice((16, 40)) * GI)
        .gpus(draw.choice((1, 2, 4)), model)
        .build()
        for i, model in enumerate(draw.choices((H100, T4), k=draw.randint(1, 3)))
    ]
    pods = []
    for i in range(draw.randint(1, 5)):
        asked = pod(f"p{i}").gpus(draw.choice((1, 1, 2, 4, 0))).cpu(draw.choice((0.1, 1.3, 3.15, 4, 7.9)))
        asked = asked.memory(draw.choice((1, 12, 20)))
        pods.append((asked.select(LABEL, draw.choice((H100, T4))) if draw.random() < 0.3 else asked).build())
    return nodes, pods


@pytest.mark.parametrize("seed", range(120))
def test_no_placement_found_by_brute_force_beats_the_bound(seed):
    nodes, pods = draw_world(random.Random(seed))
    best = most_placed(Snapshot.of(nodes), sorted(pods, key=lambda p: p.gpu.count))
    for rounds in (1, 400):
        assert bound_of(nodes, pods, rounds=rounds).gpus >= best - 1e-6
    found = bound_of(nodes, pods, gap=1e-6)
    assert found.reached <= found.gpus + 1e-6
    assert found.gap == pytest.approx(0.0, abs=1e-5)


def test_pieces_too_small_for_a_pod_count_for_nothing():
    # Two nodes with 4 GPUs each, three pods of 3: one on each node, 2 GPUs strand.
    nodes = [node(f"n{i}").gpus(4, H100).build() for i in range(2)]
    assert bound_of(nodes, [pod(f"p{i}").gpus(3).build() for i in range(3)]).gpus == pytest.approx(6.0)


def test_what_runs_is_not_free():
    nodes = [node("n").gpus(8, H100).build()]
    running = [pod("r").gpus(5).on("n").build()]
    assert bound_of(nodes, [pod(f"p{i}").gpus(1).build() for i in range(9)], running).gpus == pytest.approx(3.0)


def test_pods_without_gpus_take_their_cpu_first():
    # 8 cores: 4 are for the pod without GPUs, so one pod of 3 cores is left of two, in fractions 4/3.
    nodes = [node("n").resource("cpu", 8_000).gpus(2, H100).build()]
    pods = [pod(f"p{i}").gpus(1).cpu(3).build() for i in range(2)]
    found = bound_of(nodes, [*pods, pod("web").cpu(4).build()], gap=1e-6)
    assert found.gpus == pytest.approx(4 / 3)


def test_the_scarce_kind_has_a_price_and_the_plentiful_one_none():
    nodes = [node("h").label(LABEL, H100).gpus(2, H100).build(), node("t").label(LABEL, T4).gpus(8, T4).build()]
    picky = [pod(f"w{i}").gpus(1).select(LABEL, H100).build() for i in range(5)]
    found = bound_of(nodes, [*picky, pod("e").gpus(1).build()], gap=1e-6)
    assert found.gpus == pytest.approx(3.0)
    assert sorted(found.price_of_kind.tolist()) == pytest.approx([0.0, 1.0])


def test_nothing_to_place_or_nowhere_to_place_it():
    assert bound_of([node("n").gpus(8, H100).build()], []).gpus == 0.0
    assert bound_of([node("n").build()], [pod("p").gpus(1).build()]).gpus == 0.0
    assert bound_of([node("n").gpus(2, H100).build()], [pod("p").gpus(4).build()]).gpus == 0.0


def test_patterns_of_an_earlier_answer_are_a_start():
    draw = random.Random(5)
    nodes = [node(f"n{i:02d}").gpus(8, H100).build() for i in range(20)]
    pods = [pod(f"p{i}").gpus(draw.choice((1, 2, 3, 5))).cpu(draw.choice((1, 7, 20))).build() for i in range(60)]
    first = bound_of(nodes, pods, gap=0.01)
    again = bound_of(nodes, pods, gap=0.01, start=first.columns, rounds=3)
    assert again.gpus == pytest.approx(first.gpus, abs=0.02)


def test_the_problem_is_plain_arrays():
    problem = bound_problem.pose(Snapshot.of([node("n").gpus(8, H100).build()]), GPU, [pod("p").gpus(1).build()])
    assert bound.solve(pickle.loads(pickle.dumps(problem))).gpus == bound.solve(problem).gpus


def test_rounding_free_cpu_up_weakens_the_bound_and_merges_states():
    nodes = [node(f"n{i}").resource("cpu", 8_000 + 250 * i).gpus(2, H100).build() for i in range(4)]
    pods = [pod(f"p{i}").gpus(1).cpu(4.2).build() for i in range(8)]
    exact, coarse = (bound_problem.pose(Snapshot.of(nodes), GPU, pods, step) for step in (1, 16))
    assert len(coarse.nodes) <= len(exact.nodes)
    assert bound.solve(coarse, gap=1e-6).gpus >= bound.solve(exact, gap=1e-6).gpus - 1e-6


def test_what_a_node_has_free_beyond_all_that_waits_changes_nothing():
    pods = [pod(f"p{i}").gpus(3).cpu(2).build() for i in range(2)]
    huge = node("n").resource("cpu", 2**62).resource("memory", 2**62).gpus(2**62, H100).build()
    assert bound_of([huge], pods, gap=1e-6).gpus == pytest.approx(6.0)


def test_tables_that_would_be_too_large_are_not_made():
    # As much free as waits, and not to be listed GPU by GPU: a node is valued as if its pods could be cut.
    nodes = [node(f"n{i}").gpus(2**40, H100).build() for i in range(3)]
    pods = [pod(f"p{i}").gpus(asked).build() for i, asked in enumerate((2**40, 2**39, 7))]
    assert bound_of(nodes, pods).gpus == pytest.approx(2**40 + 2**39 + 7)
    assert bound_of(nodes[:1], pods).gpus == pytest.approx(2**40)


@pytest.mark.parametrize("count", [1, 2])
def test_nodes_with_all_that_64_bits_can_say_hold_their_pods(count):
    full = node("n").resource("cpu", MAX_AMOUNT).resource("memory", MAX_AMOUNT).gpus(1, H100).build()
    nodes = [replace(full, name=f"n{i}") for i in range(count)]
    assert bound_of(nodes, [pod(f"p{i}").gpus(1).cpu(1).build() for i in range(4)]).gpus == pytest.approx(count)
