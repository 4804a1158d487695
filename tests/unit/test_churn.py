"""Jobs that come and go: when they are tried again, and what holds change about it."""

from dataclasses import replace

import pytest

from extender.churn import NO_BACK_OFF, BackOff, Churn, Job
from extender.heldnodes import HeldNodes
from extender.packing.holds import HoldRules
from extender.packing.mix import PodClass
from extender.packing.policies import REGISTRY
from extender.packing.snapshot import Snapshot
from extender.simulate import KubeScheduler, PolicyExtender
from tests.builders import H100, node, pod

NODES = [node("n").gpus(8, H100).build()]
BEST_FIT = REGISTRY["best-fit"]()


def job(name, at, length, gpus):
    return Job(at, length, replace(pod(name).gpus(gpus).build(), created=at))


def test_waiting_jobs_start_when_room_frees_and_their_wait_is_counted():
    # a holds the node from 0 to 10; b arrives at 2 and starts at 10, having waited 8; c never starts: 12 - 4.
    churn = Churn(KubeScheduler(Snapshot.of(NODES)))
    waits = churn.run([job("a", 0, 10, 8), job("b", 2, 100, 8), job("c", 4, 1, 8), job("d", 12, 1, 9)])
    assert {w.pod.name: (w.seconds, w.started) for w in waits.values()} == {
        "a": (0.0, True),
        "b": (8.0, True),
        "c": (8.0, False),
        "d": (0.0, False),
    }


def test_small_jobs_overtake_large_ones_that_do_not_fit():
    churn = Churn(KubeScheduler(Snapshot.of(NODES)))
    waits = churn.run([job("a", 0, 10, 4), job("b", 1, 1, 8), job("c", 2, 1, 4)])
    assert {w.pod.name for w in waits.values() if w.started} == {"a", "c"}


@pytest.mark.parametrize(("back_off", "seconds"), [(BackOff(), [1, 2, 4, 8, 10, 10]), (NO_BACK_OFF, [0] * 6)])
def test_the_back_off_doubles_up_to_its_bound(back_off, seconds):
    assert [back_off.after(attempts) for attempts in range(1, 7)] == seconds
    assert back_off.after(5000) == seconds[-1]


# The large pod has been refused at 1, 10 and 20 s when the last GPUs of its node come free at 21: it sits in its
# back-off until 24, and the small one comes at 21.5.
STORY = [
    *(job(f"old-{at}", 0, length, gpus) for at, (length, gpus) in enumerate([(10, 2), (20, 3), (21, 3)])),
    job("large", 1, 10, 8),
    job("small", 21.5, 100, 1),
    job("end", 60, 1, 9),
]


def waits_of(churn):
    return {wait.pod.name: wait.seconds for wait in churn.run(STORY).values() if wait.pod.name in ("large", "small")}


def with_holds(rules):
    held = HeldNodes(rules)
    return Churn(KubeScheduler(Snapshot.of(NODES), PolicyExtender(BEST_FIT, held=held)), BackOff(), held)


def test_a_pod_that_comes_during_a_back_off_breaks_the_block():
    assert waits_of(Churn(KubeScheduler(Snapshot.of(NODES)))) == {"large": 20, "small": 9.5}, "tried again at once"
    broken = waits_of(Churn(KubeScheduler(Snapshot.of(NODES), PolicyExtender(BEST_FIT)), BackOff()))
    assert broken == {"large": 59, "small": 0}


def test_a_hold_keeps_the_block_and_the_other_waits():
    # Refused by an Error at 21.5, by the full node at 22.5 and 24.5 at the latest, tried again when that is free.
    assert waits_of(with_holds(HoldRules())) == {"large": 23, "small": 12.5}


def test_a_pod_that_is_refused_again_and_again_is_one_pod_of_the_mix():
    churn = with_holds(HoldRules())
    churn.run([job("large", 0, 10, 9), *(job(f"p{at}", at, 1, 1) for at in range(1, 30))])
    (large,) = churn.scheduler.snapshot.pending.values()
    assert large.refused
    assert churn.scheduler.snapshot.mix.counts[PodClass.of(large)] == 1


def test_an_error_is_tried_again_without_an_event():
    # The hold is over at 22; nothing happens in the cluster between 21.5 and 24.
    assert waits_of(with_holds(HoldRules(seconds=1))) == {"large": 59, "small": 1}


def test_without_a_time_nothing_is_held():
    held = HeldNodes()
    scheduler = KubeScheduler(
        Snapshot.of(NODES, [pod("l").gpus(8).refused().build()]), PolicyExtender(BEST_FIT, held=held)
    )
    assert scheduler.schedule(pod("s").gpus(1).build()).node == "n"
    scheduler.remove(scheduler.snapshot.pods[0][0])
    held.renew(scheduler.snapshot, 0.0)
    refused = scheduler.schedule(pod("t").gpus(1).build())
    assert (refused.node, refused.offered) == (None, 1)
