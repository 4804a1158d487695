"""Whom preemption would evict."""

from extender.packing.snapshot import Snapshot
from extender.packing.victims import candidate_victims, eviction_helps, preferred_node, victims_on
from tests.builders import H100, node, pod

URGENT = pod("urgent").gpus(8).priority(100).build()


def cluster(*pods):
    return Snapshot.of([node("a").gpus(8, H100).build(), node("b").gpus(8, H100).build()], pods)


def names(victims):
    return sorted(v.name for v in victims)


def test_only_as_many_leave_as_must():
    # 8 GPUs: 4 + 2 + 2 held; a pod of 4 needs only the 4 of lowest importance back: the youngest two.
    held = [pod("four").gpus(4).on("a"), pod("two").gpus(2).on("a"), pod("zwei").gpus(2).on("a")]
    snapshot = cluster(*(p.build() for p in held))
    assert names(victims_on(snapshot, pod("p").gpus(4).priority(1).build(), 0)) == ["two", "zwei"]


def test_pods_of_equal_or_higher_priority_stay():
    snapshot = cluster(pod("r").gpus(1).priority(100).on("a").build(), pod("s").gpus(8).on("b").build())
    assert victims_on(snapshot, URGENT, 0) is None
    assert list(candidate_victims(snapshot, URGENT)) == ["b"]


def test_a_node_with_room_has_no_victims_and_is_no_candidate():
    snapshot = cluster(pod("s").gpus(8).on("b").build())
    assert victims_on(snapshot, URGENT, 0) == ()
    assert "a" not in candidate_victims(snapshot, URGENT)


def test_eviction_helps_where_pods_of_lower_priority_hold_what_is_missing():
    snapshot = cluster(pod("r").gpus(1).priority(100).on("a").build(), pod("s").gpus(8).on("b").build())
    assert [eviction_helps(snapshot, URGENT, [row]) for row in (0, 1)] == [False, True]
    assert eviction_helps(snapshot, URGENT, [0, 1])
    assert not eviction_helps(snapshot, pod("p").gpus(8).build(), [0, 1]), "all have its priority or more"
    assert not eviction_helps(cluster(pod("s").gpus(1).on("a").build()), pod("p").priority(1).gpus(1).build(), [0, 1])


def test_a_resource_the_node_lacks_cannot_be_made_by_eviction():
    snapshot = cluster(pod("s").gpus(8).on("a").build())
    assert victims_on(snapshot, pod("p").gpus(8, "amd.com/gpu").priority(9).build(), 0) is None


def test_the_node_with_the_least_important_victims_is_preferred():
    found = {
        "a": (pod("x").priority(5).build(),),
        "b": (pod("y").priority(1).build(), pod("z").priority(1).build()),
        "c": (pod("w").priority(1).build(),),
    }
    assert preferred_node(found) == "c"
    assert preferred_node({}) is None
