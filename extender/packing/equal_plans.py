"""Of joint plans that are worth the same, the one that suits the pods: their wishes, and GPUs left to pods that ask.

A plan is judged by what it places and by the nodes it opens or leaves in part. What the pods prefer decides among the
rest, by exchanges between two nodes: a pod goes alone, trades places with another, or the nodes trade all the plan puts
on them. Pods without GPUs then go where the default policy would send them. What is placed, and how many nodes of each
kind that takes, stays as it is. Local search, no proof: a pod may still be on a node it prefers less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from extender.packing.framework import Utilities, best_row
from extender.packing.plan import Destination, JointPlan
from extender.packing.policies.hole_aware import HoleAware, unmet_wishes
from extender.packing.problem import PackingProblem, QueueClass
from extender.packing.resources import countable
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntMatrix, IntVector, Rows
from extender.packing.types import PodInfo

MOST_TRIES: Final = 50_000
"""Exchanges that are tried: about a second. More pods with wishes than that settles have wishes unmet."""

_LEAST_GAIN: Final = 1e-9


def settled(snapshot: Snapshot, pods: Iterable[PodInfo], problem: PackingProblem, plan: JointPlan) -> JointPlan:
    """Return a plan of the same worth that suits the pods no less.

    Args:
        snapshot: the cluster, the pods not on their nodes.
        pods: the queue that was planned.
        problem: what was made of both.
        plan: its plan.
    """
    seats = _Seats.of(snapshot, pods, problem, plan)
    seats.away_from_gpus()
    if seats.exchange():
        seats.away_from_gpus()
    moved = {
        uid: replace(plan.placements[uid], node=problem.nodes[row])
        for uid, row in seats.row_of.items()
        if plan.placements[uid].node != problem.nodes[row]
    }
    placements: dict[str, Destination] = {**plan.placements, **moved}
    return replace(plan, placements=placements)


def less_preferred(
    snapshot: Snapshot, pods: Iterable[PodInfo], problem: PackingProblem, plan: JointPlan
) -> list[PodInfo]:
    """Return the placed pods that prefer another node on which they fit as things stand."""
    seats = _Seats.of(snapshot, pods, problem, plan)
    found = []
    for pod in seats.wishing:
        costs, group = seats.costs(pod), seats.class_of[pod.uid]
        least = costs[problem.alone(group)].min(initial=np.inf)
        if costs[seats.row_of[pod.uid]] > least + _LEAST_GAIN:
            found.append(pod)
    return found


@dataclass
class _Seats:
    """A plan while it is settled: who is where, and what is free. Used by one call."""

    snapshot: Snapshot
    problem: PackingProblem
    placed: Sequence[PodInfo]
    class_of: dict[str, QueueClass]
    row_of: dict[str, int]
    free: IntMatrix
    taken: IntVector
    booked: IntMatrix
    with_gpus: dict[int, list[PodInfo]] = field(default_factory=lambda: defaultdict(list))
    _costs: dict[object, Utilities] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, pods: Iterable[PodInfo], problem: PackingProblem, plan: JointPlan) -> _Seats:
        """Seat the pods as a plan says; those that a nomination has seated beforehand stay out of it."""
        class_of = {uid: group for group in problem.classes for uid in group.uids}
        rows = {name: row for row, name in enumerate(problem.nodes)}
        nodes = {uid: node for uid, node in plan.nodes.items() if uid in class_of}
        placed = [pod for pod in pods if pod.uid in nodes]
        taken = np.zeros(len(problem), dtype=np.int64)
        booked = np.zeros_like(snapshot.used) if snapshot.booked is None else snapshot.booked.copy()
        seats = cls(snapshot, problem, placed, class_of, {}, problem.free.copy(), taken, booked)
        for pod in placed:
            seats.put(pod, rows[nodes[pod.uid]])
        return seats

    def put(self, pod: PodInfo, row: int) -> None:
        """Give a pod without a seat a row."""
        self.row_of[pod.uid] = row
        self._count(pod, row, 1)
        if pod.gpu.count:
            self.with_gpus[row].append(pod)

    def take(self, pod: PodInfo) -> int:
        """Take a pod's seat away; return its row."""
        row = self.row_of.pop(pod.uid)
        self._count(pod, row, -1)
        if pod.gpu.count:
            self.with_gpus[row].remove(pod)
        return row

    def _count(self, pod: PodInfo, row: int, count: int) -> None:
        self.free[:, row] -= count * self._requests(pod)
        self.taken[row] += count * self._whole(pod)
        for name, amount in pod.requests.items():
            if (at := self.snapshot.table.axis.index.get(name)) is not None:
                self.booked[at, row] += count * amount

    def _requests(self, pod: PodInfo) -> IntVector:
        return np.array(self.class_of[pod.uid].requests, dtype=np.int64)

    def _whole(self, pod: PodInfo) -> int:
        group = self.class_of[pod.uid]
        return countable(group.gpus) * group.whole

    # -- pods without GPUs -------------------------------------------------------------------------------------

    def away_from_gpus(self) -> None:
        """Send each pod without GPUs, in the order of the queue, where the default policy would."""
        policy = HoleAware()
        for pod in self.placed:
            if pod.gpu.count:
                continue
            self.take(pod)
            requests = self._requests(pod)
            room = (self.free >= requests[:, None])[requests > 0].all(axis=0)
            rows = np.flatnonzero(room & self.problem.masks[self.class_of[pod.uid].mask])
            self.put(pod, best_row(policy, self.snapshot.with_booked(self.booked.copy()), pod, rows))

    # -- wishes ------------------------------------------------------------------------------------------------

    @cached_property
    def wishing(self) -> list[PodInfo]:
        """Return the pods with GPUs that prefer one node to another."""
        return [pod for pod in self.placed if pod.gpu.count and (pod.preferred or pod.gpu.types)]

    def costs(self, pod: PodInfo) -> Utilities:
        """Return what each row costs the pod's wishes."""
        if not pod.preferred and not pod.gpu.types:
            return self._nothing
        key = (pod.preferred, pod.gpu, pod.constraints, self.class_of[pod.uid].requests)
        if key not in self._costs:
            self._costs[key] = unmet_wishes(self.snapshot, pod)
        return self._costs[key]

    @cached_property
    def _nothing(self) -> Utilities:
        return np.zeros(len(self.problem))

    def exchange(self) -> bool:
        """Make exchanges that meet wishes better until there is none; tell whether there was one."""
        tries, changed, better = MOST_TRIES, False, True
        while better:
            better = False
            for pod in self.wishing:
                for there, out, back in islice(self._exchanges(pod), tries):
                    tries -= 1
                    if self._gains(self.row_of[pod.uid], there, out, back):
                        self._trade(self.row_of[pod.uid], there, out, back)
                        better = changed = True
                        break
        return changed

    def _exchanges(self, pod: PodInfo) -> Iterator[tuple[int, list[PodInfo], list[PodInfo]]]:
        """Yield (row, who goes there, who comes from there) that bring a pod to a row it prefers, its best first."""
        here, costs = self.row_of[pod.uid], self.costs(pod)
        better = np.flatnonzero((costs < costs[here] - _LEAST_GAIN) & self.problem.masks[self.class_of[pod.uid].mask])
        for there in better[np.argsort(costs[better], kind="stable")].tolist():
            yield there, [pod], []
            alike = {(id(self.class_of[other.uid]), id(self.costs(other))): other for other in self.with_gpus[there]}
            for other in alike.values():
                yield there, [pod], [other]
            yield there, [*self.with_gpus[here]], [*self.with_gpus[there]]

    def _gains(self, here: int, there: int, out: Sequence[PodInfo], back: Sequence[PodInfo]) -> bool:
        """Tell whether an exchange is possible, changes nothing in the plan's worth, and meets wishes better."""
        gain = sum(float(self.costs(pod)[here] - self.costs(pod)[there]) for pod in out)
        gain += sum(float(self.costs(pod)[there] - self.costs(pod)[here]) for pod in back)
        return gain > _LEAST_GAIN and self._possible(here, there, out, back) and self._as_good(here, there, out, back)

    def _possible(self, here: int, there: int, out: Sequence[PodInfo], back: Sequence[PodInfo]) -> bool:
        masks = self.problem.masks
        if not all(masks[self.class_of[pod.uid].mask, there] for pod in out):
            return False
        if not all(masks[self.class_of[pod.uid].mask, here] for pod in back):
            return False
        nothing = np.zeros(len(self.problem.resources), dtype=np.int64)
        more = sum(map(self._requests, out), nothing) - sum(map(self._requests, back), nothing)
        return not (((more > 0) & (more > self.free[:, there])) | ((more < 0) & (-more > self.free[:, here]))).any()

    def _as_good(self, here: int, there: int, out: Sequence[PodInfo], back: Sequence[PodInfo]) -> bool:
        more = sum(map(self._whole, out)) - sum(map(self._whole, back))
        rows = np.array([here, there])
        return self._nodes_used(rows, self.taken[rows]) == self._nodes_used(rows, self.taken[rows] + [-more, more])

    def _nodes_used(self, rows: Rows, taken: IntVector) -> tuple[int, int]:
        """Return (unused nodes opened, nodes left partly used) among some rows."""
        return int(self.problem.opened(taken, rows).sum()), int(self.problem.partial(taken, rows).sum())

    def _trade(self, here: int, there: int, out: Sequence[PodInfo], back: Sequence[PodInfo]) -> None:
        for pod in (*out, *back):
            self.take(pod)
        for pods, row in ((out, there), (back, here)):
            for pod in pods:
                self.put(pod, row)
