"""A refusal waits for news: a changed answer as soon as there is one, never longer than allowed, less when often."""

from __future__ import annotations

import threading

import pytest

from extender.cache import Cache, View
from extender.metrics import Metrics
from extender.packing.snapshot import Snapshot
from extender.patience import Patience
from extender.wire import FilterAnswer
from tests.builders import node

REFUSED = FilterAnswer.failed("no node suits", unsure=True)
FINAL = FilterAnswer.failed("not synced")
PLACED = FilterAnswer.failed("")


def has(name):
    """Decide by whether a node is there."""
    return lambda view: PLACED if name in view.snapshot.table.index else REFUSED


class Standstill:
    """A cache without news, in which waiting is all that takes time."""

    def __init__(self):
        self.now = 0.0
        self.waits: list[float] = []
        self.view = View(Snapshot.of(()))

    def wait(self, view, seconds):
        self.waits.append(round(seconds, 6))
        self.now += seconds
        return view


@pytest.fixture
def standstill():
    return Standstill()


def patience(standstill, longest=0.05):
    return Patience(standstill, longest, Metrics(), lambda: standstill.now)


def waits(metrics, result):
    return metrics.registry.get_sample_value("gpu_extender_refusal_waits_total", {"result": result})


def test_what_has_just_changed_is_waited_for():
    cache, metrics = Cache(tentative_seconds=0), Metrics()
    patience = Patience(cache, 30, metrics)
    patience._left = 120
    asked = threading.Event()

    def decide(view):
        asked.set()
        return has("late")(view)

    def tell():
        asked.wait()
        cache.update_node(node("early").build())
        cache.update_node(node("late").build())

    teller = threading.Thread(target=tell)
    teller.start()
    assert patience.decided(decide) is PLACED
    teller.join()
    assert (waits(metrics, "changed"), waits(metrics, "same")) == (1, None)


def test_without_news_it_is_refused_once_the_time_is_over():
    cache, metrics = Cache(tentative_seconds=0), Metrics()
    assert Patience(cache, 0.001, metrics).decided(has("never")) is REFUSED
    assert waits(metrics, "same") == 1


@pytest.mark.parametrize("answer", [PLACED, FINAL])
def test_what_news_cannot_change_is_not_waited_for(standstill, answer):
    assert patience(standstill).decided(lambda _: answer) is answer
    assert standstill.waits == []


def test_zero_is_never(standstill):
    assert patience(standstill, 0.0).decided(has("never")) is REFUSED
    assert standstill.waits == []


def test_a_burst_of_refusals_waits_shorter_and_shorter_and_a_second_in_all(standstill):
    waiting = patience(standstill)
    for _ in range(200):
        waiting.decided(has("never"))
    # 1 s, each wait of 50 ms earns 5 ms back: 17 of them until a quarter of the rest is less, (1 - 0.2) / 0.047.
    assert standstill.waits[:17] == [0.05] * 17
    assert standstill.waits[17:] == sorted(standstill.waits[17:], reverse=True)
    assert 1.0 < sum(standstill.waits) < 1.0 / 0.9  # what is earned meanwhile is waited, too


def test_the_long_run_costs_a_tenth_of_the_time(standstill):
    waiting = patience(standstill)
    for _ in range(10_000):
        waiting.decided(has("never"))
        standstill.now += 0.02
    assert sum(standstill.waits[2000:]) / (sum(standstill.waits[2000:]) + 8000 * 0.02) == pytest.approx(0.1, rel=0.01)


def test_after_a_pause_it_waits_as_long_as_ever(standstill):
    waiting = patience(standstill)
    for _ in range(200):
        waiting.decided(has("never"))
    standstill.now += 10
    waiting.decided(has("never"))
    assert standstill.waits[-1] == 0.05
