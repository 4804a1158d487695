"""The applier by single turns: order, one Snapshot a batch, bookings, bugs."""

from __future__ import annotations

import gc

import pytest
from prometheus_client import CollectorRegistry

from extender.applier import Applier
from extender.cache import Cache
from extender.changes import NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.metrics import Metrics, WatchMetrics
from tests.builders import GPU, node, pod


class Setup:
    def __init__(self):
        self.now = 100.0
        self.cache = Cache(tentative_seconds=10, clock=lambda: self.now)
        self.metrics, self.registry = Metrics(), CollectorRegistry()
        self.watch = WatchMetrics(self.registry, lambda: self.now)
        self.applier = Applier(self.cache, self.metrics, self.watch, lambda: self.now)

    def tell(self, *changes):
        for change in changes:
            self.applier.put(change)
        return self.applier.turn(0.0)

    def count(self, name, **labels):
        return self.registry.get_sample_value(f"gpu_extender_{name}", labels) or 0.0


@pytest.fixture(autouse=True)
def collector():
    yield
    gc.unfreeze()


def test_a_burst_is_one_snapshot():
    setup = Setup()
    setup.tell(NodesListed((node("a").gpus(8).build(),)), PodsListed(()))
    generation = setup.cache.snapshot.generation
    setup.tell(*(PodSeen(pod(f"p{i}").gpus(1).on("a").build()) for i in range(5)), PodGone("uid-ml-p0"))
    assert setup.cache.snapshot.generation == generation + 1
    assert int(setup.cache.snapshot.free_of(GPU)[0]) == 4  # 8 - 5 + 1
    assert setup.count("batch_changes_count") == 2
    assert setup.count("batch_changes_sum") == 8  # 2 + 6


def test_synced_needs_both_lists_and_freezes_the_cluster():
    setup = Setup()
    setup.tell(NodesListed((node("a").build(),)))
    assert not setup.cache.synced
    assert gc.get_freeze_count() == 0
    setup.tell(PodsListed(()))
    assert setup.cache.synced
    assert gc.get_freeze_count() > 0


def test_a_node_may_come_after_its_pods_and_go_before_them():
    setup = Setup()
    setup.tell(PodsListed((pod("p").gpus(3).on("a").build(),)), NodesListed(()))
    assert setup.cache.snapshot.orphans.keys() == {"a"}
    setup.tell(NodeSeen(node("a").gpus(8).build()))
    assert int(setup.cache.snapshot.free_of(GPU)[0]) == 5
    setup.tell(NodeGone("a"), PodGone("uid-ml-p"), NodeSeen(node("a").gpus(8).build()))
    assert int(setup.cache.snapshot.free_of(GPU)[0]) == 8


def test_drift_is_what_a_later_list_shows_different():
    setup = Setup()
    setup.tell(NodesListed((node("a").build(), node("b").build())), PodsListed((pod("p").build(),)))
    assert setup.count("drifted_objects_total", kind="nodes") == 0
    setup.tell(NodesListed((node("a").gpus(1).build(), node("c").build())), PodsListed((pod("p").build(),)))
    assert setup.count("drifted_objects_total", kind="nodes") == 3  # a differs, b is gone, c is new
    assert setup.count("drifted_objects_total", kind="pods") == 0


def test_bookings_run_out_without_events():
    setup = Setup()
    setup.cache.assume(pod("p").build(), "a", setup.now)
    setup.now += 11
    assert setup.tell()
    assert setup.cache.view.ledger.lines == {}


def test_a_bug_is_logged_counted_and_survived(caplog, monkeypatch):
    setup = Setup()
    monkeypatch.setattr(setup.cache, "apply", lambda _: 1 / 0)
    assert setup.tell(PodGone("x"))
    assert "ZeroDivisionError" in caplog.text
    name, labels = "gpu_extender_internal_errors_total", {"verb": "watch"}
    assert setup.metrics.registry.get_sample_value(name, labels) == 1


def test_it_ends_after_what_came_before():
    setup = Setup()
    setup.applier.put(NodesListed((node("a").build(),)))
    setup.applier.stop()
    setup.applier.run()
    assert len(setup.cache.snapshot) == 1
    assert gc.isenabled()
