"""Groups of pods that the quota LP does not tell apart, and what their pods ask for together.

Coarser groups, of fewer distinctions, keep the LP small where there are many. Values only, made of a Snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from extender.packing.arrivals import Arrivals
from extender.packing.expected import shaped_classes
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.memory import ByIdentity
from extender.packing.mix import DemandMix, PodClass
from extender.packing.resources import CORE_MILLI, GIB
from extender.packing.snapshot import Snapshot

# Pods are told apart by cores and GiB per GPU in steps of so many; what asks for more than four steps is one class.
_CORE_STEP: Final = 4
_GIB_STEP: Final = 16
_STEPS: Final = 4
# However long ago a class has come: its pods run or wait, and may come again.
LEAST_WEIGHT: Final = 1e-3


class GroupKey(NamedTuple):
    """Pods that the LP does not tell apart; ``allowed`` has a byte per kind, the classes are of amounts per GPU."""

    gpus: int
    allowed: bytes
    cpu_class: int = 0
    memory_class: int = 0


def _without_memory(key: GroupKey) -> GroupKey:
    return key._replace(memory_class=0)


def _without_cpu(key: GroupKey) -> GroupKey:
    return key._replace(cpu_class=0)


COARSER: Final = (_without_memory, _without_cpu)
"""What is told apart no more where there are too many groups, one after the other."""


@dataclass(slots=True)
class Group:
    """What the pods of a group ask for together; ``least_cpu_milli`` by the most modest pod of it."""

    place: int
    gpus: float = 0.0
    waiting: int = 0
    cpu_milli: float = 0.0
    memory_bytes: float = 0.0
    least_cpu_milli: int = 2**62

    def add(self, other: Group) -> None:
        """Take in what other pods ask for."""
        self.gpus += other.gpus
        self.waiting += other.waiting
        self.cpu_milli += other.cpu_milli
        self.memory_bytes += other.memory_bytes
        self.least_cpu_milli = min(self.least_cpu_milli, other.least_cpu_milli)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups in order of their places, and the place of each class of pods that some kind could hold."""

    by_key: Mapping[GroupKey, Group]
    of_class: Mapping[PodClass, int]

    @classmethod
    def of(cls, snapshot: Snapshot, kinds: NodeKinds) -> Groups:
        """Return the groups of a Snapshot's mix."""
        by_key: dict[GroupKey, Group] = {}
        of_class: dict[PodClass, int] = {}
        waiting = DemandMix.of(pod for pod in snapshot.pending.values() if not pod.gated).counts
        # By identity, as in expected.shaped_classes.
        known: ByIdentity[Shape, GroupKey] = snapshot.table.remember("quota keys", kinds.resource, ByIdentity)
        arrivals = snapshot.history.arrivals or Arrivals()
        shaped = shaped_classes(snapshot.table, kinds, snapshot.mix)
        for pods, shape, _ in shaped:
            key = known.recall(shape, lambda shape: _key(kinds, shape))
            if 1 in key.allowed:
                group = by_key.setdefault(key, Group(len(by_key)))
                count = max(arrivals.weight(pods), LEAST_WEIGHT)
                group.gpus += count * shape.gpus
                group.waiting += waiting.get(pods, 0) * shape.gpus
                group.cpu_milli += count * shape.cpu_milli
                group.memory_bytes += count * shape.memory_bytes
                group.least_cpu_milli = min(group.least_cpu_milli, shape.cpu_milli)
                of_class[pods] = group.place
        known.trim(len(shaped))
        return cls(by_key, of_class)

    def __len__(self) -> int:
        return len(self.by_key)

    def merged(self, coarse: Callable[[GroupKey], GroupKey]) -> Groups:
        """Return the groups that a coarser key tells apart."""
        by_key: dict[GroupKey, Group] = {}
        places: dict[int, int] = {}
        for key, group in self.by_key.items():
            whole = by_key.setdefault(coarse(key), Group(len(by_key)))
            whole.add(group)
            places[group.place] = whole.place
        return Groups(by_key, {pods: places[place] for pods, place in self.of_class.items()})

    def only(self, places: Collection[int]) -> Groups:
        """Return the groups at some places alone, in their order; classes of other groups are in none."""
        if len(places) == len(self):
            return self
        kept = {key: group for key, group in self.by_key.items() if group.place in places}
        fresh = {group.place: place for place, group in enumerate(kept.values())}
        of_class = {pods: fresh[place] for pods, place in self.of_class.items() if place in fresh}
        return Groups({key: replace(group, place=fresh[group.place]) for key, group in kept.items()}, of_class)


def _key(kinds: NodeKinds, shape: Shape) -> GroupKey:
    allowed = np.frombuffer(shape.allowed, dtype=np.bool_) & kinds.could_hold(shape)
    cores, gib = shape.cpu_milli / CORE_MILLI / shape.gpus, shape.memory_bytes / GIB / shape.gpus
    return GroupKey(shape.gpus, allowed.tobytes(), _step(cores / _CORE_STEP), _step(gib / _GIB_STEP))


def _step(steps: float) -> int:
    return min(int(-(-steps // 1)), _STEPS + 1)
