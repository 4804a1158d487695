"""In-tree scores, with the arithmetic of kube-scheduler's plugins in the comments."""

import numpy as np

from extender import intree
from extender.packing.selectors import Operator, Requirement, Term, Toleration
from extender.packing.snapshot import Snapshot
from tests.builders import GPU, H100, node, pod

ROWS = np.arange(2)


def cluster(*running):
    return Snapshot.of([node("a").gpus(8, H100).build(), node("b").gpus(8, H100).build()], running)


def test_least_allocated_prefers_the_empty_node():
    # a: (96-48-16)/96 = 33 %, memory (1000-500-100)/1000 = 40 %: (33 + 40) // 2 = 36; b: 83 and 90: 86.
    snapshot = cluster(pod("r").cpu(48).memory(500).on("a").build())
    asked = pod("p").cpu(16).memory(100).build()
    used = intree.nonzero_used(snapshot)
    assert intree.resources_fit(snapshot, used, asked, ROWS, intree.FitStrategy()).tolist() == [36, 86]


def test_most_allocated_counts_gpus_when_told_to():
    # a: cpu 0, memory 0 (defaults 100m of 96, 200 MiB of 1000 GiB), GPUs (4 + 2) / 8 = 75 %: 5 * 75 // 7 = 53.
    # b: GPUs 2 / 8 = 25 %: 5 * 25 // 7 = 17.
    snapshot = cluster(pod("r").gpus(4).on("a").build())
    strategy = intree.most_allocated_profile([GPU]).strategy
    used = intree.nonzero_used(snapshot)
    assert intree.resources_fit(snapshot, used, pod("p").gpus(2).build(), ROWS, strategy).tolist() == [53, 17]


def test_a_resource_the_pod_does_not_ask_for_does_not_count():
    snapshot = cluster(pod("r").gpus(4).on("a").build())
    strategy = intree.most_allocated_profile([GPU]).strategy
    scores = intree.resources_fit(snapshot, intree.nonzero_used(snapshot), pod("p").cpu(1).build(), ROWS, strategy)
    assert scores.tolist() == [0, 0]  # 1.1 % of cpu and 0.02 % of memory, each cut to a whole percent: (1 + 0) // 2


def test_pods_that_ask_for_nothing_count_with_the_defaults():
    assert intree.nonzero_request(pod("p").build()) == (100, 200 * 2**20)
    used = intree.nonzero_used(cluster(pod("r").on("a").build(), pod("s").on("a").build()))
    assert used.tolist() == [[200, 0], [400 * 2**20, 0]]


def test_balanced_allocation_punishes_lopsided_use():
    # a: cpu (64 + 16) / 96 = 83 %, memory 0.01: deviation 0.41; b: 17 % and 0.01: deviation 0.08.
    snapshot = cluster(pod("r").cpu(64).memory(1).on("a").build())
    asked = pod("p").cpu(16).memory(10).build()
    assert intree.balanced_allocation(snapshot, intree.nonzero_used(snapshot), asked, ROWS).tolist() == [58, 92]


def test_preferred_affinity_scales_to_the_best_node():
    snapshot = Snapshot.of([node("a").label("zone", "x").build(), node("b").label("zone", "y").build()])
    prefer_x = Term((Requirement("zone", Operator.IN, ("x",)),))
    prefer_any = Term((Requirement("zone", Operator.EXISTS),))
    asked = pod("p").prefer(30, prefer_x).prefer(10, prefer_any).build()
    assert intree.node_affinity(snapshot.table, asked, ROWS).tolist() == [100, 25]  # 40 and 10 of 40
    assert intree.node_affinity(snapshot.table, pod("q").build(), ROWS).tolist() == [0, 0]


def test_soft_taints_push_away_unless_tolerated():
    snapshot = Snapshot.of([node("a").taint("old", "yes", "PreferNoSchedule").build(), node("b").build()])
    tolerant = pod("t").tolerate(Toleration(key="old", exists=True)).build()
    assert intree.taint_toleration(snapshot.table, pod("p").build(), ROWS).tolist() == [0, 100]
    assert intree.taint_toleration(snapshot.table, tolerant, ROWS).tolist() == [100, 100]


def test_the_total_stays_within_what_the_shipped_weight_beats():
    snapshot = cluster()
    total = intree.score(snapshot, intree.nonzero_used(snapshot), pod("p").cpu(1).build(), ROWS, intree.STOCK)
    assert total.max() <= 700  # 1 + 1 + 2 + 3 plugins of 100; with those not modelled 1,200
