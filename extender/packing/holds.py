"""Holds: a block that a larger waiting pod could take at this moment is not broken by a smaller pod, for a short time.

When GPUs are given back, the pod that needs them all sits in kube-scheduler's back-off for up to 10 s; pods of one GPU
that come meanwhile would take the block to pieces, again and again, and the large pod waits for days. So each such pod
is promised one node on which it fits now. A smaller pod of at most its priority may use what the promise leaves over.

Bounded in every way: a promise lasts seconds, then pod and node rest for minutes (the pod has not come for it:
something stops it that we do not model); so does a pod that has lost several to its like; and there are few at a time.
Nothing is promised to a pod that is gone, gated, not yet refused by the scheduler, or that fits nowhere. Values only:
`now` is the caller's clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from extender.packing.fit import Cause, Reason, fitting
from extender.packing.framework import Rows
from extender.packing.mix import PodClass
from extender.packing.resources import PODS
from extender.packing.snapshot import Changed, Snapshot
from extender.packing.table import BoolVector
from extender.packing.types import PodInfo

HELD: Final = Reason(Cause.HELD, "node(s) held for a larger pod that waits", resolvable=True)

# Each takes a pass over all nodes, at every change of the cluster.
_MOST_CLASSES: Final = 32
_SMALLEST: Final = 2

_Key = tuple[PodClass, int]
"""Class and priority: what decides where a pod fits."""


@dataclass(frozen=True, slots=True)
class HoldRules:
    """How far holds may go.

    Attributes:
        seconds: how long a node is promised; 0 switches holds off.
        limit: promises at a time.
        lost_seconds: how long a pod may hold, over all turns that it lost to its like, before it rests.
        rest_seconds: how long a pod that did not come for its node gets no other, and the node no other pod.
    """

    seconds: float = 15.0
    limit: int = 16
    lost_seconds: float = 60.0
    rest_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A node promised to a pod until some time, in seconds; ``as_large`` are the pods there of at least its size."""

    pod: PodInfo
    node: str
    until: float
    as_large: frozenset[str]


@dataclass(frozen=True, slots=True)
class Turn:
    """When somebody may hold: from `begin` to `end`, in seconds; then not before the rest is over. `uid` began it."""

    uid: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Holds:
    """The promises by pod UID.

    Attributes:
        pods, nodes: the turns of pods by UID, and of nodes by name. A pod that does not come for its node rests, on
            whatever node it was; so does the node, or one large pod after the other would keep it for ever.
        lost: how long pods have held, by UID, in turns that they lost to their like: in seconds.
        next_deadline: when the next turn or rest is over, infinity when there are none.
    """

    lines: Mapping[str, Hold] = field(default_factory=dict)
    pods: Mapping[str, Turn] = field(default_factory=dict)
    nodes: Mapping[str, Turn] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    next_deadline: float = float("inf")

    def renewed(self, snapshot: Snapshot, now: float, rules: HoldRules) -> Holds:
        """Return the holds for the present state: by priority, size, age, each pod on the block that it leaves fullest.

        A pod keeps its node for as long as it fits there; its turn goes on wherever it is. But where one of its like
        has come to the node first, the block has gone whole to whom it is kept for, and the turn never was: unless that
        has taken too long already, because one that something stops would hold for as long as its like succeed.
        """
        waiting = _waiting(snapshot) if rules.seconds > 0 else []
        if not waiting:
            return Holds() if self.pods or self.lost else self

        def known(turns: Mapping[str, Turn]) -> dict[str, Turn]:
            # Who has come for its node, or is gone, leaves no rest behind.
            return {
                key: turn
                for key, turn in turns.items()
                if turn.uid in snapshot.pending and turn.end + rules.rest_seconds > now
            }

        pods, nodes = known(self.pods), known(self.nodes)
        lost = {uid: seconds for uid, seconds in self.lost.items() if uid in snapshot.pending}
        for hold in self._taken_whole(snapshot):
            uid = hold.pod.uid
            nodes.pop(hold.node, None)
            if (turn := pods.pop(uid, None)) is not None:
                lost[uid] = lost.get(uid, 0.0) + min(now, turn.end) - turn.begin
                if lost[uid] >= rules.lost_seconds:
                    pods[uid] = replace(turn, end=now)
                    del lost[uid]
        may_hold = (pod for pod in waiting if _may(pods, pod.uid, now))
        lines = self._lines(snapshot, may_hold, pods, nodes, now, rules)
        ends = [turn.end for turn in (*pods.values(), *nodes.values())]
        deadlines = [end if end > now else end + rules.rest_seconds for end in ends]
        return Holds(lines, pods, nodes, lost, min(deadlines, default=float("inf")))

    def _taken_whole(self, snapshot: Snapshot) -> Iterator[Hold]:
        """Yield the promises whose room has gone to another pod of at least the size."""
        for hold in self.lines.values():
            row = snapshot.table.index.get(hold.node)
            if (
                row is not None
                and _as_large(snapshot, row, hold.pod) - hold.as_large
                and not fitting(snapshot, hold.pod, np.array([row]))[0]
            ):
                yield hold

    def _lines(
        self,
        snapshot: Snapshot,
        waiting: Iterable[PodInfo],
        pods: dict[str, Turn],
        nodes: dict[str, Turn],
        now: float,
        rules: HoldRules,
    ) -> dict[str, Hold]:
        lines: dict[str, Hold] = {}
        promised: dict[int, Counter[str]] = defaultdict(Counter)
        names, index = snapshot.table.names, snapshot.table.index
        resting = [index[name] for name in nodes if name in index and not _may(nodes, name, now)]
        # Promises only become more, so where a class has found nothing its other pods find nothing either.
        without: set[_Key] = set()
        for pod, key, may in _fitting(snapshot, waiting):
            if key in without:
                continue
            open_ = may.copy()
            open_[resting] = False
            for row in promised:
                open_[row] &= _leaves(snapshot, row, promised, pod)
            rows = np.flatnonzero(open_)
            if not len(rows):
                without.add(key)
                continue
            old = self.lines.get(pod.uid)
            before = None if old is None else index.get(old.node)
            row = before if before is not None and open_[before] else _tightest(snapshot, pod, rows)
            turn = pods.setdefault(pod.uid, Turn(pod.uid, now, now + rules.seconds))
            node_turn = nodes.setdefault(names[row], turn)
            lines[pod.uid] = Hold(pod, names[row], min(turn.end, node_turn.end), _as_large(snapshot, row, pod))
            promised[row].update({PODS: 1, **pod.requests})
            if len(lines) == rules.limit:
                break
        return lines

    def blocked(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> BoolVector:
        """Tell on which rows the pod would break a promise; bool, aligned with `rows` (-1 is no node, and not held)."""
        blocked = np.zeros(len(snapshot) + 1, dtype=np.bool_)
        promised: dict[int, Counter[str]] = defaultdict(Counter)
        for hold in self.lines.values():
            row = snapshot.table.index.get(hold.node)
            # Preemption has made room there for the pod itself.
            if row is not None and hold.node != pod.nominated_node and _outranks(hold.pod, pod):
                promised[row].update({PODS: 1, **hold.pod.requests})
        for row in promised:
            blocked[row] = not _leaves(snapshot, row, promised, pod)
        return blocked[rows]


def _may(turns: Mapping[str, Turn], key: str, now: float) -> bool:
    """Tell whether somebody's turn goes on, or could begin."""
    turn = turns.get(key)
    return turn is None or turn.end > now


def _waiting(snapshot: Snapshot) -> list[PodInfo]:
    """Return the pods for which a node may be held, in order; there may be thousands, of which an event changes one."""
    return snapshot.remember(
        "refused", None, lambda: sorted(filter(_waits, snapshot.pending.values()), key=_order), _waiting_still
    )


def _waiting_still(found: list[PodInfo], _: Snapshot, changed: Changed) -> list[PodInfo] | None:
    gone, come = (list(filter(_waits, pods)) for pods in (changed.gone, changed.come))
    if not gone and not come:
        return found
    found = list(found)
    for pod in gone:
        at = bisect_left(found, _order(pod), key=_order)
        if found[at : at + 1] != [pod]:
            return None  # not as it was known: all are looked at anew
        del found[at]
    for pod in come:
        insort(found, pod, key=_order)
    return found


def _waits(pod: PodInfo) -> bool:
    return pod.waiting and pod.refused and not pod.gated and pod.gpu.whole and pod.gpu.count >= _SMALLEST


def _order(pod: PodInfo) -> tuple[int, int, float, str]:
    """Order by priority as in kube-scheduler's queue, then the largest."""
    return -pod.priority, -pod.gpu.count, pod.created, pod.uid


def _fitting(snapshot: Snapshot, pods: Iterable[PodInfo]) -> Iterator[tuple[PodInfo, _Key, BoolVector]]:
    """Yield the pods that fit somewhere, each with a mask of the rows; pods with one key are judged once."""
    masks: dict[_Key, BoolVector] = {}
    everywhere = np.arange(len(snapshot))
    largest: dict[str, int] = {}
    for pod in pods:
        resource = pod.gpu.resource
        if resource not in largest:
            largest[resource] = int(snapshot.free_of(resource).max(initial=0))
        # The largest come first, and a pass for each of theirs would leave none for those that fit.
        if pod.gpu.count > largest[resource]:
            continue
        key = (PodClass.of(pod), pod.priority)
        if key not in masks:
            if len(masks) == _MOST_CLASSES:
                return
            masks[key] = fitting(snapshot, pod, everywhere)
        if masks[key].any():
            yield pod, key, masks[key]


def _as_large(snapshot: Snapshot, row: int, pod: PodInfo) -> frozenset[str]:
    """Return the UIDs of the pods on a row that hold as many GPUs as the pod asks for, or more."""
    mine = pod.gpu
    return frozenset(p.uid for p in snapshot.pods[row] if p.gpu.resource == mine.resource and p.gpu.count >= mine.count)


def _outranks(holder: PodInfo, pod: PodInfo) -> bool:
    """Tell whether a promise to `holder` counts against `pod`."""
    return (
        holder.uid != pod.uid
        and holder.priority >= pod.priority
        and holder.gpu.resource == pod.gpu.resource
        and holder.gpu.count > pod.gpu.count
    )


def _leaves(snapshot: Snapshot, row: int, promised: Mapping[int, Mapping[str, int]], pod: PodInfo) -> bool:
    """Tell whether the pod fits on a row beside what is promised there."""
    taken = promised.get(row)
    if not taken:
        return True
    index = snapshot.table.axis.index
    for name, amount in ((PODS, 1), *pod.requests.items()):
        at = index.get(name)
        if amount > 0 and (at is None or int(snapshot.free[at, row]) - taken.get(name, 0) < amount):
            return False
    return True


def _tightest(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> int:
    free = snapshot.free_of(pod.gpu.resource)[rows]
    return int(rows[np.lexsort((snapshot.table.hash_rank[rows], free))[0]])
