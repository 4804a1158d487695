"""The demand mix: which shapes of pods wait and run, counted exactly; and the turnover: do more start than end?

What scoring expects to come is read off both.

A value like the Snapshot that carries it: ``moved`` returns a new mix, or the same when a pod merely gets its node.
Nothing is cut off: a shape that makes up 1 % of the pods may be the one that needs whole nodes (docs/background.md,
"Packing": FGD's 95 % cut).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from extender.packing.gpu import GpuRequest
from extender.packing.memory import Lineage
from extender.packing.resources import CPU, MEMORY
from extender.packing.selectors import NO_CONSTRAINTS, NodeConstraints
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo

T = TypeVar("T")

# Turnover forgets half of what it has seen after so large a share of the cluster's GPUs has started or ended.
_HALF_LIFE_SHARE: Final = 0.125
# When more classes change at once, what follows from them is sooner made anew.
_MOST_CLASSES: Final = 8


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that are the same to packing. ``gpu.count`` is 0 for pods without GPUs, whose constraints are left out."""

    gpu: GpuRequest
    cpu_milli: int
    memory_bytes: int
    constraints: NodeConstraints = NO_CONSTRAINTS

    @classmethod
    def of(cls, pod: PodInfo) -> PodClass:
        """Return the class of a pod."""
        # DaemonSet pods each name their node: kept, every one of them would be a class of its own.
        constraints = pod.constraints if pod.gpu.count else NO_CONSTRAINTS
        return cls(pod.gpu, pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0), constraints)


Changes = Mapping[PodClass, int]
"""By how many pods classes have grown; zeros may be among them."""


@dataclass(frozen=True, slots=True)
class DemandMix:
    """How many pods of each class wait or run."""

    counts: Mapping[PodClass, int] = field(default_factory=dict)
    _memo: Lineage[DemandMix, Changes] = field(default_factory=Lineage, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, pods: Iterable[PodInfo]) -> DemandMix:
        """Count pods; gated ones too, they will come."""
        return cls(dict(Counter(PodClass.of(pod) for pod in pods)))

    def remember(
        self,
        table: NodeTable,
        kind: str,
        key: object,
        make: Callable[[], T],
        follow: Callable[[T, NodeTable, Changes], T | None] | None = None,
    ) -> T:
        """Return ``make()``, computed once per (kind, key) while the nodes stay: what follows from mix and table alone.

        Keys must be few (resources, settings). Pods that get their node and bookings leave all of it alone. ``follow``
        brings the value along when a few classes grow or shrink (None: it cannot); it must give what ``make`` would,
        and hold no mix.
        """

        def followed(found: tuple[NodeTable, T], _: DemandMix, changes: Changes) -> tuple[NodeTable, T] | None:
            few = follow is not None and len(changes) <= _MOST_CLASSES
            value = follow(found[1], found[0], changes) if few and follow is not None else None
            return None if value is None else (found[0], value)

        found = self._memo.recall((kind, key), lambda: (table, make()), followed)
        return found[1] if found[0] is table else self._memo.put((kind, key), (table, make()), followed)[1]

    def moved(self, gone: Iterable[PodInfo], come: Iterable[PodInfo]) -> DemandMix:
        """Return the mix without some of its pods and with others."""
        # Only what is touched: hashing hundreds of classes for every pod would cost more than scoring it.
        changes: Counter[PodClass] = Counter(PodClass.of(pod) for pod in come)
        changes.subtract(PodClass.of(pod) for pod in gone)
        counts = dict(self.counts)
        for key, by in changes.items():
            if by and (count := counts.get(key, 0) + by) != 0:
                counts[key] = count
            elif by:
                del counts[key]
        if not any(changes.values()):
            return self
        fresh = DemandMix(counts)
        fresh._memo.inherit(self._memo, fresh, changes)
        return fresh


@dataclass(frozen=True, slots=True)
class Turnover:
    """Whole GPUs whose pods have started and ended of late, decayed by volume: there is no clock here.

    History, unlike all else in a Snapshot: made from nothing, it takes what runs for what has started.
    """

    started: float = 0.0
    ended: float = 0.0

    @classmethod
    def of(cls, pods: Iterable[PodInfo]) -> Turnover:
        """Return the turnover of pods that run and of which nothing else is known."""
        return cls(started=float(sum(_held_gpus(pods).values())))

    @property
    def ended_share(self) -> float:
        """Return ended / started, 0..1: 0 while the cluster only fills, 1 when it is in balance or empties."""
        return min(1.0, self.ended / self.started) if self.started else 0.0

    def moved(self, gone: Iterable[PodInfo], come: Iterable[PodInfo], cluster_gpus: int) -> Turnover:
        """Return the turnover after pods have changed: of a pod in both only a change of what it holds counts."""
        before, after = _held_gpus(gone), _held_gpus(come)
        started = sum(gpus for uid, gpus in after.items() if uid not in before)
        ended = sum(gpus for uid, gpus in before.items() if uid not in after)
        if not started and not ended:
            return self
        kept = 0.5 ** ((started + ended) / max(1.0, _HALF_LIFE_SHARE * cluster_gpus))
        return Turnover(kept * self.started + started, kept * self.ended + ended)


def _held_gpus(pods: Iterable[PodInfo]) -> dict[str, int]:
    return {pod.uid: pod.gpu.count for pod in pods if pod.holds and pod.gpu.whole and pod.gpu.count}
