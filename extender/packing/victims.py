"""Which pods would have to leave a node for another to run: kube-scheduler's dry run of preemption.

Source: pkg/scheduler/framework/plugins/defaultpreemption ``SelectVictimsOnNode``: take away every pod of lower
priority, see whether the pod fits, then give back as many as possible, the most important first.
PodDisruptionBudgets are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.packing.fit import static_verdicts
from extender.packing.resources import PODS
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Return the key of MoreImportantPod, most important first: priority, then age (it started earlier), then uid."""
    return (-pod.priority, pod.created, pod.uid)


def victims_on(snapshot: Snapshot, pod: PodInfo, row: int) -> tuple[PodInfo, ...] | None:
    """Return the pods to evict from one row so that ``pod`` fits, least important last; None when that cannot help.

    An empty tuple means that the pod fits as it is. Amounts only: the caller has looked at static constraints.
    """
    lower = sorted((p for p in snapshot.pods[row] if p.priority < pod.priority), key=importance)
    wanted = {**pod.requests, PODS: 1}
    room = {name: _free(snapshot, name, row) + sum(_amount(p, name) for p in lower) for name in wanted}
    if any(room[name] < amount for name, amount in wanted.items() if amount > 0):
        return None
    victims = []
    for candidate in lower:
        kept = {name: room[name] - _amount(candidate, name) for name in wanted}
        if any(kept[name] < amount for name, amount in wanted.items() if amount > 0):
            victims.append(candidate)
        else:
            room = kept
    return tuple(victims)


def eviction_helps(snapshot: Snapshot, pod: PodInfo, rows: Iterable[int]) -> bool:
    """Tell whether evicting pods would make room for ``pod`` on one of some rows; amounts only, as above."""
    # Looked at first, because mostly all pods have one priority: then none of thousands of nodes need be added up.
    return any(
        any(held.priority < pod.priority for held in snapshot.pods[row]) and victims_on(snapshot, pod, row)
        for row in rows
    )


def candidate_victims(snapshot: Snapshot, pod: PodInfo) -> Mapping[str, tuple[PodInfo, ...]]:
    """Return node -> victims for every node on which eviction would make room for ``pod``."""
    possible = static_verdicts(snapshot.table, pod.constraints, pod.gpu).fits.nonzero()[0]
    found = {snapshot.table.names[row]: victims_on(snapshot, pod, int(row)) for row in possible}
    return {name: victims for name, victims in found.items() if victims}


def preferred_node(candidates: Mapping[str, tuple[PodInfo, ...]]) -> str | None:
    """Return the node kube-scheduler would evict on (preemption.go ``pickOneNodeForPreemption``); None without any.

    The least important most-important victim, then the smallest sum of priorities, the fewest victims, the name.
    """

    def cost(name: str) -> tuple[int, int, int, str]:
        priorities = [victim.priority for victim in candidates[name]]
        return (max(priorities), sum(p + 2**31 for p in priorities), len(priorities), name)

    return min(candidates, key=cost, default=None)


def _free(snapshot: Snapshot, resource: str, row: int) -> int:
    at = snapshot.table.axis.index.get(resource)
    return 0 if at is None else int(snapshot.free[at, row])


def _amount(pod: PodInfo, resource: str) -> int:
    return 1 if resource == PODS else pod.requests.get(resource, 0)
