"""The cache under any order of operations: its Snapshot is the one built from scratch, its ledger never decides a fit.

The model beside it is a plain dictionary per kind of thing, with the rules of `extender/cache.py`'s head written out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.cache import Cache, PodState
from extender.changes import NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.packing.fit import filter_nodes
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, Phase, PodInfo
from tests.builders import node, pod

NODES = ("n1", "n2", "n3")
PODS = tuple(f"p{i}" for i in range(6))
TENTATIVE_SECONDS = 10.0

node_infos = st.builds(
    lambda name, gpus, cordoned: replace(node(name).gpus(gpus, "NVIDIA-H100").build(), unschedulable=cordoned),
    st.sampled_from(NODES),
    st.sampled_from((1, 4, 8)),
    st.booleans(),
)


@st.composite
def pod_infos(draw) -> PodInfo:
    """Draw a pod as an event might show it; several UIDs share a name, as recreated pods do."""
    number = draw(st.integers(0, len(PODS) - 1))
    built = pod(f"web-{number % 4}").gpus(draw(st.sampled_from((0, 1, 2, 8)))).build()
    placed = draw(st.booleans())
    return replace(
        built,
        uid=PODS[number],
        node_name=draw(st.sampled_from((*NODES, "gone"))) if placed else "",
        phase=draw(st.sampled_from((Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED))),
        terminating=draw(st.integers(0, 5)) == 0,
        nominated_node="" if placed else draw(st.sampled_from(("", "n1"))),
    )


events = st.one_of(
    st.builds(PodSeen, pod_infos()),
    st.builds(PodSeen, pod_infos()),
    st.builds(PodGone, st.sampled_from(PODS)),
    st.builds(NodeSeen, node_infos),
    st.builds(NodeGone, st.sampled_from(NODES)),
    st.builds(NodesListed, st.lists(node_infos, max_size=3).map(tuple)),
    st.builds(PodsListed, st.lists(pod_infos(), max_size=4).map(tuple)),
)


def newer(old: PodInfo | None, new: PodInfo) -> PodInfo:
    """Return what is true after an event: finished stays finished, bound stays bound."""
    if old is None or new.phase.terminal:
        return new
    if old.phase.terminal or (old.node_name and not new.node_name):
        return old
    return new


class CacheMachine(RuleBasedStateMachine):
    """Drives a cache and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.cache = Cache(tentative_seconds=TENTATIVE_SECONDS, clock=lambda: self.now)
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[str, PodInfo] = {}
        self.removed: set[str] = set()
        self.bookings: dict[str, tuple[PodInfo, str, float]] = {}
        self.listed: set[str] = set()

    @initialize(nodes=st.lists(node_infos, max_size=3), pods=st.lists(pod_infos(), max_size=4), both=st.booleans())
    def first_lists(self, nodes, pods, both):
        assert not self.cache.synced
        if both:
            self.relist(nodes, pods)

    # -- operations -------------------------------------------------------------------------------------------

    @rule(nodes=st.lists(node_infos, max_size=3), pods=st.lists(pod_infos(), max_size=4))
    def relist(self, nodes, pods):
        self.cache.relist(nodes, pods)
        self.nodes = {n.name: n for n in nodes}
        self.listed |= {"nodes"}
        before = self.pods
        self._list_pods(pods)
        for uid in before.keys() - self.pods.keys():
            self.bookings.pop(uid, None)
        self._settle()

    def _list_pods(self, pods):
        self.pods = {p.uid: newer(self.pods.get(p.uid), p) for p in {p.uid: p for p in pods}.values()}
        self.removed -= self.pods.keys()
        self.listed |= {"pods"}

    @rule(data=st.data(), size=st.integers(0, 8))
    def batch(self, data, size):
        generation = self.cache.snapshot.generation
        changes = [data.draw(events) for _ in range(size)]
        self.cache.apply(changes)
        known = set(self.pods)
        for change in changes:
            self._told(change)
            known |= self.pods.keys()
        for uid in (known - self.pods.keys()) | self.removed:
            self.bookings.pop(uid, None)
        self._settle()
        assert self.cache.snapshot.generation <= generation + 1, "a batch is one change"

    def _told(self, change):
        match change:
            case NodesListed(nodes):
                self.nodes = {n.name: n for n in nodes}
                self.listed |= {"nodes"}
            case PodsListed(pods):
                self._list_pods(pods)
            case NodeSeen(info):
                self.nodes[info.name] = info
            case NodeGone(name):
                self.nodes.pop(name, None)
            case PodSeen(info):
                if info.uid not in self.removed:
                    self.pods[info.uid] = newer(self.pods.get(info.uid), info)
            case PodGone(uid):
                self.pods.pop(uid, None)
                self.removed.add(uid)
            case _:
                raise AssertionError(change)

    @rule(few=st.booleans())
    def another_way_to_the_snapshot(self, few):
        self.cache._books.rebuild_from = 256 if few else 0

    @rule(info=node_infos)
    def update_node(self, info):
        self.cache.update_node(info)
        self.nodes[info.name] = info

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name):
        self.cache.remove_node(name)
        self.nodes.pop(name, None)

    @rule(info=pod_infos())
    def update_pod(self, info):
        self.cache.update_pod(info)
        if info.uid not in self.removed:
            self.pods[info.uid] = newer(self.pods.get(info.uid), info)
        self._settle()

    @rule(uid=st.sampled_from(PODS))
    def remove_pod(self, uid):
        self.cache.remove_pod(uid)
        self.pods.pop(uid, None)
        self.removed.add(uid)
        self.bookings.pop(uid, None)

    @rule(info=pod_infos(), name=st.sampled_from((*NODES, "gone")))
    def assume(self, info, name):
        waiting = replace(info, node_name="")
        self.cache.assume(waiting, name, self.now)
        if info.uid not in self.removed and not self._placed(info.uid):
            self.bookings[info.uid] = (waiting, name, self.now + TENTATIVE_SECONDS)

    @rule(uid=st.sampled_from(PODS))
    def forget(self, uid):
        self.cache.forget(uid)
        self.bookings.pop(uid, None)

    @rule(seconds=st.sampled_from((1.0, 4.0, 11.0)))
    def time_passes(self, seconds):
        self.now += seconds
        self.cache.expire(self.now)
        self.bookings = {uid: line for uid, line in self.bookings.items() if line[2] > self.now}

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), name=st.sampled_from(NODES))
    def bind(self, data, name):
        target = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        fault = self.cache.bind(target.uid, target.namespace, target.name, name)
        again = self.cache.bind(target.uid, target.namespace, target.name, name)
        assert fault == again, "a repeated bind has the same outcome"
        if not fault:
            self.pods[target.uid] = replace(target, node_name=name)
        self._settle()

    def _placed(self, uid: str) -> bool:
        known = self.pods.get(uid)
        return known is not None and (bool(known.node_name) or known.phase.terminal)

    def _settle(self) -> None:
        self.bookings = {uid: line for uid, line in self.bookings.items() if not self._placed(uid)}

    # -- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def the_snapshot_is_the_one_built_from_scratch(self):
        got, want = self.cache.snapshot, Snapshot.of(self.nodes.values(), self.pods.values())
        assert got.table.nodes == want.table.nodes
        assert got.used.tolist() == want.used.tolist()
        assert got.pods == want.pods
        assert got.orphans == want.orphans
        assert got.pending == want.pending
        assert got.mix.counts == want.mix.counts
        assert got.nominated == want.nominated

    @invariant()
    def booked_is_the_sum_of_the_live_bookings(self):
        snapshot = self.cache.snapshot
        want = np.zeros_like(snapshot.used)
        for info, name, _ in self.bookings.values():
            if (row := snapshot.table.index.get(name)) is not None:
                want[snapshot.table.axis.index["pods"], row] += 1
                for resource, amount in info.requests.items():
                    if resource in snapshot.table.axis.index:
                        want[snapshot.table.axis.index[resource], row] += amount
        got = np.zeros_like(want) if snapshot.booked is None else snapshot.booked
        assert got.tolist() == want.tolist()
        assert {uid: (line.node, line.deadline) for uid, line in self.cache.view.ledger.lines.items()} == {
            uid: (name, deadline) for uid, (_, name, deadline) in self.bookings.items()
        }

    @invariant()
    def the_ledger_never_changes_what_fits(self):
        asked = pod("asked").gpus(2).build()
        got = filter_nodes(self.cache.snapshot, asked)
        want = filter_nodes(Snapshot.of(self.nodes.values(), self.pods.values()), asked)
        assert [got.reason(row) for row in range(len(self.nodes))] == [
            want.reason(row) for row in range(len(self.nodes))
        ]

    @invariant()
    def its_own_booking_is_left_out_when_a_pod_is_scored(self):
        for uid in PODS:
            scored = self.cache.view.for_scoring(uid)
            others = Cache(tentative_seconds=TENTATIVE_SECONDS)
            others.relist(self.nodes.values(), self.pods.values())
            for other, (info, name, _) in self.bookings.items():
                if other != uid:
                    others.assume(info, name, self.now)
            assert scored.free_for_score.tolist() == others.snapshot.free_for_score.tolist()

    @invariant()
    def every_pod_is_in_one_state(self):
        for uid in PODS:
            known = self.pods.get(uid)
            if known is not None and known.phase.terminal:
                want: PodState | None = PodState.TERMINAL
            elif known is not None and known.node_name:
                want = PodState.BOUND
            elif uid in self.bookings:
                want = PodState.TENTATIVE
            else:
                want = None if known is None else PodState.PENDING
            assert self.cache.state(uid) is want

    @invariant()
    def synced_tells_whether_both_lists_are_in(self):
        assert self.cache.synced is (self.listed == {"nodes", "pods"})


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestCache = CacheMachine.TestCase
