"""Latency of filter and prioritize while the planner solves, beside the same while it does not.

    python -m benchmarks.planner_busy            1,000 and 5,000 nodes, about half an hour
    python -m benchmarks.planner_busy --small    200 nodes, a minute: for CI

One service with the policy `planned` follows a live cluster (controlplane/) on which pods come and go all the time
(benchmarks/eventload.py). It is asked as kube-scheduler asks, 20 ms between pods: filter about all nodes, then
prioritize about what filter has kept; see benchmarks/latency.py.

    busy    the child process solves what it is asked: quotas, and the joint plan of the queue
    idle    the child is stopped (SIGSTOP): the service waits for its answer, and scores by the last one

Nothing else differs: process, caches, events and questions are the same. Rounds go idle, busy, busy, idle, and a ratio
is between the two rounds in the middle and the two around them, so that a machine that grows slower does no harm.
*Again* is what two idle rounds of one group differ by: no ratio means less than that.

    as shipped          quotas five times a second at most, the queue once
    without a rest      as often as the service lets itself: neither period counts, what solving costs does

Writes benchmarks/results/planner_busy.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks import eventload, markdown, measured
from benchmarks.latency import SPACE_SECONDS, Connection, quantile
from benchmarks.questions import Question, prioritizes
from controlplane import build, releases
from controlplane.cluster import Cluster
from controlplane.extenderprocess import ExtenderProcess
from controlplane.plane import ADMIN, EXTENDER_USER, Plane
from controlplane.processes import Process, cpu_seconds, wait_for

RESULTS: Final = Path(__file__).parent / "results" / "planner_busy.json"
GOAL: Final = 1.1
"""What the median may be with the planner busy, times that with it idle."""

VERBS: Final = ("filter", "prioritize")
SHIPPED, RESTLESS = "as shipped", "without a rest"
PERIODS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {SHIPPED: {}, RESTLESS: {"planning__quota_period_seconds": "0.05", "planning__period_seconds": "0.1"}}
)
_SYNC_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.2
_WARM_UP: Final = 20
_PERCENT: Final = 100


@dataclass(frozen=True)
class Size:
    """How much is measured: nodes, pods that wait, pods asked about in a round, groups of four rounds."""

    nodes: int
    waiting: int
    calls: int
    groups: int


FULL: Final = (Size(1000, 500, 80, 10), Size(5000, 2000, 80, 10))
SMALL: Final = (Size(200, 60, 20, 1),)


@dataclass(frozen=True)
class Round:
    """Seconds of each call by verb; how often the child has answered meanwhile, and what CPU time that took."""

    calls: Mapping[str, Sequence[float]]
    seconds: float
    quotas: float
    plans: float
    solver_seconds: float


@dataclass(frozen=True)
class Group:
    """Four rounds: idle, busy, busy, idle."""

    idle: tuple[Round, Round]
    busy: tuple[Round, Round]


# -- measuring -----------------------------------------------------------------------------------------------------


class Bench:
    """A service that is asked, and its child, which is stopped and let go on."""

    def __init__(self, service: ExtenderProcess, connection: Connection, questions: Sequence[Question]) -> None:
        """Wait until the child has answered questions of both kinds, and ask until everything is warm."""
        self._service = service
        self._questions = questions
        self._asked = 0
        self._connection = connection
        wait_for(lambda: min(self._solved()) > 1, "quotas and queue have been solved", _SYNC_SECONDS)
        solver = service.solver()
        assert solver is not None
        self._solver = solver
        self._ask(_WARM_UP)

    def group(self, calls: int) -> Group:
        """Make four rounds of so many pods."""
        first, *busy, last = (self._round(calls, busy=busy) for busy in (False, True, True, False))
        return Group((first, last), (busy[0], busy[1]))

    def failures(self) -> float:
        """Return how often the child has given no answer."""
        return self._service.metric("plan_failures_total")

    def _round(self, calls: int, *, busy: bool) -> Round:
        with nullcontext() if busy else _stopped(self._solver):
            time.sleep(_SETTLE_SECONDS)
            if busy:
                self._wait_paced()
            before, cpu, began = self._solved(), cpu_seconds(self._solver), time.monotonic()
            seconds = self._ask(calls)
            took, cpu = time.monotonic() - began, cpu_seconds(self._solver) - cpu
            quotas, plans = (now - then for now, then in zip(self._solved(), before, strict=True))
            return Round(seconds, took, quotas, plans, cpu)

    def _wait_paced(self) -> None:
        """Wait until the child is asked at its usual pace.

        The question that it was stopped at seems to have taken long, and the service rests accordingly after it.
        """
        then = self._solved()
        wait_for(
            lambda: all(now >= before + 2 for now, before in zip(self._solved(), then, strict=True)),
            "quotas and queue are solved again",
            _SYNC_SECONDS,
            _POLL_SECONDS,
        )

    def _solved(self) -> tuple[float, float]:
        """Return how often quotas and the queue have been solved."""
        quotas, plans = (self._service.metric(f"{what}_duration_seconds_count") for what in ("quota", "plan"))
        return quotas, plans

    def _ask(self, pods: int) -> Mapping[str, Sequence[float]]:
        """Ask both verbs about so many new pods; return the seconds of each call."""
        found: dict[str, list[float]] = {verb: [] for verb in VERBS}
        for _ in range(pods):
            self._asked += 1
            prioritize = self._questions[self._asked % len(self._questions)]
            assert prioritize.first is not None
            time.sleep(SPACE_SECONDS)
            for question in (prioritize.first, prioritize):
                request = question.request(f"asked-{self._asked:08d}", 0)
                found[question.verb].append(self._connection.call(request)[0])
                time.sleep(prioritize.gap_seconds)
        return found


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, SIGCONT)


def measure(plane: Plane, size: Size) -> Iterator[dict[str, Any]]:
    """Yield the rows of a cluster, which is made first."""
    eventload.populate(Cluster(plane.api), size.nodes, size.waiting)
    counts = ("--nodes", str(size.nodes), "--waiting", str(size.waiting))
    command = [sys.executable, "-m", "benchmarks.eventload", str(plane.kubeconfig(ADMIN)), *counts]
    with Process("eventload", command, Path(tempfile.mkdtemp(dir=plane.folder))) as events:
        for pace, periods in PERIODS.items():
            groups = list(_groups(plane, size, periods))
            events.wait_ready(lambda: True)  # or the events have ended before the rounds
            yield from _rows(size, pace, groups)


def _groups(plane: Plane, size: Size, periods: Mapping[str, str]) -> Iterator[Group]:
    folder = Path(tempfile.mkdtemp(dir=plane.folder))
    source = ("--kubeconfig", plane.kubeconfig(EXTENDER_USER))
    # A stopped child must not be taken for one that is stuck; bookings end as if a watch told of each binding at once.
    settings = {
        "scoring__policy": "planned",
        "planning__deadline_seconds": "600",
        "planning__stale_seconds": "3600",
        "verbs__tentative_seconds": "0.1",
        **periods,
    }
    with ExtenderProcess(folder, *source, name="extender", port=0, **settings) as service:
        service.wait_synced(_SYNC_SECONDS)
        target = urlsplit(service.url)
        with closing(Connection((target.hostname or "", target.port or 0))) as connection:
            bench = Bench(service, connection, prioritizes(size.nodes, size.nodes, after_filter=True))
            for _ in range(size.groups):
                yield bench.group(size.calls)
        assert not bench.failures(), "the child has failed"


def _rows(size: Size, pace: str, groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    """Yield a row for each verb: medians over the groups."""
    busy, idle = [each for group in groups for each in group.busy], [each for group in groups for each in group.idle]
    seconds = sum(each.seconds for each in busy)
    for verb in VERBS:
        pooled = [tuple(_quantiles(rounds, verb) for rounds in (group.idle, group.busy)) for group in groups]
        again = [_quantiles(group.idle[1:], verb)[0] / _quantiles(group.idle[:1], verb)[0] for group in groups]
        p50s, p99s = ([after[at] / before[at] for before, after in pooled] for at in (0, 1))
        row = {
            f"{name}_{what}": round(statistics.median(pair[kind][at] for pair in pooled), 3)
            for kind, name in enumerate(("idle", "busy"))
            for at, what in enumerate(("p50", "p99"))
        }
        yield {
            "nodes": size.nodes,
            "waiting": size.waiting,
            "planner": pace,
            "verb": verb,
            "groups": len(groups),
            "calls": sum(len(each.calls[verb]) for each in busy),
            **row,
            "ratio_p50": _spread(p50s),
            "ratio_p99": _spread(p99s),
            "idle_again": _spread(again),
            "quotas_per_second": round(sum(each.quotas for each in busy) / seconds, 2),
            "plans_per_second": round(sum(each.plans for each in busy) / seconds, 2),
            "quotas": sum(each.quotas for each in busy),
            "plans": sum(each.plans for each in busy),
            "solver_cpu_share": round(sum(each.solver_seconds for each in busy) / seconds, 3),
            "solved_while_idle": sum(each.quotas + each.plans for each in idle),
        }


def _quantiles(rounds: Sequence[Round], verb: str) -> tuple[float, float]:
    """Return median and 99th percentile of rounds taken together, in milliseconds."""
    calls = [seconds for each in rounds for seconds in each.calls[verb]]
    return quantile(calls, 0.5), quantile(calls, 0.99)


def _spread(ratios: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(ratios), 3),
        "min": round(min(ratios), 3),
        "max": round(max(ratios), 3),
    }


# -- showing -------------------------------------------------------------------------------------------------------

COLUMNS: Final = (
    "nodes", "planner", "verb", "idle p50 ms", "busy p50 ms", "ratio", "goal", "again", "idle p99 ms", "busy p99 ms",
    "ratio", "quotas / s", "plans / s", "solver",
)  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    return markdown.table(COLUMNS, map(_cells, rows))


def facts(results: Mapping[str, Any]) -> str:
    """Return in sentences how busy the machine was before, and the child in the rounds."""
    runs = [row for row in results["rows"] if row["verb"] == VERBS[0]]  # the verbs of a run have its rounds in common
    quotas, plans, idle = (sum(row[name] for row in runs) for name in ("quotas", "plans", "solved_while_idle"))
    return (
        f"Load average when it began: {results['load_before']:.1f}. Solved in all busy rounds: quotas {quotas:,.0f} "
        f"times, the queue {plans:,.0f} times; in all idle rounds: {idle:,.0f} times."
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['nodes']:,}",
        row["planner"],
        row["verb"],
        f"{row['idle_p50']:.2f}",
        f"{row['busy_p50']:.2f}",
        _range(row["ratio_p50"]),
        f"{GOAL:.1f}",
        _range(row["idle_again"]),
        f"{row['idle_p99']:.2f}",
        f"{row['busy_p99']:.2f}",
        _range(row["ratio_p99"]),
        f"{row['quotas_per_second']:.1f}",
        f"{row['plans_per_second']:.1f}",
        f"{row['solver_cpu_share']:.0%}",
    ]


def _range(ratios: Mapping[str, float]) -> str:
    return markdown.spread(ratios["median"], ratios["min"], ratios["max"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 when the programs are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="200 nodes, a minute")
    parser.add_argument("--nodes", type=int, nargs="*", help="sizes (default: all)")
    parser.add_argument("--groups", type=int, help="groups of four rounds (default 10)")
    parser.add_argument("--output", type=Path, default=None, help="JSON file to write (results/planner_busy.json)")
    options = parser.parse_args(arguments)
    try:
        build.programs(releases.NEWEST)
    except build.MissingProgramError as error:
        print(error, file=sys.stderr)
        return 1
    load, rows = os.getloadavg()[0], list[dict[str, Any]]()
    for full in SMALL if options.small else FULL:
        size = replace(full, groups=options.groups or full.groups)
        if not options.nodes or size.nodes in options.nodes:
            with tempfile.TemporaryDirectory() as folder, Plane(Path(folder)) as plane:
                for row in measure(plane, size):
                    rows.append(row)
                    print(" | ".join(_cells(row)), file=sys.stderr, flush=True)
    print(table(rows))
    target = options.output or (None if options.small else RESULTS)
    if target is not None:
        measured.write(target, kubernetes=releases.NEWEST.kubernetes, load_before=round(load, 1), rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
