"""What is counted about plans; on the registry of the other metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.metrics import Kind, Spec
from extender.packing.forecast import QueueAnswer
from extender.packing.plan import Status

QUOTAS: Final = Spec(
    Kind.HISTOGRAM, "quota_duration_seconds", (), "Time from question to answer of the quotas, on the way too."
)
FAILED: Final = Spec(
    Kind.COUNTER, "plan_failures_total", ("why",),
    "Quotas or plans that did not come about: the child was late or died (`solver`), a fault of ours (`bug`).",
)  # fmt: skip
RETIRED: Final = Spec(
    Kind.COUNTER, "plans_retired_total", (), "Quotas or plans taken back because no newer ones came in time."
)
PUBLISHED: Final = Spec(
    Kind.GAUGE, "plan_timestamp_seconds", ("what",),
    "When `quotas`, and the joint plan of the `queue`, were last published, in seconds since the epoch.",
)  # fmt: skip
SECONDS: Final = Spec(
    Kind.HISTOGRAM, "plan_duration_seconds", (),
    "Time from question to answer of the joint plan of the queue, on the way too.",
)  # fmt: skip
STATUS: Final = Spec(
    Kind.GAUGE, "plan_status", ("status",),
    "1 for what is proved of the last joint plan of the queue: `OPTIMAL`, or `FEASIBLE` with a gap; all 0 without a "
    "queue.",
)  # fmt: skip
OBJECTIVE: Final = Spec(Kind.GAUGE, "plan_gpus", (), "GPUs of waiting pods that the last joint plan places.")
BOUND: Final = Spec(Kind.GAUGE, "plan_bound_gpus", (), "GPUs of waiting pods that no plan could exceed, proved.")
GAP: Final = Spec(Kind.GAUGE, "plan_gap_ratio", (), "How far the last joint plan may be from the best, as a share.")
NODES: Final = Spec(
    Kind.GAUGE, "plan_nodes", (),
    "Waiting pods whose node the last joint plan names, 0 where best fit places as much without one.",
)  # fmt: skip
FOLLOWED: Final = Spec(Kind.COUNTER, "plan_followed_total", (), "Pods that were bound to the node of their plan.")
OVERRULED: Final = Spec(Kind.COUNTER, "plan_overruled_total", (), "Pods that were bound to another node.")
PLAN_SPECS: Final = (
    QUOTAS, SECONDS, PUBLISHED, FAILED, RETIRED, STATUS, OBJECTIVE, BOUND, GAP, NODES, FOLLOWED, OVERRULED,
)  # fmt: skip

WHY: Final = ("solver", "bug")
_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class PlanMetrics:
    """The counters of `planning`."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        """Register; `clock` tells seconds since the epoch."""
        self._clock = clock
        self._failed = Counter(FAILED.full_name, FAILED.text, FAILED.labels, registry=registry)
        self._retired = Counter(RETIRED.full_name, RETIRED.text, registry=registry)
        self._published = Gauge(PUBLISHED.full_name, PUBLISHED.text, PUBLISHED.labels, registry=registry)
        self._quotas = Histogram(QUOTAS.full_name, QUOTAS.text, registry=registry, buckets=_SECONDS)
        self._seconds = Histogram(SECONDS.full_name, SECONDS.text, registry=registry, buckets=_SECONDS)
        self._status = Gauge(STATUS.full_name, STATUS.text, STATUS.labels, registry=registry)
        self._figures = {
            spec: Gauge(spec.full_name, spec.text, registry=registry) for spec in (OBJECTIVE, BOUND, GAP, NODES)
        }
        self._followed = Counter(FOLLOWED.full_name, FOLLOWED.text, registry=registry)
        self._overruled = Counter(OVERRULED.full_name, OVERRULED.text, registry=registry)
        for why in WHY:
            self._failed.labels(why)  # at 0 from the start, or an alert on its increase would miss the first

    def quotas_solved(self, seconds: float) -> None:
        """Count quotas that were published."""
        self._quotas.observe(seconds)
        self._published.labels("quotas").set(self._clock())

    def queue_planned(self, answer: QueueAnswer | None, seconds: float) -> None:
        """Count a plan that was published; None: nobody waits, there is nothing to plan."""
        self._published.labels("queue").set(self._clock())
        if answer is not None:
            self._seconds.observe(seconds)
        plan = None if answer is None else answer.plan
        for status in (Status.OPTIMAL, Status.FEASIBLE):
            self._status.labels(status).set(plan is not None and plan.status is status)
        self._figures[OBJECTIVE].set(plan.objective if plan else 0)
        self._figures[BOUND].set(plan.bound if plan else 0)
        self._figures[GAP].set(plan.gap if plan else 0)
        self._figures[NODES].set(len(plan.nodes) if plan and answer and answer.gains else 0)

    def ended(self, *, followed: bool) -> None:
        """Count a pod that had a planned node and has one now."""
        (self._followed if followed else self._overruled).inc()

    def failed(self, why: str) -> None:
        """Count a plan that did not come about; `why` is one of `WHY`."""
        self._failed.labels(why).inc()

    def retired(self) -> None:
        """Count what was taken back."""
        self._retired.inc()
