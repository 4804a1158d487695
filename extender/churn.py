"""Jobs that come and go over simulated time, and how long they wait.

What waits is tried again in queue order whenever a pod leaves. With a back-off it is as in kube-scheduler:

    found no node          waits for a pod to leave; is tried then, or once its back-off is over
    was answered `Error`   is tried once its back-off is over, whatever happens

The back-off is counted from the last attempt and doubles with each. An `Error` is what our filter answers when all that
is left is held for larger pods (docs/holds.md). Not simulated: the flush after five minutes without an event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from extender.heldnodes import HeldNodes
from extender.packing.mix import PodClass
from extender.packing.problem import queue_order
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement

# Enough to reach any longest back-off.
_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class Job:
    """A pod with a life: it arrives, waits, runs for ``duration_seconds``, and leaves."""

    arrival_seconds: float
    duration_seconds: float
    pod: PodInfo


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a job waited; ``seconds`` counts up to the end of the simulation for one that never started."""

    pod: PodInfo
    seconds: float
    started: bool


@dataclass(frozen=True, slots=True)
class BackOff:
    """Seconds between two attempts at one pod (``podInitialBackoffSeconds``, ``podMaxBackoffSeconds``)."""

    first: float = 1.0
    longest: float = 10.0

    def after(self, attempts: int) -> float:
        """Return how long a pod waits at least that has been tried so often (backoff_queue.go)."""
        return min(self.longest, self.first * 2.0 ** min(attempts - 1, _DOUBLINGS))


NO_BACK_OFF: Final = BackOff(0.0, 0.0)


@dataclass
class _Waiting:
    """A job in the queue; `woken`: something has happened since its last attempt."""

    job: Job
    attempts: int = 0
    not_before: float = 0.0
    woken: bool = False


@dataclass
class Churn:
    """Jobs that come and go.

    Attributes:
        scheduler: places them; it is asked at the times of the simulation alone.
        back_off: how soon one that has failed may be tried again; by default at once.
        held: what the scheduler's extender keeps from smaller pods, told the time here.
    """

    scheduler: KubeScheduler
    back_off: BackOff = NO_BACK_OFF
    held: HeldNodes | None = None
    waits: dict[str, Wait] = field(default_factory=dict)
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _ends: list[tuple[float, str, PodInfo]] = field(default_factory=list)
    _wakes: list[float] = field(default_factory=list)

    def run(self, jobs: Iterable[Job]) -> Mapping[str, Wait]:
        """Run all jobs from the first arrival to the last; return the wait of each by pod uid."""
        now = 0.0
        for job in jobs:
            self._advance(job.arrival_seconds)
            now = job.arrival_seconds
            waiting = self._waiting[job.pod.uid] = _Waiting(job)
            self.scheduler.snapshot = self.scheduler.snapshot.with_pod(job.pod)
            self._try(waiting, now)
        for waiting in self._waiting.values():
            job = waiting.job
            self.waits[job.pod.uid] = Wait(job.pod, now - job.arrival_seconds, started=False)
        return self.waits

    def _advance(self, now: float) -> None:
        """Let pods leave, and back-offs end, up to a time."""
        while True:
            end = self._ends[0][0] if self._ends else float("inf")
            wake = self._wakes[0] if self._wakes else float("inf")
            if min(end, wake) > now:
                return
            if end <= wake:
                self.scheduler.remove(heapq.heappop(self._ends)[2])
                self._renew(end)
                for waiting in self._waiting.values():
                    self._wake(waiting, end)
            else:
                heapq.heappop(self._wakes)
            self._retry(min(end, wake))

    def _wake(self, waiting: _Waiting, now: float) -> None:
        """Let a pod be tried again once its back-off is over."""
        if not waiting.woken and waiting.not_before > now:
            heapq.heappush(self._wakes, waiting.not_before)
        waiting.woken = True

    def _retry(self, now: float) -> None:
        """Try what may be tried, in order; of a class that has just failed all fail, so the others are not asked."""
        failed: dict[PodClass, Placement] = {}
        due = [waiting for waiting in self._waiting.values() if waiting.woken and waiting.not_before <= now]
        for waiting in sorted(due, key=lambda waiting: queue_order(waiting.job.pod)):
            key = PodClass.of(waiting.job.pod)
            if key in failed:
                self._fail(waiting, failed[key], now)
            elif (placement := self._try(waiting, now)).node is None:
                failed[key] = placement

    def _try(self, waiting: _Waiting, now: float) -> Placement:
        if self.held is not None and now >= self.held.holds.next_deadline:
            self._renew(now)
        job = waiting.job
        placement = self.scheduler.schedule(job.pod)
        if placement.node is None:
            self._fail(waiting, placement, now)
            return placement
        self._renew(now)
        del self._waiting[job.pod.uid]
        self.waits[job.pod.uid] = Wait(placement.pod, now - job.arrival_seconds, started=True)
        heapq.heappush(self._ends, (now + job.duration_seconds, job.pod.uid, placement.pod))
        return placement

    def _fail(self, waiting: _Waiting, placement: Placement, now: float) -> None:
        waiting.attempts += 1
        waiting.not_before = now + self.back_off.after(waiting.attempts)
        waiting.woken = False
        is_error = self.held is not None and placement.offered > 0
        if is_error:
            self._wake(waiting, now)
        if self.held is not None:
            # As the condition that kube-scheduler writes, `Unschedulable` or `SchedulerError`.
            snapshot, pod = self.scheduler.snapshot, replace(waiting.job.pod, refused=not is_error)
            self.scheduler.snapshot = snapshot.with_changes(gone=(snapshot.pending[pod.uid],), come=(pod,))

    def _renew(self, now: float) -> None:
        if self.held is not None:
            self.held.renew(self.scheduler.snapshot, now)
