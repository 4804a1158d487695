"""The terms of the default policy, one by one."""

from dataclasses import replace

import numpy as np
import pytest

from extender.packing.framework import best_row
from extender.packing.history import History
from extender.packing.mix import Turnover
from extender.packing.policies import hole_aware
from extender.packing.policies.hole_aware import Candidates, HoleAware
from extender.packing.snapshot import Snapshot
from tests.builders import H100, node, pod

T4 = "Tesla-T4"


def ask(snapshot, asked, *names):
    rows = np.array([snapshot.table.index[name] for name in names])
    return Candidates.of(snapshot, asked, rows)


def best(snapshot, asked, *names, policy=HoleAware()):  # noqa: B008 - a frozen value
    rows = np.array([snapshot.table.index[name] for name in names or snapshot.table.names])
    return snapshot.table.names[best_row(policy, snapshot, asked, rows)]


def test_fragmentation_grows_when_a_whole_node_is_broken():
    # Mix: 8-GPU pods only. A free node of 8 is of full use (F = 0); with 7 left none of it is (F = 7).
    snapshot = Snapshot.of([node("n").gpus(8, H100).build()], [pod("w").gpus(8).build()])
    assert hole_aware.fragmentation(ask(snapshot, pod("p").gpus(1).build(), "n")).tolist() == [7.0]


def test_fragmentation_shrinks_when_a_rest_nobody_can_use_is_taken():
    running = pod("r").gpus(6).on("n").build()
    snapshot = Snapshot.of([node("n").gpus(8, H100).build()], [pod("w").gpus(8).build(), running])
    assert hole_aware.fragmentation(ask(snapshot, pod("p").gpus(2).build(), "n")).tolist() == [-2.0]


def test_guard_is_zero_when_nobody_is_typed():
    snapshot = Snapshot.of(
        [node("h").gpus(8, H100).build(), node("t").gpus(8, T4).build()],
        [pod(f"w{i}").gpus(1).build() for i in range(9)],
    )
    assert hole_aware.guard(ask(snapshot, pod("p").gpus(1).build(), "h", "t")).tolist() == [0.0, 0.0]


def test_guard_charges_an_untyped_pod_for_a_model_others_must_have():
    label = "nvidia.com/gpu.product"
    nodes = [node("h").label(label, H100).gpus(8, H100).build(), node("t").label(label, T4).gpus(8, T4).build()]
    typed = [pod(f"w{i}").gpus(1).select(label, H100).build() for i in range(8)]
    snapshot = Snapshot.of(nodes, typed)
    # 16 free GPUs, all demand wants the 8 H100: 16 GPUs of demand per 8 free, 2 for each GPU asked.
    assert hole_aware.guard(ask(snapshot, pod("p").gpus(2).build(), "h", "t")).tolist() == [4.0, 0.0]
    # One of the pods that want it pays nothing for its own kind's demand.
    assert hole_aware.guard(ask(snapshot, pod("q").gpus(1).select(label, H100).build(), "h")).tolist() == [0.0]


def test_small_pods_pay_for_the_largest_nodes():
    # 2 of 8 GPUs asked: 2 x (8 - 2) / 8; the smaller node is free of charge, and so is a pod of half a node.
    snapshot = Snapshot.of([node("big").gpus(8, H100).build(), node("small").gpus(4, H100).build()])
    assert hole_aware.large_node(ask(snapshot, pod("p").gpus(2).build(), "big", "small")).tolist() == [1.5, 0.0]
    assert hole_aware.large_node(ask(snapshot, pod("p").gpus(4).build(), "big", "small")).tolist() == [0.0, 0.0]


def test_where_pods_come_and_go_small_ones_pay_for_full_large_nodes_too():
    nodes = [node("big").gpus(8, H100).build(), node("small").gpus(4, H100).build()]
    full = Snapshot.of(nodes, [pod("r").gpus(6).on("big").build()])
    asked = pod("p").gpus(2).build()
    for started, ended, cost in ((8.0, 0.0, 0.0), (8.0, 4.0, 1.0), (8.0, 8.0, 2.0)):
        snapshot = replace(full, history=History(Turnover(started, ended)))
        assert hole_aware.large_node(ask(snapshot, asked, "big", "small")).tolist() == [cost, 0.0]


def test_an_exact_fit_beats_a_smaller_node_that_keeps_a_rest():
    nodes = [node("big").gpus(8, H100).build(), node("small").gpus(4, H100).build()]
    snapshot = Snapshot.of(nodes, [pod("r").gpus(6).on("big").build(), pod("s").gpus(1).on("small").build()])
    assert best(snapshot, pod("p").gpus(2).build()) == "big"


def test_cpu_ratio_is_the_distance_between_what_is_there_and_what_is_asked():
    # 96 cores for 8 GPUs: 12 each, capped at the largest ratio asked for (8); the pod wants 4: (8 - 4) / 8 per GPU.
    snapshot = Snapshot.of([node("n").gpus(8, H100).build()], [pod("w").gpus(1).cpu(8).build()])
    assert hole_aware.cpu_ratio(ask(snapshot, pod("p").gpus(2).cpu(8).build(), "n")).tolist() == [1.0]


def test_the_ladder_beats_packing():
    running = pod("r").gpus(6).on("t").build()
    snapshot = Snapshot.of([node("h").gpus(8, H100).build(), node("t").gpus(8, T4).build()], [running])
    assert best(snapshot, pod("p").gpus(2).build()) == "t"
    assert best(snapshot, pod("p").gpus(2).types("H100,T4").build()) == "h"
    assert best(snapshot, pod("p").gpus(2).types("T4,any=3").build()) == "t"


def test_type_rank_decides_between_equals_only():
    snapshot = Snapshot.of([node("h").gpus(8, H100).build(), node("t").gpus(8, T4).build()])
    for cheap, dear in ((T4, H100), (H100, T4)):
        policy = HoleAware(type_rank=(cheap, dear))
        assert best(snapshot, pod("p").gpus(8).build(), policy=policy) == {"Tesla-T4": "t"}.get(cheap, "h")


def test_what_the_ledger_has_booked_is_not_offered_again():
    snapshot = Snapshot.of([node("a").gpus(8, H100).build(), node("b").gpus(8, H100).build()])
    booked = np.zeros_like(snapshot.used)
    booked[snapshot.table.axis.index["nvidia.com/gpu"], 0] = 6
    # Two GPUs are left of a's eight: the tight fit for a pod of two.
    assert best(snapshot.with_booked(booked), pod("p").gpus(2).build()) == "a"


@pytest.mark.parametrize("order", [("cpu", "spent", "idle"), ("spent", "idle"), ("idle",)])
def test_a_pod_without_gpus_goes_where_it_takes_nothing_from_gpus(order):
    nodes = [node("cpu").build(), node("spent").gpus(8, H100).build(), node("idle").gpus(8, H100).build()]
    snapshot = Snapshot.of(nodes, [pod("r").gpus(8).on("spent").build()])
    assert best(snapshot, pod("etl").cpu(8).build(), *order) == order[0]


def test_slices_and_shared_gpus_are_packed_tightly():
    slices = "nvidia.com/mig-1g.5gb"
    nodes = [node(name).gpus(7, H100, resource=slices, whole=False).build() for name in ("a", "b")]
    snapshot = Snapshot.of(nodes, [pod("r").gpus(5, slices, whole=False).on("b").build()])
    assert best(snapshot, pod("p").gpus(2, slices, whole=False).build()) == "b"


def test_the_last_node_is_scored_when_no_gpu_is_free_on_open_nodes():
    # What is free counts open nodes less what is booked; kube-scheduler may offer another one all the same.
    nodes = [node("full").gpus(8, H100).build(), node("closed").gpus(8, T4).unready().build()]
    waiting = [pod("y").gpus(1).types("H100").build(), pod("z").gpus(1).build()]
    snapshot = Snapshot.of(nodes, [pod("x").gpus(8).on("full").build(), *waiting])
    assert best(snapshot, pod("p").gpus(1).build(), "closed") == "closed"
