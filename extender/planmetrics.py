"""What is counted about plans; on the registry of the other metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.metrics import Kind, Spec
from extender.packing.forecast import Answer

SOLVED: Final = Spec(Kind.COUNTER, "plans_total", (), "Plans published.")
FAILED: Final = Spec(
    Kind.COUNTER, "plan_failures_total", ("why",),
    "Plans that did not come about: the child was late or died (`solver`), a fault of ours (`bug`).",
)  # fmt: skip
RETIRED: Final = Spec(Kind.COUNTER, "plans_retired_total", (), "Plans taken back because no newer one came in time.")
ACTIVE: Final = Spec(Kind.GAUGE, "plan_active", (), "1 while scores have a plan to look at, else 0.")
PUBLISHED: Final = Spec(
    Kind.GAUGE, "plan_timestamp_seconds", (), "When the last plan was published, in seconds since the epoch."
)
SECONDS: Final = Spec(
    Kind.HISTOGRAM, "plan_duration_seconds", (), "Time from question to answer, in the child and on the way."
)
PLAN_SPECS: Final = (SOLVED, FAILED, RETIRED, ACTIVE, PUBLISHED, SECONDS)

WHY: Final = ("solver", "bug")
_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class PlanMetrics:
    """The counters of `planning`."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        """Register; `clock` tells seconds since the epoch."""
        self._clock = clock
        self._solved = Counter(SOLVED.full_name, SOLVED.text, registry=registry)
        self._failed = Counter(FAILED.full_name, FAILED.text, FAILED.labels, registry=registry)
        self._retired = Counter(RETIRED.full_name, RETIRED.text, registry=registry)
        self._active = Gauge(ACTIVE.full_name, ACTIVE.text, registry=registry)
        self._published = Gauge(PUBLISHED.full_name, PUBLISHED.text, registry=registry)
        self._seconds = Histogram(SECONDS.full_name, SECONDS.text, registry=registry, buckets=_SECONDS)
        for why in WHY:
            self._failed.labels(why)  # at 0 from the start, or an alert on its increase would miss the first

    def solved(self, answer: Answer, seconds: float) -> None:
        """Count a plan that was published."""
        self._solved.inc()
        self._seconds.observe(seconds)
        self._active.set(1)
        self._published.set(self._clock())

    def failed(self, why: str) -> None:
        """Count a plan that did not come about; `why` is one of `WHY`."""
        self._failed.labels(why).inc()

    def retired(self) -> None:
        """Count a plan that was taken back."""
        self._retired.inc()
        self._active.set(0)
