"""The cache by example: late events, recreated pods, bindings and the ledger. Any order of them: tests/property."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from extender.cache import Cache, PodState
from extender.packing.types import Phase
from tests.builders import GPU, node, pod, term


def filled(*pods, nodes=("h",), gpus=8):
    cache = Cache(tentative_seconds=10)
    cache.relist([node(name).gpus(gpus).build() for name in nodes], [p.build() for p in pods])
    return cache


def free(cache, name="h"):
    return int(cache.snapshot.free_of(GPU)[cache.snapshot.table.index[name]])


def test_case_099_deletes_are_by_uid_and_a_relist_removes_what_is_gone():
    cache = filled(pod("predictor").gpus(8).on("h"))
    first = "uid-ml-predictor"
    assert free(cache) == 0
    cache.relist(pods=[])  # the watch was down while the first was deleted
    assert free(cache) == 8
    second = replace(pod("predictor").gpus(8).build(), uid="B")
    cache.update_pod(second)
    assert cache.bind("B", "ml", "predictor", "h") == ""
    cache.remove_pod(first)  # late, and all that counts of the object is its uid
    assert free(cache) == 0
    cache.relist([node("h").gpus(8).build()], [replace(second, node_name="h")])  # after a 410 Gone
    assert free(cache) == 0


def test_a_binding_is_not_undone_by_an_older_update_nor_by_an_older_list():
    cache = filled(pod("p").gpus(3))
    waiting = pod("p").gpus(3).build()
    assert cache.bind(waiting.uid, "ml", "p", "h") == ""
    cache.update_pod(waiting)
    assert (free(cache), cache.state(waiting.uid)) == (5, PodState.BOUND)
    cache.relist(pods=[waiting])
    assert (free(cache), cache.state(waiting.uid)) == (5, PodState.BOUND)


def test_a_removed_pod_does_not_come_back_by_a_late_update():
    cache = filled(pod("p").gpus(3).on("h"))
    cache.remove_pod("uid-ml-p")
    cache.update_pod(pod("p").gpus(3).on("h").build())
    assert (free(cache), cache.state("uid-ml-p")) == (8, None)


def test_a_finished_pod_holds_nothing_whatever_comes_later():
    cache = filled(pod("p").gpus(3).on("h"))
    running = pod("p").gpus(3).on("h").build()
    cache.update_pod(replace(running, phase=Phase.SUCCEEDED))
    cache.update_pod(running)
    assert (free(cache), cache.state(running.uid)) == (8, PodState.TERMINAL)


def test_a_node_that_returns_finds_its_pods_again():
    cache = filled(pod("p").gpus(3).on("h"))
    cache.remove_node("h")
    assert len(cache.snapshot) == 0
    cache.update_node(node("h").gpus(4).build())
    assert free(cache) == 1


def test_synced_needs_both_lists():
    cache = Cache(tentative_seconds=10)
    cache.relist(nodes=[])
    assert not cache.synced
    cache.relist(pods=[])
    assert cache.synced


@pytest.mark.parametrize(
    ("target", "where", "said"),
    [
        (pod("ok").gpus(1), "h", ""),
        (pod("there").gpus(1).on("h"), "h", ""),
        (pod("there").gpus(1).on("h"), "other", "already assigned to h"),
        (pod("leaving").gpus(1).terminating(), "h", "pod is being deleted"),
        (pod("gated").gpus(1).gated(), "h", "scheduling gates"),
        (pod("ok").gpus(1), "nowhere", "node nowhere is not known"),
        (pod("large").gpus(9), "h", "Insufficient nvidia.com/gpu"),
    ],
)
def test_bind_says_why_not(target, where, said):
    cache = filled(target, nodes=("h", "other"))
    info = target.build()
    fault = cache.bind(info.uid, info.namespace, info.name, where)
    assert said in fault
    assert bool(fault) == bool(said)


def test_bind_checks_who_is_meant():
    cache = filled(pod("web-0").gpus(1))
    recreated = cache.bind("another", "ml", "web-0", "h")
    assert "UID uid-ml-web-0" in recreated
    assert "UID another" in recreated
    assert "is not known" in cache.bind("x", "ml", "never-seen", "h")
    assert "is not known" in cache.bind("uid-ml-web-0", "ml", "other-name", "h")


def test_bind_knows_a_pod_that_only_a_request_has_shown():
    cache = filled()
    cache.remember(pod("fresh").gpus(2).build())
    assert cache.bind("uid-ml-fresh", "ml", "fresh", "h") == ""
    assert free(cache) == 6
    cache.update_pod(pod("fresh").gpus(2).on("h").build())  # the watch shows it, too
    assert free(cache) == 6, "counted once"


def test_pods_that_only_requests_have_shown_are_bounded_in_bytes():
    cache = filled()
    long = term("k", "In", *(f"{at:0100}" for at in range(10_000)))
    for at in range(40):
        cache.remember(pod(f"p{at}").gpus(1).require(long).build())
    assert "is not known" in cache.bind("uid-ml-p0", "ml", "p0", "h"), "2 MB each: the first are forgotten"
    assert "is not known" not in cache.bind("uid-ml-p39", "ml", "p39", "h")


def test_of_many_threads_that_bind_the_last_gpu_one_succeeds():
    cache = filled(*(pod(f"p{at}").gpus(8) for at in range(16)))
    outcomes: list[str] = []
    start = threading.Barrier(16)

    def bind(at: int) -> None:
        start.wait()
        outcomes.append(cache.bind(f"uid-ml-p{at}", "ml", f"p{at}", "h"))

    threads = [threading.Thread(target=bind, args=(at,)) for at in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("") == 1
    assert free(cache) == 0


def test_a_booking_moves_scores_only_and_ends_when_more_is_known():
    cache = filled(pod("p").gpus(3))
    waiting = pod("p").gpus(3).build()
    cache.assume(waiting, "h", now=100.0)
    assert (free(cache), cache.state(waiting.uid)) == (8, PodState.TENTATIVE)
    assert cache.snapshot.booked is not None
    cache.update_pod(pod("p").gpus(3).on("h").build())
    assert (free(cache), cache.snapshot.booked) == (5, None)
    cache.assume(waiting, "h", now=101.0)  # a late prioritize of a pod that is bound already
    assert cache.snapshot.booked is None


def test_bookings_expire():
    cache = filled()
    cache.assume(pod("p").gpus(3).build(), "h", now=100.0)
    cache.expire(109.9)
    assert cache.snapshot.booked is not None
    cache.expire(110.0)
    assert cache.snapshot.booked is None
    assert cache.state("uid-ml-p") is None


def test_no_booking_when_switched_off():
    cache = Cache(tentative_seconds=0)
    cache.relist([node("h").gpus(8).build()], [])
    cache.assume(pod("p").gpus(3).build(), "h", now=0.0)
    assert cache.snapshot.booked is None


def test_absurd_requests_do_not_overflow_the_ledger():
    cache = filled()
    for at in range(4):
        cache.assume(pod(f"p{at}").resource("memory", 2**63 - 1).build(), "h", now=0.0)
    booked = cache.snapshot.booked
    assert booked is not None
    assert (booked >= 0).all()


def test_views_and_what_they_hold_never_change():
    cache = filled(pod("p").gpus(1))
    before = cache.view
    used = before.snapshot.used.copy()
    cache.bind("uid-ml-p", "ml", "p", "h")
    cache.assume(pod("q").gpus(2).build(), "h", now=0.0)
    cache.remove_node("h")
    assert before.snapshot.used.tolist() == used.tolist()
    assert before.ledger.lines == {}
    with pytest.raises(ValueError, match="read-only"):
        before.snapshot.used[0, 0] = 1


def test_a_view_tells_since_when_it_holds():
    now = [5.0]
    cache = Cache(tentative_seconds=10, clock=lambda: now[0])
    cache.relist([node("h").build()], [])
    now[0] = 9.0
    cache.assume(pod("p").build(), "h", now=9.0)
    assert cache.view.changed == 5.0, "a booking is no change of the cluster"
    cache.update_pod(pod("p").build())
    assert cache.view.changed == 9.0


def test_a_view_of_further_nodes_knows_what_has_started_and_ended():
    cache = filled(pod("a").gpus(4).on("h"), pod("b").gpus(2).on("h"))
    cache.remove_pod("uid-ml-b")
    wider = cache.view.with_nodes([node("new").gpus(8).build()])
    assert cache.snapshot.history.turnover.ended_share > 0
    assert wider.snapshot.history == cache.snapshot.history
