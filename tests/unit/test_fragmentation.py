"""The measure for operators, by hand. GPUs in whole numbers; `free` is what open nodes have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from extender.packing.fragmentation import SizeFragmentation, measure, stranded_by_size, typical_per_gpu
from extender.packing.snapshot import Snapshot
from tests.builders import GI, GPU, node, pod
from tests.strategies import snapshot_of, worlds


def only(nodes, pods=()):
    """Return the single measured model."""
    (found,) = measure(Snapshot.of(nodes, pods))
    return found


def by_size(found):
    return {s.size: (s.placeable_pods, s.stranded_gpus) for s in found.sizes}


def test_placeable_and_stranded_by_size():
    nodes = [node("h1").gpus(8, "H100").build(), node("h2").gpus(8, "H100").build()]
    found = only(nodes, [pod("p1").gpus(3).on("h1").build(), pod("p2").gpus(1).on("h2").build()])
    # free 5 and 7. pods of 2: 2 + 3; of 4: 1 + 1; of 8: none, all 12 stranded
    assert by_size(found) == {1: (12, 0), 2: (5, 0), 4: (2, 0), 8: (0, 12), 16: (0, 12), 3: (3, 0)}
    assert [s.size for s in found.sizes] == [1, 2, 3, 4, 8, 16]
    assert (found.allocated, found.free, found.largest_placeable) == (4, 12, 7)


def test_stranded_over_all_models():
    nodes = [
        node("h").gpus(8, "H100").build(),
        node("t").gpus(4, "T4").build(),
        node("shared").gpus(2, "T4-SHARED", exclusive=False, whole=False).build(),
        node("closed").gpus(1, "T4").cordoned().build(),
    ]
    # free 7 and 4
    snapshot = Snapshot.of(nodes, [pod("p").gpus(1).on("h").build()])
    assert stranded_by_size(snapshot, GPU, (2, 4, 5, 8)) == {2: 0, 4: 0, 5: 4, 8: 11}
    assert stranded_by_size(Snapshot.of([]), GPU, (2,)) == {2: 0}


def test_free_gpus_of_closed_nodes_are_unschedulable():
    nodes = [
        node("open").gpus(4).resource(GPU, 4, withdrawn=4).build(),
        node("cordoned").gpus(8).cordoned().build(),
        node("unready").gpus(2).unready().build(),
    ]
    found = only(nodes, [pod("p").gpus(3).on("cordoned").build()])
    # open 4 of 8 built, cordoned 8 - 3, unready 2
    assert (found.allocated, found.free, found.unschedulable, found.withdrawn) == (3, 4, 5 + 2, 4)
    assert found.capacity == 8 + 8 + 2
    assert found.largest_placeable == 4
    assert by_size(found)[8] == (0, 4)


@pytest.mark.parametrize(
    ("allocatable", "withdrawn", "held", "states"),
    [
        # (allocated, free, withdrawn, overcommitted)
        (3, 1, 4, (3, 0, 1, 1)),
        (0, 8, 8, (0, 0, 8, 8)),
        (8, 0, 8, (8, 0, 0, 0)),
        (0, 0, 2, (0, 0, 0, 2)),
    ],
)
def test_overcommit_is_counted_beside_the_states(allocatable, withdrawn, held, states):
    info = node("x").gpus(allocatable).resource(GPU, allocatable, withdrawn=withdrawn).build()
    found = only([info], [pod("u").gpus(held).on("x").build()])
    assert (found.allocated, found.free, found.withdrawn, found.overcommitted) == states
    assert found.capacity == allocatable + withdrawn
    assert found.expected_ratio is None


def test_a_missing_capacity_is_no_negative_withdrawal():
    found = only([replace(node("n").gpus(8).build(), capacity={})])
    assert (found.capacity, found.withdrawn, found.free) == (8, 0, 8)


def test_what_is_no_whole_gpu_is_left_out():
    nodes = [
        node("shared").gpus(8, "A100-SHARED", exclusive=False, whole=False).build(),
        node("mig").gpus(7, "A100", resource="nvidia.com/mig-1g.5gb", whole=False).build(),
        node("empty").gpus(0, "A100-MIG-INVALID").build(),
        node("cpu").build(),
    ]
    assert measure(Snapshot.of(nodes)) == ()
    assert measure(Snapshot.of([])) == ()


def test_one_line_per_resource_and_model():
    nodes = [
        node("n1").gpus(8, "T4", cuda=(11, 0)).build(),
        node("n2").gpus(4, "T4", cuda=(12, 0)).build(),
        node("n3").gpus(2).build(),
        node("n4").gpus(1, "A100").gpus(4, "MI300X", resource="amd.com/gpu").build(),
    ]
    found = [(f.resource, f.model, f.free) for f in measure(Snapshot.of(nodes))]
    assert found == [("amd.com/gpu", "MI300X", 4), (GPU, None, 2), (GPU, "A100", 1), (GPU, "T4", 12)]


def test_sizes_of_the_mix_are_listed_when_a_node_could_have_them():
    found = only([node("n").gpus(8).build()], [pod("a").gpus(3).build(), pod("b").gpus(12).build()])
    assert [s.size for s in found.sizes] == [1, 2, 3, 4, 8, 16]


def test_gpus_starved_of_cpu_or_memory():
    nodes = [
        node("cpu-poor").gpus(8).resource("cpu", 30_000).build(),
        node("memory-poor").gpus(4).resource("memory", 40 * GI).build(),
        node("rich").gpus(4).build(),
        node("closed").gpus(8).resource("cpu", 0).cordoned().build(),
    ]
    waiting = [pod(f"p{i}").gpus(2).cpu(20).memory(64).build() for i in range(3)]
    # typical 10 cores and 32 GiB a GPU. cpu-poor: 30 / 10 = 3 of 8 fed; memory-poor: 40 / 32 = 1 of 4
    assert only(nodes, waiting).starved == 5 + 3
    assert only(nodes).starved == 0


def test_typical_is_the_median_over_gpus():
    asked = [pod("big").gpus(8).cpu(96).build(), *(pod(f"p{i}").gpus(1).cpu(4).memory(8).build() for i in range(7))]
    # 8 GPUs at 12 cores against 7 at 4: half of the 15 is reached only with the 12s; memory: 8 at 0
    assert typical_per_gpu(Snapshot.of([], asked).mix, GPU) == (12_000, 0)
    assert typical_per_gpu(Snapshot.of([], asked[1:]).mix, GPU) == (4_000, 8 * GI)
    assert typical_per_gpu(Snapshot.of([]).mix, GPU) == (0, 0)


def test_expected_fragmentation_and_its_ratio():
    nodes = [node("n1").gpus(8).build(), node("n2").gpus(8).build(), node("n3").gpus(8).cordoned().build()]
    pods = [pod("r").gpus(6).cpu(6).on("n1").build(), pod("w").gpus(2).cpu(2).build()]
    # mix: 6 and 2 of 8 GPUs. n1 has 2 free: P = 2/8, F = 2 x 6/8; n2 has 8: P = 1, F = 0; n3 is closed
    found = only(nodes, pods)
    assert found.expected == 1.5
    assert found.expected_ratio == 1.5 / 10


@given(worlds())
def test_states_add_up_and_nothing_is_absurd(world):
    for found in measure(snapshot_of(world)):
        rows = [n for n in world.nodes if (m := n.gpus.get(found.resource)) and m.whole and m.label == found.model]
        assert found.capacity == sum(max(n.capacity[found.resource], n.allocatable[found.resource]) for n in rows)
        assert min(found.allocated, found.free, found.unschedulable, found.withdrawn, found.overcommitted) >= 0
        assert 0 <= found.starved <= found.free
        assert 0 <= found.expected <= found.free
        assert found.sizes[0] == SizeFragmentation(1, found.free, 0)
        assert (found.expected_ratio is None) == (found.free == 0)
