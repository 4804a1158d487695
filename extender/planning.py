"""Plans beside the requests: when to solve, with what deadline, what to publish and when to take it back.

    Cache.snapshot --pose--> [child process: solvers] --answer--> Guidance --Cache.advise--> Snapshot that scores read

Advice only: scores read what was published last, and without any, or with a dead child, are those of a policy that
needs no solver. No request waits for anything here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from extender.cache import Cache
from extender.packing.forecast import (
    Answer,
    Question,
    QueueAnswer,
    QuotaAnswer,
    pose_queue,
    pose_quotas,
    queue_guidance,
    started_since,
)
from extender.packing.guidance import Guidance
from extender.packing.quota_problem import MOST_VARIABLES
from extender.packing.snapshot import Snapshot
from extender.planmetrics import PlanMetrics
from extender.planningsettings import PlanningSettings
from extender.solverprocess import DeadlineError, SolverError

T = TypeVar("T")

SOLVE: Final = "extender.packing.solvers:solve"
_LOG: Final = logging.getLogger(__name__)
_TICK_SECONDS: Final = 0.05
_MAX_BACKOFF_SECONDS: Final = 60.0
_DOUBLINGS: Final = 16
_END_SECONDS: Final = 5.0
# Questions are posed between requests, by the interpreter that answers those: a twentieth of its time is theirs.
_REST: Final = 20.0
# An answer that takes so small a share of the deadline leaves time for a question twice as large.
_QUICK_SHARE: Final = 0.1


class Solver(Protocol):
    """Answers questions; `SolverProcess` in earnest."""

    def start(self) -> None:
        """Be ready to solve; nothing happens when it is.

        Raises:
            SolverError: when it is not in time.
        """
        ...

    def solve(self, job: Question, deadline_seconds: float) -> Answer:
        """Return the answer.

        Raises:
            SolverError: when there is none in time.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class _Pace:
    """When a kind of question is due, and how large it may be.

    Due after a change of the cluster, not too often, after failures ever later. After each that took too long the next
    is half as large, and grows again while answers come quickly: the same question would take too long for ever.
    """

    def __init__(self, period_seconds: float, settings: PlanningSettings, most: int) -> None:
        """Begin; a question may be of `most` variables or pods."""
        self._period_seconds, self._settings, self._most = period_seconds, settings, most
        self._not_before = 0.0
        self._published = False
        self._generation = -1
        self._left: float | None = None
        self.failures = 0
        self.size = most

    def seen(self, generation: int, now: float) -> None:
        """Note the cluster's present state: an answer grows old from when the cluster leaves the state it is of."""
        if self._left is None and generation != self._generation:
            self._left = now

    def due(self, generation: int, now: float) -> bool:
        """Tell whether to ask about the cluster's present state."""
        return generation != self._generation and now >= self._not_before

    def published(self, generation: int, now: float, seconds: float, posed_seconds: float) -> None:
        """Note an answer; such questions may take the child a third of the time at most, and this process little."""
        self.failures = 0
        self._published, self._generation, self._left = True, generation, None
        self._not_before = now + max(self._period_seconds, 2.0 * seconds, _REST * posed_seconds)
        if seconds < _QUICK_SHARE * self._settings.deadline_seconds:
            self.size = min(self._most, 2 * self.size)

    def failed(self, now: float, seconds: float = 0.0, *, late: bool = False) -> None:
        """Note that there was no answer after so many seconds, which are the child's time as well."""
        self.failures += 1
        if late:
            self.size = max(1, self.size // 2)
        patience = min(_MAX_BACKOFF_SECONDS, self._period_seconds * 2.0 ** min(self.failures, _DOUBLINGS))
        self._not_before = now + max(patience, 2.0 * seconds)

    def stale(self, now: float) -> bool:
        """Tell, once, that the last answer has not followed the cluster for too long."""
        if self._published and self._left is not None and now > self._left + self._settings.stale_seconds:
            self._published = False
            return True
        return False


class Planning:
    """The thread that keeps the guidance of a cache fresh, from `start` to `stop`."""

    def __init__(
        self,
        cache: Cache,
        solver: Solver,
        settings: PlanningSettings,
        metrics: PlanMetrics,
        clock: Callable[[], float] = time.monotonic,
        follows: Callable[[Snapshot], bool] = lambda _: True,
    ) -> None:
        """Put the parts together; nothing runs yet. ``follows`` tells whether the policy would look at quotas."""
        self._cache = cache
        self._solver = solver
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._follows = follows
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._quotas = _Pace(settings.quota_period_seconds, settings, MOST_VARIABLES)
        self._queue = _Pace(settings.period_seconds, settings, settings.queue_limit)
        self._planned: Snapshot | None = None
        self._unsolved: frozenset[str] = frozenset()

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
                self._metrics.failed("bug")
                for pace in (self._quotas, self._queue):
                    pace.failed(self._clock())

    def turn(self) -> None:
        """Ask what is due and publish the answers; take back what has grown old.

        Quotas go first and alone: they take milliseconds, and a queue that takes too long shall not cost them.
        """
        if not self._cache.synced:
            return
        self._see()
        if self._due(self._quotas) and self._follows(self._cache.snapshot):
            self._solve_quotas()
        if not self._stop.is_set() and self._due(self._queue):
            self._solve_queue()
        now = self._see()
        if self._quotas.stale(now):
            self._retire(lambda guidance: replace(guidance, quotas={}))
        if self._queue.stale(now):
            self._retire(lambda guidance: replace(guidance, nodes={}))

    def _see(self) -> float:
        """Tell both paces how far the cluster has come, and return the time."""
        generation, now = self._cache.snapshot.generation, self._clock()
        for pace in (self._quotas, self._queue):
            pace.seen(generation, now)
        return now

    def _due(self, pace: _Pace) -> bool:
        return pace.due(self._cache.snapshot.generation, self._clock())

    def _solve_quotas(self) -> None:
        posed, posing = _timed(lambda: pose_quotas(self._cache.snapshot, self._quotas.size))
        found = self._ask(posed.question, self._quotas)
        if found is not None:
            answer, seconds = found
            assert isinstance(answer, QuotaAnswer)  # noqa: S101 - the child answers what it is asked
            self._note_unsolved(frozenset(posed.question.problems.keys() - answer.wanted.keys()))
            self._cache.advise(lambda now: posed.guidance(answer, now))
            self._quotas.published(posed.snapshot.generation, self._clock(), seconds, posing)
            self._metrics.quotas_solved(seconds)

    def _note_unsolved(self, resources: frozenset[str]) -> None:
        """Count, and say once, that the quotas of some resources have no optimum; their scores go without."""
        if resources:
            self._metrics.failed("solver")
            if resources != self._unsolved:
                names = ", ".join(sorted(resources))
                _LOG.warning("planning: no optimum for the quotas of %s; scores go on without them", names)
        self._unsolved = resources

    def _solve_queue(self) -> None:
        snapshot = self._cache.snapshot
        self._judge(snapshot)
        self._planned = None
        limit, solver_seconds = self._queue.size, self._settings.solver_seconds
        question, posing = _timed(lambda: pose_queue(snapshot, limit, solver_seconds))
        found = (None, 0.0) if question is None else self._ask(question, self._queue)
        if found is not None:
            answer, seconds = found
            assert answer is None or isinstance(answer, QueueAnswer)  # noqa: S101 - as above
            self._cache.advise(lambda now: queue_guidance(answer, now))
            self._planned = self._cache.snapshot
            self._queue.published(snapshot.generation, self._clock(), seconds, posing)
            self._metrics.queue_planned(answer, seconds)

    def _ask(self, question: Question, pace: _Pace) -> tuple[Answer, float] | None:
        """Return the child's answer and what it took in seconds; None, and counted, when there is none."""
        started = time.perf_counter()
        try:
            self._solver.start()
            ready = time.perf_counter()
            answer = self._solver.solve(question, self._settings.deadline_seconds)
        except SolverError as error:
            if not self._stop.is_set():
                if not pace.failures:
                    _LOG.warning("planning: %s; scores go on without what it would have said", error)
                pace.failed(self._clock(), time.perf_counter() - started, late=isinstance(error, DeadlineError))
                self._metrics.failed("solver")
            return None
        if pace.failures:
            _LOG.info("planning: solved again after %d failures", pace.failures)
        # Without the start of a child, after which nobody has to rest.
        return answer, time.perf_counter() - ready

    def _judge(self, now: Snapshot) -> None:
        """Count which pods with a planned node have got it."""
        planned = self._planned
        if planned is not None and planned.guidance is not None and planned.guidance.nodes:
            for pod in started_since(planned, now):
                if pod.uid in planned.guidance.nodes:
                    self._metrics.ended(followed=planned.guidance.nodes[pod.uid] == pod.node_name)

    def _retire(self, without: Callable[[Guidance], Guidance]) -> None:
        self._cache.advise(lambda now: None if now.guidance is None else without(now.guidance))
        self._metrics.retired()


def _timed(pose: Callable[[], T]) -> tuple[T, float]:
    """Return what is posed, and the seconds of this thread's time that it took."""
    started = time.thread_time()
    return pose(), time.thread_time() - started
