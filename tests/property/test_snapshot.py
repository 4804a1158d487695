"""The algebra of Snapshots: whatever happens to a cluster, in whatever order, the result is that of a fresh start."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.packing.holds import HoldRules, Holds
from extender.packing.snapshot import Snapshot
from tests.builders import node, pod
from tests.strategies import NODE_NAMES, nodes, pods, snapshot_of, worlds

UIDS = tuple(f"u{i}" for i in range(6))


@st.composite
def steps(draw):
    """Draw what a watch may report: ("node", NodeInfo), ("no node", name), ("pod", PodInfo), ("no pod", uid)."""
    name, uid = draw(st.sampled_from(NODE_NAMES[:4])), draw(st.sampled_from(UIDS))
    return draw(
        st.one_of(
            st.tuples(st.just("node"), nodes(name)),
            st.tuples(st.just("no node"), st.just(name)),
            st.tuples(st.just("pod"), pods(uid, node_names=NODE_NAMES[:4])),
            st.tuples(st.just("pod"), pods(uid, node_names=NODE_NAMES[:4])),
            st.tuples(st.just("no pod"), st.just(uid)),
        )
    )


class Model:
    """The cluster as two dictionaries; it makes each step on a Snapshot as the cache does."""

    def __init__(self):
        self.nodes = {}
        self.pods = {}
        self.snapshot = Snapshot.of([])

    def take(self, kind, what):
        if kind == "node":
            self.nodes[what.name] = what
            self.snapshot = self.snapshot.with_node(what)
        elif kind == "no node":
            self.nodes.pop(what, None)
            self.snapshot = self.snapshot.without_node(what)
        elif kind == "pod":
            self._forget(what.uid)
            self.pods[what.uid] = what
            self.snapshot = self.snapshot.with_pod(what)
        else:
            self._forget(what)

    def _forget(self, uid):
        if (known := self.pods.pop(uid, None)) is not None:
            self.snapshot = self.snapshot.without_pod(known)


def value(snapshot):
    """Return everything a Snapshot says, as plain values; the axis only as far as it carries amounts."""
    axis = snapshot.table.axis.names
    by_resource = zip(axis, snapshot.used.tolist(), snapshot.table.allocatable.tolist(), strict=True)
    return {
        "names": snapshot.table.names,
        "nodes": snapshot.table.nodes,
        "axis": axis,
        "amounts": list(by_resource),
        "pods": snapshot.pods,
        "orphans": dict(snapshot.orphans),
        "pending": dict(snapshot.pending),
        "mix": dict(snapshot.mix.counts),
        "nominated": dict(snapshot.nominated),
        "holds": Holds().renewed(snapshot, 0.0, HoldRules()),
    }


@given(st.lists(steps(), max_size=12))
def test_any_order_of_changes_equals_a_fresh_start(changes):
    model = Model()
    for change in changes:
        model.take(*change)
        value(model.snapshot)  # What has been read may be carried along.
    assert value(model.snapshot) == value(Snapshot.of(model.nodes.values(), model.pods.values()))


@st.composite
def waiting(draw):
    """Draw a pod of a few GPUs that waits, is gated, or runs on one of two nodes."""
    asked = pod(draw(st.sampled_from(UIDS))).gpus(draw(st.integers(1, 3))).priority(draw(st.integers(0, 1)))
    if draw(st.booleans()):
        asked = asked.refused()
    if draw(st.booleans()):
        asked = asked.nominated(draw(st.sampled_from(("n1", "n2", "gone"))))
    ends = (lambda p: p, lambda p: p, lambda p: p.gated(), lambda p: p.on("n1"))
    return draw(st.sampled_from(ends))(asked).build()


@given(st.lists(st.tuples(waiting(), st.booleans()), max_size=12))
def test_what_is_known_of_waiting_pods_follows_each_change(changes):
    model = Model()
    for name in ("n1", "n2"):
        model.take("node", node(name).gpus(4).build())
    for what, stays in changes:
        model.take(*(("pod", what) if stays else ("no pod", what.uid)))
        assert value(model.snapshot) == value(Snapshot.of(model.nodes.values(), model.pods.values()))


@given(st.lists(steps(), max_size=6), steps())
def test_a_change_leaves_the_old_value_alone(before, change):
    model = Model()
    for step in before:
        model.take(*step)
    old = model.snapshot
    said = copy.deepcopy(value(old))
    model.take(*change)
    assert value(old) == said
    assert model.snapshot is old or model.snapshot.generation > old.generation


@given(st.lists(steps(), max_size=8))
def test_free_is_allocatable_less_what_pods_hold(changes):
    model = Model()
    for change in changes:
        model.take(*change)
    snapshot = model.snapshot
    for resource in snapshot.table.axis.names:
        for row, info in enumerate(snapshot.table.nodes):
            held = sum(1 if resource == "pods" else p.requests.get(resource, 0) for p in snapshot.pods[row])
            free = info.allocatable.get(resource, 0) - held
            assert snapshot.free[snapshot.table.axis.index[resource], row] == free
            assert snapshot.free_of(resource)[row] == max(0, free)


def test_columns_cannot_be_written():
    snapshot = Snapshot.of([node("n1").gpus(8).build()], [pod("p").gpus(2).on("n1").build()])
    for column in (snapshot.used, snapshot.free, snapshot.table.allocatable):
        assert not column.flags.writeable


def test_what_is_remembered_is_forgotten_with_the_value():
    snapshot = Snapshot.of([node("n1").gpus(8).build()])
    assert snapshot.remember("answer", None, lambda: 1) == 1
    assert snapshot.remember("answer", None, lambda: 2) == 1
    changed = (
        snapshot.with_pod(pod("p").build()),
        snapshot.with_node(node("n2").build()),
        snapshot.with_booked(np.zeros_like(snapshot.used)),
    )
    assert [other.remember("answer", None, lambda: 2) for other in changed] == [2, 2, 2]


def test_bookings_lower_what_scores_see_and_nothing_else():
    snapshot = Snapshot.of([node("n1").gpus(8).build()], [pod("p").gpus(2).on("n1").build()])
    at = snapshot.table.axis.index["nvidia.com/gpu"]
    booked = np.zeros_like(snapshot.used)
    booked[at, 0] = 4
    seen = snapshot.with_booked(booked)
    # 8 allocatable, 2 held, 4 booked
    assert (seen.free[at, 0], seen.free_for_score[at, 0], snapshot.free_for_score[at, 0]) == (6, 2, 6)


@given(world=worlds())
def test_what_a_score_reads_of_some_rows_is_what_all_rows_say(world):
    snapshot = snapshot_of(world)
    rows = np.arange(len(snapshot))[::-1]
    for resource, at in snapshot.table.axis.index.items():
        expected = np.maximum(snapshot.free_for_score[at, rows], 0)
        assert snapshot.free_for_score_of(resource, rows).tolist() == expected.tolist()
    assert snapshot.free_for_score_of("example.com/none", rows).tolist() == [0] * len(rows)


def test_what_follows_from_the_mix_outlives_a_binding_and_a_booking_but_no_change_of_the_mix():
    waits = pod("p").gpus(1).build()
    snapshot = Snapshot.of([node("n1").gpus(8).build()], [waits])

    def answer(of, value):
        return of.mix.remember(of.table, "answer", None, lambda: value)

    assert answer(snapshot, 1) == 1
    bound = snapshot.without_pod(waits).with_pod(pod("p").gpus(1).on("n1").build())
    at_once = snapshot.with_changes(gone=[waits], come=[pod("p").gpus(1).on("n1").build()])
    assert at_once.mix is snapshot.mix
    assert bound.mix == snapshot.mix
    assert answer(at_once, 2) == 1
    assert answer(at_once.with_booked(np.zeros_like(snapshot.used)), 2) == 1
    assert answer(snapshot.with_node(node("n2").build()), 2) == 2
    assert answer(snapshot.with_pod(pod("q").gpus(2).build()), 3) == 3
