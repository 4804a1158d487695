"""Plans beside the requests: when to solve, with what deadline, what to publish and when to take it back.

    Cache.snapshot --pose--> [child process: solvers] --Answer--> Guidance --Cache.advise--> Snapshot that scores read

Advice only: scores read what was published last, and without any, or with a dead child, are those of a policy that
needs no solver. No request waits for anything here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from extender.cache import Cache
from extender.packing.forecast import Answer, Posed, Question, pose, started_since
from extender.packing.snapshot import Snapshot
from extender.planmetrics import PlanMetrics
from extender.planningsettings import PlanningSettings
from extender.solverprocess import SolverError

SOLVE: Final = "extender.packing.solvers:solve"
_LOG: Final = logging.getLogger(__name__)
_TICK_SECONDS: Final = 0.2
_MAX_BACKOFF_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0


class Solver(Protocol):
    """Answers questions; `SolverProcess` in earnest."""

    def solve(self, job: Question, deadline_seconds: float) -> Answer:
        """Return the answer.

        Raises:
            SolverError: when there is none in time.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class Planning:
    """The thread that keeps the guidance of a cache fresh, from `start` to `stop`."""

    def __init__(
        self,
        cache: Cache,
        solver: Solver,
        settings: PlanningSettings,
        metrics: PlanMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put the parts together; nothing runs yet."""
        self._cache = cache
        self._solver = solver
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._solved_generation = -1
        self._not_before = 0.0
        self._published_at: float | None = None
        self._planned: Snapshot | None = None
        self._failures = 0

    def start(self) -> None:
        """Start the thread; it must be in the process that serves: threads survive no fork."""
        self._thread = threading.Thread(target=self.run, name="planning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the child; a few seconds at most."""
        self._stop.set()
        self._solver.close()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def run(self) -> None:
        """Plan until `stop`; no failure ends it."""
        while not self._stop.wait(_TICK_SECONDS):
            try:
                self.turn()
            except Exception:  # noqa: BLE001 - a bug of ours costs a plan, never the thread
                _LOG.exception("bug: planning failed")
                self._failed("bug")

    def turn(self) -> None:
        """Solve and publish if the cluster has changed and it is time; take back what has grown old."""
        now, snapshot = self._clock(), self._cache.snapshot
        due = self._cache.synced and snapshot.generation != self._solved_generation and now >= self._not_before
        if due:
            self._judge(snapshot)
            self._solve(pose(snapshot, self._settings.queue_limit))
        self._retire(self._clock())

    def _judge(self, now: Snapshot) -> None:
        """Count which pods with a planned node have got it."""
        planned = self._planned
        if planned is not None and planned.guidance is not None:
            for pod in started_since(planned, now):
                if pod.uid in planned.guidance.nodes:
                    self._metrics.ended(followed=planned.guidance.nodes[pod.uid] == pod.node_name)

    def _solve(self, posed: Posed) -> None:
        started = time.perf_counter()
        question = replace(posed.question, deterministic_seconds=self._settings.solver_seconds)
        try:
            answer = self._solver.solve(question, self._settings.deadline_seconds)
        except SolverError as error:
            if not self._stop.is_set():
                if not self._failures:
                    _LOG.warning("planning: %s; scores go on without a plan", error)
                self._failed("solver")
            return
        if self._failures:
            _LOG.info("planning: solved again after %d failures", self._failures)
        self._failures = 0
        seconds = time.perf_counter() - started
        self._cache.advise(lambda now: posed.guidance(answer, now))
        self._planned = self._cache.snapshot
        self._published_at = self._clock()
        self._solved_generation = posed.snapshot.generation
        # The child may be busy for a third of the time at most.
        self._not_before = self._published_at + max(self._settings.period_seconds, 2.0 * seconds)
        self._metrics.solved(answer, seconds)

    def _failed(self, why: str) -> None:
        self._failures += 1
        self._metrics.failed(why)
        wait = min(_MAX_BACKOFF_SECONDS, self._settings.period_seconds * 2.0**self._failures)
        self._not_before = self._clock() + wait

    def _retire(self, now: float) -> None:
        """Take guidance back that has not followed the cluster for long."""
        behind = self._cache.snapshot.generation != self._solved_generation
        if self._published_at is not None and behind and now > self._published_at + self._settings.stale_seconds:
            self._published_at = self._planned = None
            self._cache.advise(lambda _: None)
            self._metrics.retired()
