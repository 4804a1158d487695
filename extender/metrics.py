"""Every metric of the service, on a registry of its own; `docs/metrics.md` is made from the table below.

Label sets are closed: verbs, codes, causes, GPU resources and models of the cluster; never nodes or pods. What is read
off the Snapshot is in `gauges`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.gc_collector import GCCollector

from extender.wire import VERBS

PREFIX: Final = "gpu_extender_"


class Kind(Enum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric: its name without the prefix, its labels, and what it says (with its unit)."""

    kind: Kind
    name: str
    labels: tuple[str, ...]
    text: str

    @property
    def full_name(self) -> str:
        """Return the name that is scraped."""
        return PREFIX + self.name


DURATION: Final = Spec(
    Kind.HISTOGRAM, "request_duration_seconds", ("verb", "code"), "Time from body read to answer made, per verb."
)
REQUESTS: Final = Spec(Kind.COUNTER, "requests_total", ("verb", "code"), "Requests answered, by HTTP status.")
ERROR_ANSWERS: Final = Spec(
    Kind.COUNTER, "error_answers_total", ("verb",), "Answers with a non-empty `Error`; kube-scheduler shows its text."
)
BUGS: Final = Spec(
    Kind.COUNTER, "internal_errors_total", ("verb",), "Faults of our own: HTTP 500 and a traceback in the log."
)
LAST_REQUEST: Final = Spec(
    Kind.GAUGE, "last_request_timestamp_seconds", ("verb",),
    "When a verb was last asked, in seconds since the epoch; absent: never, is the extender registered?",
)  # fmt: skip
CONSIDERED: Final = Spec(
    Kind.HISTOGRAM, "nodes_considered", ("verb",), "Candidate nodes per question of filter and prioritize."
)
REJECTIONS: Final = Spec(
    Kind.COUNTER, "rejections_total", ("reason",), "Candidate nodes that filter rejected, by cause."
)
HANDOFFS: Final = Spec(
    Kind.COUNTER, "handoffs_total", ("result",),
    "Prioritize questions whose list filter had answered just before (`hit`), or not (`miss`).",
)  # fmt: skip
CUT: Final = Spec(
    Kind.COUNTER, "connections_cut_total", ("why",),
    "Connections that were ended: the TLS handshake failed or took too long (`handshake`), what came was no HTTP "
    "request or came too slowly (`head`), the answer was not taken (`answer`), there were too many (`crowd`).",
)  # fmt: skip
WAITS: Final = Spec(
    Kind.COUNTER, "refusal_waits_total", ("result",),
    "Questions of filter that left no node and waited for news of the cluster; then a node was left (`changed`), or "
    "none (`same`).",
)  # fmt: skip

REQUEST_SPECS: Final = (
    DURATION, REQUESTS, ERROR_ANSWERS, BUGS, LAST_REQUEST, CONSIDERED, REJECTIONS, HANDOFFS, WAITS, CUT,
)  # fmt: skip

_KIND: Final = ("kind",)
WATCH_EVENTS: Final = Spec(
    Kind.COUNTER, "watch_events_total", ("kind", "type"),
    "Watch events received, by kind of object (`nodes`, `pods`) and type; bookmarks too.",
)  # fmt: skip
WATCH_RESTARTS: Final = Spec(
    Kind.COUNTER, "watch_restarts_total", ("kind", "why"),
    "Watches that ended: after their time (`timeout`, every 5 to 10 minutes), with the connection (`lost`), refused by "
    "the API server (`refused`), at a version it no longer has (`expired`), by a fault of ours (`bug`).",
)  # fmt: skip
RELISTS: Final = Spec(
    Kind.COUNTER, "relists_total", _KIND, "Complete lists read: one at the start, one for each `expired` watch."
)
DRIFT: Final = Spec(
    Kind.COUNTER, "drifted_objects_total", _KIND,
    "Objects that a list showed different from what was known. Some are natural after a gap in the watch.",
)  # fmt: skip
UNREADABLE: Final = Spec(
    Kind.COUNTER,
    "unreadable_objects_total",
    _KIND,
    "Objects left out because they could not be read; the log names them.",
)
LAST_EVENT: Final = Spec(
    Kind.GAUGE, "last_event_timestamp_seconds", _KIND,
    "When the API server last told something, bookmarks (one a minute) too, in seconds since the epoch.",
)  # fmt: skip
BATCHES: Final = Spec(
    Kind.HISTOGRAM, "batch_changes", (), "Changes of the cluster that were applied together, one snapshot per batch."
)
APPLY: Final = Spec(Kind.HISTOGRAM, "apply_duration_seconds", (), "Time to apply a batch and publish its snapshot.")

WATCH_SPECS: Final = (WATCH_EVENTS, WATCH_RESTARTS, RELISTS, DRIFT, UNREADABLE, LAST_EVENT, BATCHES, APPLY)

_EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
_CHANGES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_NODES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)


class Metrics:
    """The counters and histograms of the verbs. Labelled children are kept: finding one costs as much as using it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._duration = self._histogram(DURATION, _SECONDS)
        self._requests = self._counter(REQUESTS)
        self._error_answers = self._counter(ERROR_ANSWERS)
        self._bugs = self._counter(BUGS)
        for verb in VERBS:
            self._bugs.labels(verb)  # at 0 from the start, or an alert on its increase would miss the first
        self._last_request = Gauge(
            LAST_REQUEST.full_name, LAST_REQUEST.text, LAST_REQUEST.labels, registry=self.registry
        )
        self._considered = self._histogram(CONSIDERED, _NODES)
        self._rejections = self._counter(REJECTIONS)
        self._handoffs = self._counter(HANDOFFS)
        self._cut = self._counter(CUT)
        self._waits = self._counter(WAITS)
        self._children: dict[tuple[str, int], tuple[Histogram, Counter, Gauge]] = {}
        self._considered_children: dict[str, Histogram] = {}

    def answered(self, verb: str, code: int, seconds: float, now: float) -> None:
        """Count one request; `now` in seconds since the epoch."""
        children = self._children.get((verb, code))
        if children is None:
            labels = (verb, str(code))
            children = self._duration.labels(*labels), self._requests.labels(*labels), self._last_request.labels(verb)
            self._children[verb, code] = children
        duration, requests, last = children
        duration.observe(seconds)
        requests.inc()
        last.set(now)

    def refused(self, verb: str, code: int) -> None:
        """Count a request that no scheduler sends: it says nothing of whether one asks."""
        self._requests.labels(verb, str(code)).inc()

    def considered(self, verb: str, nodes: int) -> None:
        """Count the candidates of a question."""
        child = self._considered_children.get(verb)
        if child is None:
            child = self._considered_children[verb] = self._considered.labels(verb)
        child.observe(nodes)

    def rejected(self, cause: str, nodes: int) -> None:
        """Count candidates that filter rejected."""
        self._rejections.labels(cause).inc(nodes)

    def answered_error(self, verb: str) -> None:
        """Count an answer that is an `Error`."""
        self._error_answers.labels(verb).inc()

    def handed_off(self, *, hit: bool) -> None:
        """Count a prioritize question whose rows were known, or not."""
        self._handoffs.labels("hit" if hit else "miss").inc()

    def cut(self, why: str) -> None:
        """Count a connection that we have ended."""
        self._cut.labels(why).inc()

    def waited(self, *, changed: bool) -> None:
        """Count a question that waited for news before it was refused, or was not."""
        self._waits.labels("changed" if changed else "same").inc()

    def bug(self, verb: str) -> None:
        """Count a fault of our own."""
        self._bugs.labels(verb).inc()

    def _counter(self, spec: Spec) -> Counter:
        return Counter(spec.full_name, spec.text, spec.labels, registry=self.registry)

    def _histogram(self, spec: Spec, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(spec.full_name, spec.text, spec.labels, registry=self.registry, buckets=buckets)


class WatchMetrics:
    """What is counted while a live cluster is followed; on the registry of the other metrics."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        """Register; `clock` tells seconds since the epoch."""
        self._clock = clock
        counters = {
            spec: Counter(spec.full_name, spec.text, spec.labels, registry=registry) for spec in WATCH_SPECS[:5]
        }
        self._counters = counters
        self._last_event = Gauge(LAST_EVENT.full_name, LAST_EVENT.text, LAST_EVENT.labels, registry=registry)
        self._batches = Histogram(BATCHES.full_name, BATCHES.text, registry=registry, buckets=_CHANGES)
        self._apply = Histogram(APPLY.full_name, APPLY.text, registry=registry, buckets=_SECONDS)

    def event(self, kind: str, event_type: str) -> None:
        """Count a watch event."""
        known = event_type if event_type in _EVENT_TYPES else "other"
        self._counters[WATCH_EVENTS].labels(kind, known).inc()
        self._last_event.labels(kind).set(self._clock())

    def listed(self, kind: str) -> None:
        """Count a complete list."""
        self._counters[RELISTS].labels(kind).inc()
        self._last_event.labels(kind).set(self._clock())

    def restarted(self, kind: str, why: str) -> None:
        """Count the end of a watch."""
        self._counters[WATCH_RESTARTS].labels(kind, why).inc()

    def unreadable(self, kind: str, objects: int) -> None:
        """Count objects that could not be read."""
        self._counters[UNREADABLE].labels(kind).inc(objects)

    def drifted(self, kind: str, objects: int) -> None:
        """Count objects that a list showed different."""
        self._counters[DRIFT].labels(kind).inc(objects)

    def applied(self, changes: int, seconds: float) -> None:
        """Count a batch."""
        self._batches.observe(changes)
        self._apply.observe(seconds)
