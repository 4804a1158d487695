"""The spread of demand over models, against a slow exact solution."""

import numpy as np
import pytest

from extender.packing.contention import contention, spread
from extender.packing.snapshot import Snapshot
from tests.builders import GPU, node, pod

A, B, C = (True, False, False), (False, True, False), (False, False, True)
ANY = (True, True, True)


def spread_of(lists, demand, free):
    return spread(np.array(lists), np.array(demand, dtype=float), np.array(free, dtype=float))


def test_one_list_fills_its_models_in_proportion_to_what_is_free():
    # 60 GPUs of demand over 10, 20 and 30 free: the level is 1 everywhere.
    assert spread_of([ANY], [60], [10, 20, 30]).tolist() == [[10, 20, 30]]


def test_an_untyped_list_leaves_a_contended_model_to_those_who_need_it():
    # 20 want A, which has 10 free; of the 30 untyped GPUs none goes to A, the others get 15 each.
    flows = spread_of([A, ANY], [20, 30], [10, 20, 20])
    assert flows[1] == pytest.approx([0, 15, 15], abs=0.2)


def test_a_slightly_contended_model_still_takes_its_share():
    # Level: (10 + 30) / (20 + 10 + 10) = 1, so A gets 10 of the untyped and stands at 20 of 20.
    flows = spread_of([A, ANY], [10, 30], [20, 10, 10])
    assert flows[1] == pytest.approx([10, 10, 10], rel=0.02)


def test_rows_sum_to_the_demand_and_stay_inside_the_list():
    flows = spread_of([A, (True, True, False), B, ANY], [5, 7, 11, 13], [4, 0, 9])
    assert flows.sum(axis=1) == pytest.approx([5, 7, 11, 13])
    assert flows[0, 1:].tolist() == [0, 0]
    assert flows[1, 2] == 0


def test_no_demand_is_no_load():
    assert spread(np.zeros((0, 3), dtype=bool), np.zeros(0), np.ones(3)).sum() == 0


def exact_load(accepted, demand, free):
    """Block-coordinate descent with exact water-filling of one list at a time, until it stands."""
    width = np.maximum(free, 1e-9)
    flows = np.zeros(accepted.shape)
    for _ in range(300):
        for i, mask in enumerate(accepted):
            load = flows.sum(axis=0) - flows[i]
            at = np.flatnonzero(mask)
            at = at[np.argsort(load[at] / width[at])]
            level = (demand[i] + np.cumsum(load[at])) / np.cumsum(width[at])
            wet = np.flatnonzero(load[at] / width[at] <= level)[-1]
            flows[i] = 0
            flows[i, at] = np.maximum(level[wet] * width[at] - load[at], 0)
    return flows.sum(axis=0)


def test_random_instances_come_close_to_the_exact_spread():
    random = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        accepted = random.random((8, 6)) < 0.4
        accepted[np.arange(8), random.integers(0, 6, 8)] = True
        demand, free = random.exponential(50, 8), random.integers(0, 300, 6).astype(float)
        exact = exact_load(accepted, demand, free)
        errors.append(np.abs(spread(accepted, demand, free).sum(axis=0) - exact).max() / exact.max())
    assert np.mean(errors) < 0.01
    assert max(errors) < 0.05


def test_no_free_gpu_is_no_contention():
    # Everything is taken or on a closed node; two lists of models wait.
    nodes = [node("a").gpus(8, "H100").build(), node("b").gpus(8, "T4").unready().build()]
    waiting = [pod("y").gpus(1).types("H100").build(), pod("z").gpus(1).build()]
    found = contention(Snapshot.of(nodes, [pod("x").gpus(8).on("a").build(), *waiting]), GPU)
    assert found.load.tolist() == [0.0, 0.0]
    assert found.pressure(b"\1\1").tolist() == [0.0, 0.0]
