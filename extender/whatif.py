"""Which pods of a dump a what-if question is about, and who is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from extender.kube.convert import DEFAULT_SCHEDULER
from extender.packing.gangs import gang_key
from extender.packing.problem import queue_order
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.spelling import nearest

OTHER_SCHEDULERS: Final = frozenset({"volcano", "kai-scheduler", "runai-scheduler", "yunikorn"})
"""Schedulers that never ask an extender: their pods hold what they run on, but are not ours to place."""


def queued(pods: Iterable[PodInfo], schedulers: Collection[str] = ()) -> list[PodInfo]:
    """Return the pods that wait to be placed, in the order of the queue; gated ones are not in it.

    Args:
        pods: of a dump.
        schedulers: take only the pods of these; without any, those of all but OTHER_SCHEDULERS.
    """
    return sorted((pod for pod in pods if _waits(pod) and _ours(pod, schedulers)), key=queue_order)


def members_of(snapshot: Snapshot, asked: Iterable[PodInfo]) -> list[PodInfo]:
    """Return the pods that wait in the groups of the waiting pods asked about, in the order of the queue."""
    waiting = [pod for pod in asked if _waits(pod) and pod.group is not None]
    keys = {gang_key(pod.group) for pod in waiting if pod.group is not None}
    others = (pod for pod in snapshot.pending.values() if pod.group is not None and gang_key(pod.group) in keys)
    found = {pod.key: pod for pod in (*others, *waiting) if _waits(pod)}
    return sorted(found.values(), key=queue_order)


def arriving(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Return those of the pods that are to arrive that get into the queue, in the order given."""
    return [pod for pod in pods if _waits(pod)]


def left_out(pods: Iterable[PodInfo], schedulers: Collection[str] = (), arrivals: Iterable[PodInfo] = ()) -> list[str]:
    """Return a line about each kind of pods without a node that `queued` or, of the arrivals, `arriving` leaves out."""
    pods = list(pods)
    everybody = [*pods, *arrivals]
    gated = sum(pod.waiting and pod.gated for pod in everybody)
    leaving = sum(pod.terminating and not pod.node_name and not pod.phase.terminal for pod in everybody)
    others = Counter(pod.scheduler_name for pod in pods if _waits(pod) and not _ours(pod, schedulers))
    lines = [f"{_pods(gated)} behind scheduling gates left out"] if gated else []
    lines += [f"{_pods(leaving)} with a deletionTimestamp left out"] if leaving else []
    return lines + [
        f"{_pods(count)} of scheduler {name} left out; --scheduler {name} takes them in"
        for name, count in sorted(others.items())
    ]


def unknown_schedulers(pods: Iterable[PodInfo], schedulers: Iterable[str]) -> list[str]:
    """Return a line about each of the schedulers that no pod has, running or not, and which was probably meant."""
    present = {pod.scheduler_name for pod in pods}
    known = present | OTHER_SCHEDULERS | {DEFAULT_SCHEDULER}
    return [
        f"no pod in the input has scheduler {name}{'' if name in known else nearest(name, known)}"
        for name in dict.fromkeys(schedulers)
        if name not in present
    ]


def _waits(pod: PodInfo) -> bool:
    return pod.waiting and not pod.gated


def _ours(pod: PodInfo, schedulers: Collection[str]) -> bool:
    return pod.scheduler_name in schedulers if schedulers else pod.scheduler_name not in OTHER_SCHEDULERS


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
