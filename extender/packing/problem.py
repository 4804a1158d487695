"""The packing problem: classes of pending pods, and rows of nodes with what is free on them.

Built from a Snapshot with the masks and the arithmetic of Filter, so a pod may go to a row exactly when Filter says so.
A solution is a ``Layout``; whether it is feasible and what it is worth is said here and nowhere else.

Room that preemption has promised is no part of the problem: a pod nominated to a node on which it fits now is *seated*
there beforehand, and what other nominated pods hold is not free. All values are plain arrays and tuples, so that a
problem can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from extender.packing.fit import filter_nodes, static_verdicts
from extender.packing.gangs import Gang, GangKey, Quorum, gang_key, gangs_of
from extender.packing.resources import MAX_AMOUNT, PODS, countable, minus, plus
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, IntMatrix, IntVector, NodeTable, Rows, frozen
from extender.packing.types import PodInfo

_ALL: Final = slice(None)

ABSENT: Final = -1
"""Free amount of a resource that no node names: not even a request for nothing is compared with it."""


def queue_order(pod: PodInfo) -> tuple[int, float, str]:
    """Return the key of PrioritySort: higher priority first, then older, then by uid."""
    return (-pod.priority, pod.created, pod.uid)


@dataclass(frozen=True, slots=True)
class QueueClass:
    """Pods that are the same to a plan.

    Attributes:
        uids: the pods, in the order of the queue.
        priority: theirs.
        gpus: what each counts for: units of its GPU resource, 0 for a pod without GPUs.
        gpu_at: place of that resource in ``PackingProblem.resources``, -1 for a pod without GPUs.
        whole: it counts whole exclusive GPUs.
        requests: int per resource of the problem; ``pods`` is 1.
        mask: which row of ``PackingProblem.masks`` says where they may run, amounts aside.
        gang: which of ``PackingProblem.gangs`` they belong to, -1 for none.
    """

    uids: tuple[str, ...]
    priority: int
    gpus: int
    gpu_at: int
    whole: bool
    requests: tuple[int, ...]
    mask: int
    gang: int = -1

    def __len__(self) -> int:
        return len(self.uids)


class Goal(StrEnum):
    """What a plan is judged by, in this order; the first two once per priority, the highest first."""

    GPUS = "GPUs placed"
    OTHERS = "pods without GPUs placed"
    OPENED = "unused GPU nodes opened"
    PARTIAL = "GPU nodes left partly used"


@dataclass(frozen=True, slots=True)
class Level:
    """One term of the lexicographic objective; ``priority`` is 0 where it means nothing."""

    goal: Goal
    priority: int = 0

    @property
    def counts_pods(self) -> bool:
        """Tell whether it is about what is placed, so that more is better; the others count nodes, less is better."""
        return self.goal in {Goal.GPUS, Goal.OTHERS}


Layout = tuple[tuple[tuple[int, int], ...], ...]
"""Per class, (row, how many of its pods are placed there) in order of rows."""


@dataclass(frozen=True, eq=False)
class PackingProblem:
    """What is to be placed, and where.

    Attributes:
        nodes: the names of the rows, sorted.
        resources: what the pods ask for, sorted, with ``pods``.
        free: int64 [resource, row]; below zero where a node is overcommitted, ABSENT where no node names it.
        masks: bool [mask, row], the filters that look at no amounts.
        classes: the pods, by priority, the highest first.
        gangs: those that may start and whose pods depend on one another.
        unused: bool [row], GPU nodes of which no GPU is held.
        gpus_free, gpus_total: int64 [row], GPUs of all resources that count exclusive devices; free is 0 or more.
        seated: uid -> row of the pods that are placed beforehand; ``seated_gpus`` uid -> what they ask for.
        waiting_gangs: gangs that may not start; their pods are in no class.
    """

    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    free: IntMatrix
    masks: BoolVector
    classes: tuple[QueueClass, ...]
    gangs: tuple[Quorum, ...]
    unused: BoolVector
    gpus_free: IntVector
    gpus_total: IntVector
    seated: Mapping[str, int] = field(default_factory=dict)
    seated_gpus: Mapping[str, int] = field(default_factory=dict)
    waiting_gangs: Mapping[str, Gang] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, pods: Iterable[PodInfo]) -> PackingProblem:
        """Build the problem of placing ``pods``, which hold no node, beside what runs in the snapshot."""
        return _Builder(snapshot, sorted({pod.uid: pod for pod in pods}.values(), key=queue_order)).problem()

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Return the terms of the objective, the most important first."""
        found: dict[Level, None] = {}
        for group in self.classes:
            found.setdefault(Level(Goal.GPUS, group.priority))
            if not group.gpus:
                found.setdefault(Level(Goal.OTHERS, group.priority))
        first = sorted(found, key=lambda level: (-level.priority, level.goal is not Goal.GPUS))
        return (*first, Level(Goal.OPENED), Level(Goal.PARTIAL))

    def alone(self, group: QueueClass) -> BoolVector:
        """Return the rows on which one pod of a class fits as things stand: Filter's answer."""
        fits: BoolVector = self.masks[group.mask].copy()
        for at, amount in enumerate(group.requests):
            if amount > 0:
                fits &= self.free[at] >= amount
        return fits

    def value(self, layout: Layout) -> tuple[int, ...]:
        """Return what a layout is worth, one integer per level; negative where less is better."""
        placed = [sum(count for _, count in rows) for rows in layout]
        taken = self.gpus_taken(layout)
        worth = [(level, self._worth(level, placed, taken)) for level in self.levels]
        return tuple(amount if level.counts_pods else -amount for level, amount in worth)

    def gpus_taken(self, layout: Layout) -> IntVector:
        """Return int64 [row], the whole GPUs that a layout places per row."""
        taken = np.zeros(len(self), dtype=np.int64)
        for group, rows in zip(self.classes, layout, strict=True):
            for row, count in rows:
                taken[row] += count * countable(group.gpus) * group.whole
        return taken

    def _worth(self, level: Level, placed: Sequence[int], taken: IntVector) -> int:
        ours = [(n, c) for n, c in zip(placed, self.classes, strict=True) if c.priority == level.priority]
        match level.goal:
            case Goal.GPUS:
                return sum(n * c.gpus for n, c in ours)
            case Goal.OTHERS:
                return sum(n for n, c in ours if not c.gpus)
            case Goal.OPENED:
                return int(self.opened(taken).sum())
            case Goal.PARTIAL:
                return int(self.partial(taken).sum())

    def opened(self, taken: IntVector, rows: Rows | slice = _ALL) -> BoolVector:
        """Return which of some rows are unused GPU nodes no longer, given int64 [row] GPUs taken of them."""
        found: BoolVector = self.unused[rows] & (taken > 0)
        return found

    def partial(self, taken: IntVector, rows: Rows | slice = _ALL) -> BoolVector:
        """Return which of some rows are left with some GPUs free and some not."""
        left = self.gpus_free[rows] - taken
        found: BoolVector = (left > 0) & (left < self.gpus_total[rows])
        return found

    def feasible(self, layout: Layout) -> bool:
        """Tell whether a layout keeps to the masks, the amounts, the number of pods, and gangs."""
        free = self.free.copy()
        members = dict.fromkeys(range(len(self.gangs)), 0)
        for group, rows in zip(self.classes, layout, strict=True):
            requests = np.array(group.requests, dtype=np.int64)
            for row, count in rows:
                short = (requests > 0) & (requests * count > free[:, row])
                if count <= 0 or not self.masks[group.mask, row] or short.any():
                    return False
                free[:, row] -= requests * count
            placed = sum(count for _, count in rows)
            if placed > len(group):
                return False
            if group.gang >= 0:
                members[group.gang] += placed
        return all(not placed or placed >= self.gangs[gang].needed for gang, placed in members.items())


class _Builder:
    """Builds one problem; the steps share the sorted pods and what they ask for."""

    def __init__(self, snapshot: Snapshot, pods: list[PodInfo]) -> None:
        self._snapshot, self._pods = snapshot, pods
        self._resources = tuple(sorted({PODS, *(name for pod in pods for name, n in pod.requests.items() if n > 0)}))
        self._masks: dict[object, int] = {}
        self._mask_rows: list[BoolVector] = []

    def problem(self) -> PackingProblem:
        table = self._snapshot.table
        gangs = gangs_of(self._snapshot, self._pods)
        bound = [key for key, gang in gangs.items() if gang.ready and gang.bound]
        ready = {key: at for at, key in enumerate(bound)}
        seated = self._seated(gangs)
        classes = self._classes(ready, gangs, seated)
        free = self._free({uid for group in classes for uid in group.uids if group.gang >= 0})
        held, total = _gpus(table, self._snapshot.used), _gpus(table, table.allocatable)
        gpus_free = minus(total, held)
        for uid, row in seated.items():
            pod = self._snapshot.pending[uid]
            gpus_free[row] = max(-MAX_AMOUNT, int(gpus_free[row]) - pod.gpu.count * pod.gpu.whole)
        return PackingProblem(
            nodes=table.names,
            resources=self._resources,
            free=frozen(free),
            masks=frozen(np.array(self._mask_rows, dtype=np.bool_).reshape(len(self._mask_rows), len(table))),
            classes=classes,
            gangs=tuple(gangs[key].quorum for key in ready),
            unused=frozen((total > 0) & (gpus_free == total)),
            gpus_free=frozen(np.maximum(gpus_free, 0)),
            gpus_total=frozen(total),
            seated=seated,
            seated_gpus={uid: self._snapshot.pending[uid].gpu.count for uid in seated},
            waiting_gangs={gang.name: gang for gang in gangs.values() if not gang.ready},
        )

    def _seated(self, gangs: Mapping[GangKey, Gang]) -> dict[str, int]:
        """Return the nominated pods that fit on their node now; those bound to a gang are placed with it."""
        found = {}
        single = [pod for pod in self._pods if pod.group is None or not gangs[gang_key(pod.group)].bound]
        for row, group in self._snapshot.nominated.items():
            asked = [pod for pod in single if any(pod.uid == n.uid for n in group)]
            found.update({p.uid: row for p in asked if bool(filter_nodes(self._snapshot, p).fits[row])})
        return found

    def _free(self, in_gangs: Collection[str]) -> IntMatrix:
        """Return what is free to plan with: less what nominated pods hold, unless their gang is placed."""
        index = self._snapshot.table.axis.index
        absent = np.full(len(self._snapshot), ABSENT, dtype=np.int64)
        rows = [self._snapshot.free[index[name]] if name in index else absent for name in self._resources]
        free = np.array(rows, dtype=np.int64).reshape(len(rows), len(self._snapshot))
        for row, group in self._snapshot.nominated.items():
            for pod in group:
                if pod.uid not in in_gangs:
                    left = zip(free[:, row].tolist(), self._requests(pod), strict=True)
                    free[:, row] = [max(-MAX_AMOUNT, have - amount) for have, amount in left]
        return free

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        return tuple(1 if name == PODS else max(0, pod.requests.get(name, 0)) for name in self._resources)

    def _classes(
        self, ready: Mapping[GangKey, int], gangs: Mapping[GangKey, Gang], seated: Mapping[str, int]
    ) -> tuple[QueueClass, ...]:
        found: dict[tuple[int, int, int, bool, tuple[int, ...], int, int], list[str]] = {}
        places = {name: at for at, name in enumerate(self._resources)}
        for pod in self._pods:
            key = None if pod.group is None else gang_key(pod.group)
            if pod.uid in seated or (key is not None and not gangs[key].ready):
                continue
            gang = -1 if key is None else ready.get(key, -1)
            at = places[pod.gpu.resource] if pod.gpu.count else -1
            kind = (pod.priority, pod.gpu.count, at, pod.gpu.whole, self._requests(pod), self._mask(pod), gang)
            found.setdefault(kind, []).append(pod.uid)
        return tuple(QueueClass(tuple(uids), *kind) for kind, uids in found.items())

    def _mask(self, pod: PodInfo) -> int:
        key = (pod.constraints, pod.gpu if pod.gpu.wishful else None)
        if (at := self._masks.get(key)) is None:
            at = self._masks[key] = self._noted(static_verdicts(self._snapshot.table, pod.constraints, pod.gpu).fits)
        return at

    def _noted(self, mask: BoolVector) -> int:
        """Return the place of a mask; pods with other words for the same nodes share it."""
        key = mask.tobytes()
        if key not in self._masks:
            self._masks[key] = len(self._mask_rows)
            self._mask_rows.append(mask)
        return self._masks[key]


def _gpus(table: NodeTable, amounts: IntMatrix) -> IntVector:
    """Return the sum over whole exclusive GPU resources per row."""
    total = np.zeros(len(table), dtype=np.int64)
    for resource in table.whole_gpu_resources:
        total = plus(total, np.where(table.whole(resource), amounts[table.axis.index[resource]], 0))
    return total
