"""A small, faithful kube-scheduler: one pod per cycle, in-tree filters and scores, our extender beside them.

Queue order is priority, then age (PrioritySort). A cycle filters, lets the extender filter, scores, adds the extender's
scores times ``weight * 10``, and chooses at random among the best, as ``selectHost`` does; the random numbers come from
a seed. Not simulated: preemption, affinity between pods, spread, volumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from extender import intree
from extender.heldnodes import HeldNodes
from extender.packing.fit import Verdicts, filter_nodes
from extender.packing.framework import Policy, Rows, Scores, run_score
from extender.packing.gangs import Gang, GangKey, gang_key, gangs_of, waiting_text
from extender.packing.snapshot import Snapshot
from extender.packing.types import Phase, PodInfo

# 100 / MaxExtenderPriority: what kube-scheduler >= 1.17 multiplies an extender's score by, besides its weight.
EXTENDER_SCALE: Final = 10
SHIPPED_WEIGHT: Final = 130
MAX_WEIGHT: Final = 10**15
"""Scores times this, and all in-tree scores on top, are 64-bit integers still."""

_MIN_FEASIBLE: Final = 100
_MIN_PERCENT: Final = 5


class Extender(Protocol):
    """What the simulated scheduler asks beside its own plugins. ``rows`` are rows of the snapshot given."""

    def filter(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
        """Return those of ``rows`` that may run the pod."""
        ...

    def prioritize(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Scores:
        """Return an integer 0..10 per row."""
        ...

    def bind(self, pod: PodInfo, node_name: str) -> None:
        """Learn the scheduler's choice."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyExtender:
    """Our Score in-process: the in-tree filters have already decided what fits; nodes are held where `held` says so."""

    policy: Policy
    held: HeldNodes | None = field(default=None, kw_only=True)

    def filter(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
        """Keep every row that is not held for a larger pod."""
        return rows if self.held is None else self.held.free_to_take(snapshot, pod, rows)

    def prioritize(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Scores:
        """Score by the policy."""
        return run_score(self.policy, snapshot, pod, rows)

    def bind(self, pod: PodInfo, node_name: str) -> None:
        """Nothing to learn: the snapshot says it."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """How the simulated scheduler is set up.

    Attributes:
        profile: in-tree score weights and strategy.
        weight: the extender's weight.
        percentage: ``percentageOfNodesToScore``; 0 is kube-scheduler's adaptive default.
        seed: of the random choice among equals.
    """

    profile: intree.Profile = intree.STOCK
    weight: int = SHIPPED_WEIGHT
    percentage: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod went: ``node`` is None when it found none, and ``reason`` says why.

    Attributes:
        offered: the nodes that the extender refused, all of them; 0 when it was not asked or left some.
    """

    pod: PodInfo
    node: str | None
    reason: str = ""
    offered: int = 0


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes a cycle looks for (schedule_one.go ``numFeasibleNodesToFind``)."""
    if nodes < _MIN_FEASIBLE or percentage >= 100:  # noqa: PLR2004 - percent
        return nodes
    percent = percentage or max(_MIN_PERCENT, 50 - nodes // 125)
    return max(_MIN_FEASIBLE, nodes * percent // 100)


@dataclass
class KubeScheduler:
    """The scheduler's state: a Snapshot it assumes pods into, and the random numbers of its ties."""

    snapshot: Snapshot
    extender: Extender | None = None
    config: SchedulerConfig = field(default_factory=SchedulerConfig)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.config.seed)
        self._used = intree.nonzero_used(self.snapshot)
        self._start = 0

    def schedule(self, pod: PodInfo) -> Placement:
        """Run one scheduling cycle and assume the pod where it goes."""
        return self._bound(self._cycle(pod))

    def schedule_gang(self, gang: Gang) -> list[Placement]:
        """Run a cycle for every member; those with a node are bound if they are enough (coscheduling's Permit)."""
        if not gang.ready:
            return [Placement(pod, None, waiting_text(gang)) for pod in gang.members]
        before = self.snapshot, self._used.copy()
        placements: list[Placement] = []
        spare = gang.quorum.pods - gang.quorum.needed
        for pod in gang.members:
            placements.append(self._cycle(pod))
            spare -= placements[-1].node is None
            if spare < 0:
                self.snapshot, self._used = before
                why = f"{gang.quorum}; {pod.key}: {placements[-1].reason}"
                return [Placement(member, None, why) for member in gang.members]
        return [self._bound(placement) for placement in placements]

    def _cycle(self, pod: PodInfo) -> Placement:
        verdicts = filter_nodes(self.snapshot, pod)
        offered = rows = self._sample(np.flatnonzero(verdicts.fits))
        if len(rows) and self.extender is not None:
            rows = self.extender.filter(self.snapshot, pod, rows)
        if not len(rows):
            return Placement(pod, None, unschedulable_text(verdicts), len(offered))
        return self._assume(pod, self._choose(pod, rows))

    def remove(self, pod: PodInfo) -> None:
        """Take a bound pod away, as when it has finished."""
        row = self.snapshot.table.index.get(pod.node_name)
        if row is not None and any(p.uid == pod.uid for p in self.snapshot.pods[row]):
            self._used[:, row] -= intree.nonzero_request(pod)
        self.snapshot = self.snapshot.without_pod(pod)

    def _sample(self, rows: Rows) -> Rows:
        """Return the window of feasible rows that sampling leaves, starting where the last cycle stopped.

        A search ends at the first feasible node beyond the limit, and the next one starts there, whatever was refused
        on the way (schedule_one.go: ``nextStartNodeIndex + processedNodes``); one that ends nowhere goes once around.
        """
        limit = nodes_to_find(len(self.snapshot), self.config.percentage)
        if len(rows) <= limit:
            return rows
        ahead = np.roll(rows, -int(np.searchsorted(rows, self._start)))
        self._start = int(ahead[limit])
        return ahead[:limit]

    def _choose(self, pod: PodInfo, rows: Rows) -> int:
        if len(rows) == 1:
            return int(rows[0])
        total = intree.score(self.snapshot, self._used, pod, rows, self.config.profile)
        if self.extender is not None:
            total = total + self.extender.prioritize(self.snapshot, pod, rows) * (self.config.weight * EXTENDER_SCALE)
        best = rows[total == total.max()]
        return int(best[self._random.integers(len(best))])

    def _assume(self, pod: PodInfo, row: int) -> Placement:
        name = self.snapshot.table.names[row]
        bound = replace(pod, node_name=name, phase=Phase.RUNNING, nominated_node="")
        self._used[:, row] += intree.nonzero_request(pod)
        waited = self.snapshot.pending.get(pod.uid)
        self.snapshot = self.snapshot.with_changes(gone=() if waited is None else (waited,), come=(bound,))
        return Placement(bound, name)

    def _bound(self, placement: Placement) -> Placement:
        """Tell the extender of a placement that stands."""
        if self.extender is not None and placement.node is not None:
            self.extender.bind(placement.pod, placement.node)
        return placement


def unschedulable_text(verdicts: Verdicts) -> str:
    """Return kube-scheduler's sentence: ``0/3 nodes are available: 2 Insufficient nvidia.com/gpu, ...``."""
    counts = Counter(verdicts.reasons[int(code)].text for code in verdicts.codes if code)
    grouped = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
    return f"0/{len(verdicts.codes)} nodes are available: {grouped}." if counts else "no node is known"


def schedule_all(
    scheduler: KubeScheduler, pods: Iterable[PodInfo], seen: Callable[[Placement], None] = lambda _: None
) -> list[Placement]:
    """Schedule pods one after the other in the order given, each tried once; a gang when its last member has come."""
    queue = list(pods)
    gangs = gangs_of(scheduler.snapshot, queue)
    last = {key: gang.members[-1].uid for key, gang in gangs.items()}
    placements: dict[str, Placement] = {}
    for pod in queue:
        for placement in _arrive(scheduler, pod, gangs, last):
            placements[placement.pod.uid] = placement
            seen(placement)
    return [placements[pod.uid] for pod in queue]


def _arrive(
    scheduler: KubeScheduler, pod: PodInfo, gangs: Mapping[GangKey, Gang], last: Mapping[GangKey, str]
) -> list[Placement]:
    if pod.group is None:
        return [scheduler.schedule(pod)]
    key = gang_key(pod.group)
    if not gangs[key].bound:
        return [scheduler.schedule(pod)]
    return scheduler.schedule_gang(gangs[key]) if last[key] == pod.uid else []
