"""The simulated kube-scheduler."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from extender.packing.policies import REGISTRY
from extender.packing.problem import queue_order
from extender.packing.snapshot import Snapshot
from extender.simulate import (
    KubeScheduler,
    PolicyExtender,
    SchedulerConfig,
    nodes_to_find,
    schedule_all,
)
from tests.builders import H100, node, pod

NODES = [node(f"n{i}").gpus(8, H100).build() for i in range(4)]
OURS = PolicyExtender(REGISTRY["hole-aware"]())


def singles(count):
    return [pod(f"p{i}").gpus(1).cpu(1).build() for i in range(count)]


def nodes_used(snapshot):
    return sum(bool(group) for group in snapshot.pods)


@pytest.mark.parametrize(
    ("nodes", "percentage", "found"),
    [
        (50, 0, 50),  # below 100 every node is looked at
        (1000, 0, 420),  # 50 - 1000 / 125 = 42 %
        (5000, 0, 500),  # 50 - 40 = 10 %
        (15000, 0, 750),  # never below 5 %
        (150, 10, 100),  # never below 100 nodes
        (1000, 100, 1000),
    ],
)
def test_sampling_finds_as_many_nodes_as_kube_scheduler(nodes, percentage, found):
    assert nodes_to_find(nodes, percentage) == found


def test_alone_it_spreads_and_with_us_it_packs():
    alone = KubeScheduler(Snapshot.of(NODES))
    schedule_all(alone, singles(8))
    ours = KubeScheduler(Snapshot.of(NODES), OURS)
    schedule_all(ours, singles(8))
    assert (nodes_used(alone.snapshot), nodes_used(ours.snapshot)) == (4, 1)


def test_one_seed_one_outcome_and_seeds_differ():
    def nodes_of(seed):
        scheduler = KubeScheduler(Snapshot.of(NODES), config=SchedulerConfig(seed=seed))
        return [p.node for p in schedule_all(scheduler, singles(12))]

    assert nodes_of(1) == nodes_of(1)
    assert len({tuple(nodes_of(seed)) for seed in range(5)}) > 1


def test_a_refused_pod_gets_the_sentence_kube_scheduler_would_write():
    scheduler = KubeScheduler(Snapshot.of(NODES))
    placement = scheduler.schedule(pod("big").gpus(9).build())
    assert placement.node is None
    assert placement.reason == "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def test_removing_a_pod_gives_back_what_it_held():
    start = Snapshot.of(NODES)
    scheduler = KubeScheduler(start)
    placed = scheduler.schedule(pod("p").gpus(8).cpu(4).memory(8).build()).pod
    scheduler.remove(placed)
    assert scheduler.snapshot.used.tolist() == start.used.tolist()
    assert not scheduler.snapshot.mix.counts


def test_a_low_weight_leaves_the_choice_to_in_tree_scores():
    # At weight 1 our 10 is worth 100 points; a soft taint alone takes 300 from the node we prefer.
    nodes = [node("n0").gpus(8, H100).taint("old", "yes", "PreferNoSchedule").build(), *NODES[1:]]
    running = [pod("r").gpus(1).cpu(1).on("n0").build()]

    def choice(weight):
        scheduler = KubeScheduler(Snapshot.of(nodes, running), OURS, SchedulerConfig(weight=weight))
        return scheduler.schedule(pod("p").gpus(1).cpu(1).build()).node

    assert choice(1) != "n0"
    assert choice(130) == "n0"


@dataclass
class RefusesAll:
    """An extender that keeps no node."""

    def filter(self, snapshot, pod, rows):
        return rows[:0]

    def prioritize(self, snapshot, pod, rows):
        raise AssertionError("nothing is left to score")

    def bind(self, pod, node_name):
        raise AssertionError("nothing is bound")


def test_an_extender_that_refuses_every_node_leaves_the_pod_waiting():
    assert KubeScheduler(Snapshot.of(NODES), RefusesAll()).schedule(singles(1)[0]).node is None


def test_the_queue_goes_by_priority_then_age():
    urgent = replace(pod("u").build(), priority=5, created=9.0)
    old, young = replace(pod("o").build(), created=1.0), replace(pod("y").build(), created=2.0)
    assert sorted([young, urgent, old], key=queue_order) == [urgent, old, young]


def test_sampling_moves_its_window_from_cycle_to_cycle():
    nodes = [node(f"n{i:03}").gpus(1, H100).build() for i in range(400)]
    scheduler = KubeScheduler(Snapshot.of(nodes), config=SchedulerConfig(percentage=25))
    rows = np.arange(400)
    windows = [scheduler._sample(rows).tolist() for _ in range(5)]
    assert [w[0] for w in windows] == [0, 100, 200, 300, 0]
    assert all(len(w) == 100 for w in windows)


def test_sampling_counts_the_nodes_it_looks_at_and_not_only_those_that_fit():
    nodes = [node(f"n{i:03}").gpus(1, H100).build() for i in range(400)]
    scheduler = KubeScheduler(Snapshot.of(nodes), config=SchedulerConfig(percentage=25))
    even = np.arange(0, 400, 2)
    # The 100 even rows of 0..198 are found, 199 is refused, 200 is one too many: the next search starts there.
    assert scheduler._sample(even)[-1] == 198
    assert scheduler._sample(np.arange(400))[0] == 200
    # Whoever finds too few looks at every node, and the next one starts where this one did.
    assert len(scheduler._sample(np.arange(7))) == 7
    assert scheduler._sample(np.arange(400))[0] == 300


# ---------------------------------------------------------------- gangs


def gang(count, gpus, size=None):
    return [pod(f"g{number}").gpus(gpus).group("g", size).build() for number in range(count)]


def test_a_gang_that_does_not_fit_leaves_no_trace():
    scheduler = KubeScheduler(Snapshot.of(NODES[:1]), OURS)
    placements = schedule_all(scheduler, [*gang(3, 4), pod("single").gpus(8).build()])
    assert [p.node for p in placements] == [None, None, None, "n0"]
    assert all("group ml/g starts as a whole or not at all; ml/g2: 0/1 nodes" in p.reason for p in placements[:3])


def test_a_gang_is_tried_when_its_last_member_has_come():
    scheduler = KubeScheduler(Snapshot.of(NODES[:1]), OURS)
    first, second = gang(2, 4)
    placements = schedule_all(scheduler, [first, pod("between").gpus(2).build(), second])
    assert [p.pod.name for p in placements] == ["g0", "between", "g1"]
    assert [p.node for p in placements] == [None, "n0", None]


def test_members_that_run_make_a_gang_complete():
    running = pod("r").gpus(1).group("g", 3).on("n1").build()
    assert {p.node is not None for p in schedule_all(KubeScheduler(Snapshot.of(NODES, [running])), gang(2, 1, 3))} == {
        True
    }
    alone = schedule_all(KubeScheduler(Snapshot.of(NODES)), gang(2, 1, 3))
    words = "group ml/g starts as a whole or not at all: of 3 members 2 wait; it waits for 1 more pod"
    assert [p.reason for p in alone] == [words] * 2


def test_of_a_gang_whose_size_is_known_so_many_start_and_others_if_they_fit():
    scheduler = KubeScheduler(Snapshot.of(NODES[:1]), OURS)
    placements = schedule_all(scheduler, [*gang(3, 4, 2), pod("single").gpus(1).build()])
    assert [p.node for p in placements] == ["n0", "n0", None, None]
    assert placements[2].reason.startswith("0/1 nodes are available")
    placements = schedule_all(KubeScheduler(Snapshot.of(NODES[:1]), OURS), gang(4, 4, 3))
    assert [p.node for p in placements] == [None] * 4
    assert placements[0].reason.startswith("group ml/g starts with 3 of its 4 waiting pods or not at all; ml/g3: 0/1")


def test_members_of_a_gang_that_runs_start_one_by_one():
    running = pod("r").gpus(1).group("g", 1).on("n0").build()
    first, second = gang(2, 4, 1)
    placements = schedule_all(
        KubeScheduler(Snapshot.of(NODES[:1], [running]), OURS), [first, pod("between").gpus(3).build(), second]
    )
    assert [p.node for p in placements] == ["n0", "n0", None]


def test_the_extender_hears_only_of_placements_that_stand():
    @dataclass
    class Listening:
        bound: list

        def filter(self, snapshot, pod, rows):
            return rows

        def prioritize(self, snapshot, pod, rows):
            return np.zeros(len(rows), dtype=np.int64)

        def bind(self, pod, node_name):
            self.bound.append(pod.name)

    extender = Listening([])
    schedule_all(KubeScheduler(Snapshot.of(NODES[:1]), extender), [*gang(3, 4), pod("single").gpus(1).build()])
    assert extender.bound == ["single"]
