"""The share of the demand mix that could run on a node, by hand. Each mix is a list of waiting pods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.packing.expected import MAX_EDGES, FitShare, Weight
from extender.packing.kinds import NodeKinds
from extender.packing.snapshot import Snapshot
from tests.builders import GI, GPU, node, pod, term

A100 = node("a").gpus(8, "A100").label("model", "A100").build()
T4 = node("t").gpus(4, "T4").label("model", "T4").build()
BARE = node("bare").build()

# GPUs asked for: 2 + 4 + 2 x 1 = 8
MIX = [
    pod("pair").gpus(2).cpu(16).memory(64).build(),
    pod("quad").gpus(4).cpu(32).memory(64).build(),
    pod("one").gpus(1).cpu(4).memory(128).build(),
    pod("other").gpus(1).cpu(4).memory(128).build(),
]


def fit_share(nodes, pods, weight=Weight.GPUS):
    return FitShare.of(Snapshot.of(nodes, pods), GPU, weight)


def share(found, row, gpus, cpu=1000, memory=1000):
    """Return P for a row with so many GPUs, cores and GiB free."""
    return float(found.share(found.kind_of_row[row], gpus, cpu * 1000, memory * GI))


@pytest.mark.parametrize(
    ("gpus", "cpu", "memory", "expected"),
    [
        (8, 96, 1000, 8 / 8),
        (3, 96, 1000, 4 / 8),  # without the quad
        (1, 96, 1000, 2 / 8),  # the two ones
        (0, 96, 1000, 0.0),
        (8, 16, 1000, 4 / 8),  # 16 cores: the pair and the ones
        (8, 15, 1000, 2 / 8),
        (8, 3, 1000, 0.0),
        (8, 96, 127, 6 / 8),  # 127 GiB: not the ones
        (8, 96, 0, 0.0),
        # 16 cores let in pair and ones (4), 64 GiB pair and quad (6): truly 2, never more than the smaller one
        (8, 16, 64, 4 / 8),
        (99, 9999, 9999, 8 / 8),
        (-1, 96, 1000, 0.0),
        (8, -1, 1000, 0.0),
    ],
)
def test_share_weighted_by_gpus(gpus, cpu, memory, expected):
    assert share(fit_share([A100], MIX), 0, gpus, cpu, memory) == expected


def test_share_weighted_by_pods():
    found = fit_share([A100], MIX, Weight.PODS)
    # of 4 pods: 3 ask for at most 2 GPUs, 2 for at most one
    assert [share(found, 0, gpus) for gpus in (8, 2, 1)] == [4 / 4, 3 / 4, 2 / 4]


def test_expected_fragmentation_is_what_the_mix_cannot_use():
    found = fit_share([A100], MIX)
    gpus = np.array([8, 3, 1, 0])
    cpu, memory = np.full(4, 96_000), np.full(4, 1000 * GI)
    # g (1 - P): 8 x 0, 3 x 4/8, 1 x 6/8, 0
    assert found.expected_fragmentation(np.zeros(4, dtype=np.intp), gpus, cpu, memory).tolist() == [0, 1.5, 0.75, 0]


def test_pods_count_only_on_the_kinds_that_admit_them():
    typed = pod("typed").gpus(2).cpu(1).require(term("model", "In", "A100")).build()
    wishing = pod("wishing").gpus(1).cpu(1).types("T4").build()
    free = pod("free").gpus(1).cpu(1).build()
    found = fit_share([A100, T4, BARE], [typed, wishing, free])
    rows = {name: row for row, name in enumerate(["a", "bare", "t"])}
    # 4 GPUs in all; on A100 the typed and the free one, on T4 the wishing and the free one
    assert share(found, rows["a"], 4) == 3 / 4
    assert share(found, rows["t"], 4) == 2 / 4
    assert found.kind_of_row[rows["bare"]] == -1
    assert share(found, rows["bare"], 4) == 0.0
    assert found.expected_fragmentation(np.array([rows["bare"]]), np.array([4]), np.array([1]), np.array([1])) == [0]


def test_other_pods_have_no_part():
    others = [
        pod("cpu").cpu(64).build(),
        pod("slice").gpus(1, "nvidia.com/mig-1g.5gb", whole=False).build(),
        pod("amd").gpus(8, "amd.com/gpu").build(),
    ]
    assert share(fit_share([A100], [*MIX, *others]), 0, 3) == 4 / 8


def test_a_pod_larger_than_any_node_weighs_as_much_as_the_largest():
    absurd = pod("absurd").gpus(10**15).cpu(1).build()
    # 8 for the mix and 8 for the pod that fits nowhere
    assert share(fit_share([A100], [*MIX, absurd]), 0, 8) == 8 / 16


@pytest.mark.parametrize(
    "pods", [[], [pod("lost").gpus(1).select("model", "none").build()]], ids=["no pods", "no pod fits"]
)
def test_without_a_usable_mix_sizes_are_equally_likely(pods):
    found = fit_share([A100, T4], pods)
    # sizes 1, 2, 4, 8: a quarter each, whatever the CPU
    assert [share(found, 0, gpus, cpu=0, memory=0) for gpus in range(9)] == [
        0.0, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75, 0.75, 1.0,
    ]  # fmt: skip
    assert share(found, 1, 4) == 0.75


def test_the_prior_ends_at_the_largest_node():
    found = fit_share([node("n").gpus(6).build()], [])
    # sizes 1, 2, 4, 6
    assert [share(found, 0, gpus) for gpus in (3, 5, 6)] == [0.5, 0.75, 1.0]


def test_kinds_are_model_and_shape_when_empty():
    nodes = [
        node("n1").gpus(8, "A100").build(),
        node("n2").gpus(8, "A100").resource("memory", 1000 * GI + 4096).build(),  # the same to a page
        node("n3").gpus(8, "A100").resource("memory", 500 * GI).build(),
        node("n4").gpus(8, "H100").build(),
        node("n5").gpus(4, "A100").build(),
        node("n6").gpus(8, "A100", exclusive=False, whole=False).build(),
        node("n7").build(),
        node("n8").gpus(8, "A100").resource("memory", 998 * GI - 1).build(),  # the same to two GiB
    ]
    kinds = NodeKinds.of(Snapshot.of(nodes).table, GPU)
    of_row = kinds.of_row.tolist()
    assert of_row[0] == of_row[1] == of_row[7]
    assert len({of_row[i] for i in (0, 2, 3, 4)}) == 4 == len(kinds)
    assert of_row[5:7] == [-1, -1]
    assert kinds.memory_bytes[of_row[0]] == 1000 * GI + 4096
    assert (kinds.gpus[of_row[4]], kinds.cpu_milli[of_row[4]], kinds.largest) == (4, 96_000, 8)


def test_no_nodes_or_an_unknown_resource_are_no_trouble():
    for found in (fit_share([], MIX), fit_share([BARE], MIX), FitShare.of(Snapshot.of([A100], MIX), "amd.com/gpu")):
        assert found.share(-1, 8, 1000, 1000) == 0.0


def test_more_requests_than_edges_round_up_and_never_count_what_does_not_fit():
    count = 3 * MAX_EDGES
    # primes spread the requests, so that no table of equal steps is small enough
    pods = [pod(f"p{i}").gpus(1).resource("cpu", 1000 + 7919 * i).build() for i in range(count)]
    found = fit_share([node("n").gpus(8).resource("cpu", 10**9).build()], pods)
    for reach in range(0, count, 5):
        exact = (reach + 1) / count
        counted = float(found.share(0, 8, 1000 + 7919 * reach, 0))
        # each of the 64 edges stands for 3 or 4 requests, so at most 3 are missed
        assert exact - 3.01 / count <= counted <= exact
    assert float(found.share(0, 8, 10**9, 0)) == 1.0


def test_one_snapshot_builds_it_once():
    snapshot = Snapshot.of([A100], MIX)
    assert FitShare.of(snapshot, GPU) is FitShare.of(snapshot, GPU)
    assert FitShare.of(snapshot, GPU) is not FitShare.of(snapshot.with_pod(pod("new").gpus(1).build()), GPU)


AMOUNTS = st.tuples(st.integers(1, 8), st.integers(0, 12), st.integers(0, 12))


@given(st.lists(AMOUNTS, min_size=1, max_size=12), AMOUNTS)
def test_the_estimate_lies_between_the_truth_and_either_resource_alone(asked, free):
    pods = [pod(f"p{i}").gpus(n).cpu(c).memory(m).build() for i, (n, c, m) in enumerate(asked)]
    found = share(fit_share([A100], pods), 0, *free)
    total = sum(n for n, _, _ in asked)
    truth = sum(n for n, c, m in asked if n <= free[0] and c <= free[1] and m <= free[2]) / total
    by_cpu = sum(n for n, c, _ in asked if n <= free[0] and c <= free[1]) / total
    by_memory = sum(n for n, _, m in asked if n <= free[0] and m <= free[2]) / total
    assert truth <= found == min(by_cpu, by_memory)


@pytest.mark.parametrize("amounts", [12, 2 * MAX_EDGES], ids=["few amounts", "more amounts than edges"])
def test_a_share_that_follows_pods_one_by_one_is_the_one_of_all_of_them(amounts):
    random, grid = np.random.default_rng(1), np.meshgrid([0, 1], [0, 1, 2, 8, 9], range(0, 400_000, 999), [0, 8 * GI])
    there = {at: pod(f"w{at}").gpus(1).cpu(3 * at + 1).memory(8).build() for at in range(amounts)}
    snapshot = Snapshot.of([A100, T4], there.values())
    FitShare.of(snapshot, GPU)
    for step in range(60):
        at = int(random.integers(amounts))
        if at in there:
            snapshot = snapshot.without_pod(there.pop(at))
        else:
            gpus, memory = int(random.choice((1, 2, 8, 16))), int(random.choice((7, 8, 40)))
            made = pod(f"p{step}").gpus(gpus).cpu(3 * int(random.integers(amounts)) + 1).memory(memory)
            there[at] = (made.select("model", "T4") if random.random() < 0.3 else made).build()
            snapshot = snapshot.with_pod(there[at])
        found, anew = FitShare.of(snapshot, GPU), fit_share([A100, T4], there.values())
        assert found.total == anew.total
        assert (found.share(*grid) == anew.share(*grid)).all()
