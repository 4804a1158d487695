"""Gangs: pods that start together or not at all, and whether a gang may start. The one home of that rule.

A gang is all pods of one ``GroupRef`` (namespace and name; see ``kube/annotations.py`` for the markers). It may start
when the members that wait and those that run make up its size: what its PodGroup demands or its marker promises. Of
those that wait at least so many are placed as the running ones leave of the size, or none at all; which ones is open.
Where no size is known, the members present are the gang: all that wait are placed or none, and none may be gated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.packing.snapshot import Snapshot
from extender.packing.types import GroupRef, PodInfo

GangKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of the waiting members of one gang are placed together at least, if any is.

    Attributes:
        group: ``namespace/name`` of the gang.
        pods: how many members are to be placed.
        needed: how many of them it takes.
    """

    group: str
    pods: int
    needed: int

    @property
    def everyone(self) -> bool:
        """Tell whether none of the pods may be missing."""
        return self.needed >= self.pods

    def __str__(self) -> str:
        """Return the rule in words."""
        how = "as a whole" if self.everyone else f"with {self.needed} of its {self.pods} waiting pods"
        return f"group {self.group} starts {how} or not at all"


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang as a plan sees it.

    Attributes:
        name: ``namespace/name``.
        members: the pods to place, in the order given.
        running: members that hold a node.
        gated: members that wait behind a scheduling gate.
        size: members that must run together, None when neither PodGroup nor marker says.
    """

    name: str
    members: tuple[PodInfo, ...]
    running: int = 0
    gated: int = 0
    size: int | None = None

    @property
    def missing(self) -> int:
        """Return how many members there should be and are not."""
        return max(0, (self.size or 0) - self.running - len(self.members))

    @property
    def quorum(self) -> Quorum:
        """Return how many of the members to place must be placed together."""
        pods = len(self.members)
        return Quorum(self.name, pods, pods if self.size is None else max(0, self.size - self.running))

    @property
    def bound(self) -> bool:
        """Tell whether its members depend on one another; where enough run already each starts by itself."""
        return not self.ready or self.size is None or self.quorum.needed > 1

    @property
    def ready(self) -> bool:
        """Tell whether the gang may start if there is room."""
        return not self.missing and (self.size is not None or not self.gated)


def waiting_text(gang: Gang) -> str:
    """Return why a gang that is not ready may not start."""
    head = str(gang.quorum)
    if gang.missing:
        there = f"{len(gang.members)} wait" + (f", {gang.running} run" if gang.running else "")
        gated = f", {gang.gated} are gated" if gang.gated else ""
        more = f"{gang.missing} more pod{'s' * (gang.missing > 1)}"
        return f"{head}: of {gang.size} members {there}{gated}; it waits for {more}"
    return f"{head}: {gang.gated} of its members {'is' if gang.gated == 1 else 'are'} gated"


def gang_key(group: GroupRef) -> GangKey:
    """Return what tells gangs apart: members may promise different sizes."""
    return (group.namespace, group.name)


def gangs_of(snapshot: Snapshot, pods: Iterable[PodInfo]) -> dict[GangKey, Gang]:
    """Return the gangs of the pods that are to be placed; the snapshot says who else belongs to them."""
    members: dict[GangKey, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        if pod.group is not None:
            members[gang_key(pod.group)].append(pod)
    others: dict[GangKey, list[PodInfo]] = defaultdict(list)
    for pod in _grouped(snapshot) if members else ():
        if pod.group is not None and (key := gang_key(pod.group)) in members:
            others[key].append(pod)
    return {key: _gang(group, others[key]) for key, group in members.items()}


def _grouped(snapshot: Snapshot) -> Iterator[PodInfo]:
    for group in (*snapshot.pods, *snapshot.orphans.values(), snapshot.pending.values()):
        yield from (pod for pod in group if pod.group is not None)


def _gang(members: list[PodInfo], others: list[PodInfo]) -> Gang:
    asked = {pod.uid for pod in members}
    sizes = [p.group.size for p in (*members, *others) if p.group is not None and p.group.size is not None]
    return Gang(
        str(members[0].group),
        tuple(members),
        running=sum(pod.holds and not pod.terminating and pod.uid not in asked for pod in others),
        gated=sum(pod.waiting and pod.gated and pod.uid not in asked for pod in others),
        size=max(sizes, default=None),
    )
