"""``hole-aware``: the least cost, in GPUs, of giving a node to a pod.

    cost = fragmentation + guard + large_node + cpu_ratio + ladder + preference + tie        (each term one function)

Each term says in GPUs what the cluster loses; the pods seen waiting and running are the forecast. A pod without GPUs
goes where it takes nothing from GPUs. Units are GPUs unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.packing.alike import AlikeRows
from extender.packing.contention import contention, model_list
from extender.packing.expected import FitShare
from extender.packing.fit import fitting
from extender.packing.framework import Rows, Utilities
from extender.packing.kinds import NodeKinds
from extender.packing.labels import Labels
from extender.packing.mix import Changes, PodClass
from extender.packing.policies import columns
from extender.packing.resources import CPU, MEMORY, plus
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntVector
from extender.packing.types import PodInfo

_NO_RATIO: Final = -1.0
# Fewer rows are asked about one by one.
_MANY: Final = 500


@dataclass(frozen=True, slots=True)
class Weights:
    """What each term counts; what the first four were worth in a prototype is in docs/background.md, "Packing"."""

    fragmentation: float = 1.0
    guard: float = 4.0
    large_node: float = 1.0
    cpu_ratio: float = 0.1
    ladder: float = 10.0
    preference: float = 10.0
    type_rank: float = 0.05


@dataclass(frozen=True, slots=True)
class Candidates:
    """One question: a pod that asks for whole GPUs, and the rows on which it fits, with what is free there.

    Of many rows that are alike one is asked about: then ``rows`` stand for them, and ``place`` says which for each.
    """

    snapshot: Snapshot
    pod: PodInfo
    rows: Rows
    gpus: IntVector
    cpu_milli: IntVector
    memory_bytes: IntVector
    place: Rows | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Candidates:
        """Read the free amounts of the rows, the tentative ledger counted as held."""
        # Nodes that are alike may differ in the labels that a pod prefers.
        if len(rows) >= _MANY and not pod.preferred:
            alike = AlikeRows.of(snapshot, pod.gpu.resource)
            place = alike.of_row.take(rows)
            if len(alike) < len(rows) and place.min() >= 0:
                # Of groups without a candidate too, which is cheaper than to leave them out.
                return cls(snapshot, pod, alike.rows, *alike.free, place)
        gpus, cpu, memory = (columns.free(snapshot, name, rows) for name in (pod.gpu.resource, CPU, MEMORY))
        return cls(snapshot, pod, rows, gpus, cpu, memory)

    def by_row(self, utilities: Utilities) -> Utilities:
        """Return for each candidate what was worked out for the row that stands for it."""
        return utilities if self.place is None else utilities.take(self.place)

    @property
    def count(self) -> int:
        """Return the GPUs asked for."""
        return self.pod.gpu.count


def fragmentation(question: Candidates) -> Utilities:
    """Return by how much the GPUs that the mix cannot use grow on the node: F(g - n, C - c) - F(g, C)."""
    share = FitShare.of(question.snapshot, question.pod.gpu.resource)
    requests = question.pod.requests
    free = (question.gpus, question.cpu_milli, question.memory_bytes)
    return share.growth(question.rows, free, (question.count, requests.get(CPU, 0), requests.get(MEMORY, 0)))


def guard(question: Candidates) -> Utilities:
    """Return n times the typed demand of others per free GPU of the node's model; 0 where GPUs are not whole."""
    resource = question.pod.gpu.resource
    state = contention(question.snapshot, resource)
    pressure = state.pressure(model_list(question.snapshot.table, PodClass.of(question.pod)).accepted)
    # Group -1, GPUs that are not whole, reads the last entry.
    cost: Utilities = question.count * np.concatenate((pressure, [0.0]))[state.groups.of_row[question.rows]]
    return cost


def large_node(question: Candidates) -> Utilities:
    """Return n (e + (g - n)/G) on the largest nodes (g of G GPUs free) for a pod of at most a quarter of one, else 0.

    e is the share of what starts that has ended of late. Small pods use large nodes last, the more so the wholer the
    node stays. While nothing ends, filling one up costs nothing; where pods come and go it keeps the node from becoming
    whole again.
    """
    kinds = NodeKinds.of(question.snapshot.table, question.pod.gpu.resource)
    if 4 * question.count > kinds.largest:
        return np.zeros(len(question.rows))
    # Kind -1, no whole GPUs, reads the last entry.
    charge = question.count * np.concatenate((kinds.gpus == kinds.largest, [False]), dtype=np.float64)
    left = np.maximum(question.gpus - question.count, 0)
    ended = question.snapshot.history.turnover.ended_share
    cost: Utilities = charge[kinds.of_row[question.rows]] * (ended + left / kinds.largest)
    return cost


def cpu_ratio(question: Candidates) -> Utilities:
    """Return n |C/g - c/n| / r: how badly the node's CPU per free GPU suits the pod, r the largest ratio asked for."""
    table, mix, resource = question.snapshot.table, question.snapshot.mix, question.pod.gpu.resource
    largest = mix.remember(
        table,
        "cpu ratio",
        resource,
        lambda: _largest_ratio(mix.counts, resource),
        lambda found, _, changes: _followed_ratio(found, changes, resource),
    )
    largest = 1.0 if largest == _NO_RATIO else largest
    own = question.pod.requests.get(CPU, 0) / question.count
    there = np.minimum(question.cpu_milli / np.maximum(question.gpus, 1), largest)
    return question.count * np.abs(there - own) / max(largest, 1.0)


def _largest_ratio(classes: Iterable[PodClass], resource: str) -> float:
    ratios = (c.cpu_milli / c.gpu.count for c in classes if c.gpu.resource == resource and c.gpu.count)
    return max(ratios, default=_NO_RATIO)


def _followed_ratio(found: float, changes: Changes, resource: str) -> float | None:
    """Return the largest ratio once classes have grown or shrunk; None when the class that had it may be gone."""
    found = max(found, _largest_ratio((pods for pods, by in changes.items() if by > 0), resource))
    shrunk = _largest_ratio((pods for pods, by in changes.items() if by < 0), resource)
    return None if _NO_RATIO < shrunk == found else found


def ladder(question: Candidates) -> Utilities | float:
    """Return n times the penalty of the node's model on the pod's own type ladder."""
    if not question.pod.gpu.types:
        return 0.0
    column = question.snapshot.table.models(question.pod.gpu.resource)
    penalties = np.array([*(question.pod.gpu.penalty(m) for m in column.models), 0.0])
    cost: Utilities = question.count * np.minimum(penalties, 1e6)[column.codes[question.rows]]
    return cost


def preference(question: Candidates) -> Utilities | float:
    """Return n times the share of the pod's preferred node affinity that a node misses; the best feasible node has all.

    In-tree NodeAffinity scales its score by the best feasible node likewise; at a weight that decides, that score is
    overruled, so the preference has to be honoured here.
    """
    pod = question.pod
    if not pod.preferred:
        return 0.0
    matched = Labels.of(question.snapshot.table).preferred(pod.preferred)
    everywhere = np.arange(len(question.snapshot))
    best = float(matched[fitting(question.snapshot, pod, everywhere)].max(initial=0))
    if not best:
        return 0.0
    return question.count * (1.0 - np.minimum(matched[question.rows] / best, 1.0))


def unmet_wishes(snapshot: Snapshot, pod: PodInfo) -> Utilities:
    """Return for each node what it costs the pod's own wishes, its ladder and its preferred affinity, in GPUs."""
    rows = np.arange(len(snapshot))
    amounts = (columns.free(snapshot, name, rows) for name in (pod.gpu.resource, CPU, MEMORY))
    question, weights = Candidates(snapshot, pod, rows, *amounts), Weights()
    return np.zeros(len(rows)) + weights.ladder * ladder(question) + weights.preference * preference(question)


def tie(question: Candidates) -> Utilities:
    """Return a trifle per GPU and core left over: the tighter fit wins between equals."""
    left = question.gpus - question.count
    cores = question.cpu_milli / 1000.0
    return 1e-3 * left + 1e-6 * np.minimum(cores, 1e3)


TERMS: tuple[tuple[str, Callable[[Candidates], Utilities | float]], ...] = (
    ("fragmentation", fragmentation),
    ("guard", guard),
    ("large_node", large_node),
    ("cpu_ratio", cpu_ratio),
    ("ladder", ladder),
    ("preference", preference),
)


@dataclass(frozen=True, slots=True)
class HoleAware:
    """The policy. ``type_rank`` lists models from cheapest to dearest, for operators whose GPUs differ in price."""

    name: str = "hole-aware"
    weights: Weights = field(default_factory=Weights)
    type_rank: tuple[str, ...] = ()

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return minus the cost, in GPUs; for a pod without GPUs a rank without unit (see ``away_from_gpus``)."""
        if not pod.gpu.count:
            return away_from_gpus(snapshot, pod, rows)
        if not pod.gpu.whole or pod.gpu.resource not in snapshot.table.axis.index:
            return -columns.free(snapshot, pod.gpu.resource, rows).astype(np.float64)
        question = Candidates.of(snapshot, pod, rows)
        return question.by_row(self.utilities(question))

    def utilities(self, question: Candidates) -> Utilities:
        """Return minus the cost of each row of the question."""
        return -(self.cost(question) + tie(question))

    def cost(self, question: Candidates) -> Utilities:
        """Return the weighted sum of the terms."""
        total = np.zeros(len(question.rows)) + self.weights.type_rank * self._dearness(question)
        for name, term in TERMS:
            if (weight := getattr(self.weights, name)) != 0:
                total = total + weight * term(question)
        return total

    def _dearness(self, question: Candidates) -> Utilities | float:
        """Return n times the place of the node's model in ``type_rank`` (0 when it is not in it)."""
        if not self.type_rank:
            return 0.0
        place = {label: at for at, label in enumerate(self.type_rank)}
        column = question.snapshot.table.models(question.pod.gpu.resource)
        places = np.array([*(float(place.get(m.label or "", 0)) for m in column.models), 0.0])
        return question.count * places[column.codes[question.rows]]


def away_from_gpus(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
    """Rank nodes for a pod without GPUs: no GPUs at all, then none free, then most CPU per free GPU.

    Within the first two the tightest CPU fit wins. Returns 2..3, 1..2 and 0..1 for the three.
    """
    cores = np.maximum(columns.free(snapshot, CPU, rows) - pod.requests.get(CPU, 0), 0) / 1000.0
    free, has = _gpus(snapshot, rows)
    tight = 1.0 / (1.0 + cores)
    per_gpu = cores / np.maximum(free, 1)
    roomy = per_gpu / (1.0 + per_gpu)
    return np.where(~has, 2.0 + tight, np.where(free == 0, 1.0 + tight, roomy))


def _gpus(snapshot: Snapshot, rows: Rows) -> tuple[IntVector, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return (free GPUs, whether the node has GPUs of any kind) for the rows."""
    free, has = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
    for resource in snapshot.table.gpu_resources:
        has |= snapshot.allocatable_of(resource)[rows] > 0
        free = plus(free, columns.free(snapshot, resource, rows))
    return free, has
