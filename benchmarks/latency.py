"""Latency of filter and prioritize over HTTP, beside the floor of the same body and answer size, in alternating rounds.

    python -m benchmarks.latency            all sizes, about ten minutes
    python -m benchmarks.latency --small    500 and 1,000 names, 100 full nodes, about a minute: for CI

Calls come as kube-scheduler makes them: one at a time on a kept-alive connection, each pod new, lists shuffled, filter
and then prioritize with the list that filter has answered. Between the two it reads the answer and runs its own score
plugins (prioritizeNodes in schedule_one.go calls extenders last): 1 ms and half a microsecond per name here; Go's
decoder alone takes 0.6. Paces: `spaced`, 20 ms between pods, a scheduler that is not at its limit (a sleeping core
makes every call about twice as slow); `back to back`, nothing between pods, which no scheduler manages. Goals are for
the first.

    filter                    counts: scheduler, a third of the candidates has the wrong model
    filter, own count         counts: own, besides half of the others are full
    prioritize                the list filter has answered
    prioritize, other list    a list we have not seen
    filter, full nodes        Node objects of 13.5 KB, own count

Writes benchmarks/results/latency.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import measured
from benchmarks.questions import Question, cluster, filters, full_filters, prioritizes

_ALL_CORES: Final = tuple(os.sched_getaffinity(0))
RESULTS: Final = Path(__file__).parent / "results" / "latency.json"
SPACE_SECONDS: Final = 0.02

SPACED, BACK_TO_BACK = "spaced", "back to back"
FULL_NODES: Final = "filter, full nodes"

# Ratio of the medians to the floor's: the goals of a release, and the looser gate for CI.
GOALS: Final[Mapping[tuple[str, int], float]] = {
    ("filter", 500): 2.3, ("prioritize", 500): 2.3,
    ("filter", 1000): 2.2, ("prioritize", 1000): 2.0,
    ("filter", 5000): 3.0, ("prioritize", 5000): 1.6, ("filter", 15000): 6.0,
    (FULL_NODES, 1000): 4.0, (FULL_NODES, 5000): 5.0,
}  # fmt: skip
GATE: Final = 1.6


# -- processes and calls -------------------------------------------------------------------------------------------


@contextmanager
def other_cores() -> Iterator[None]:
    """Let what is started meanwhile run on all cores but one, and this process on that one alone.

    Or client and server share a core now and then, and an answer lies there until the server has nothing left to do.
    """
    cores = sorted(os.sched_getaffinity(0) | set(_ALL_CORES))
    os.sched_setaffinity(0, cores[:-1] or cores)
    yield
    os.sched_setaffinity(0, cores[-1:])


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """Start a server of ours and yield where it listens."""
    full = [sys.executable, "-m", *command]
    with other_cores():
        process = subprocess.Popen(full, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    with process:
        try:
            assert process.stdout is not None
            match = re.match(r"listening on http://(.+):(\d+)", process.stdout.readline())
            assert match is not None, "the server did not start"
            yield match[1], int(match[2])
        finally:
            process.terminate()


@contextmanager
def serving(objects: Iterator[dict[str, Any]], counts: str) -> Iterator[tuple[str, int]]:
    """Start the service on a cluster. Bookings are short-lived, as if a watch told of each binding at once."""
    env = {"GPU_EXTENDER_VERBS__TENTATIVE_SECONDS": "0.1", "GPU_EXTENDER_VERBS__COUNTS": counts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": list(objects)}))
        command = ["extender", "serve", "--cluster", str(path), "--listen", "127.0.0.1:0"]
        with running(command, env) as address:
            yield address


class Connection:
    """A kept-alive connection, read by hand so that the client costs little."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(2**20)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def call(self, request: bytes) -> tuple[float, int]:
        """Send a request; return seconds until the last byte of the answer, and the length of its body."""
        started = time.perf_counter()
        self._socket.sendall(request)
        have = self._socket.recv_into(self._buffer)
        while (end := self._buffer.find(b"\r\n\r\n", 0, have)) < 0:
            have += self._socket.recv_into(memoryview(self._buffer)[have:])
        head = bytes(self._buffer[:end])
        match = re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE)
        assert head.startswith(b"HTTP/1.1 200"), head
        assert match is not None
        length = int(match[1])
        left = end + 4 + length - have
        while left > 0:
            left -= self._socket.recv_into(self._buffer, min(left, len(self._buffer)))
        return time.perf_counter() - started, length


# -- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of the table; times in milliseconds, medians over the rounds of each round's quantile."""

    verb: str
    candidates: int
    pace: str
    body_bytes: int
    answer_bytes: int
    floor_p50: float
    floor_p99: float
    p50: float
    p99: float
    ratio_p50: float
    ratio_p99: float
    goal: float | None


def quantile(seconds: Sequence[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))] * 1000


class Bench:
    """A server of ours and the floor, asked in turn."""

    def __init__(self, service: tuple[str, int], floor: tuple[str, int], rounds: int) -> None:
        self._service, self._floor = Connection(service), Connection(floor)
        self._rounds = rounds
        self._asked = 0

    def measure(self, name: str, candidates: int, questions: Sequence[Question], calls: int, space: float) -> Row:
        """Alternate rounds of calls to floor and service."""
        # Several calls, for caches and threads to be warm.
        size = [self._service.call(questions[0].request(self._fresh(), 2))[1] for _ in range(10)][-1]
        rounds = []
        for turn in range(self._rounds):
            chosen = [questions[(turn + at) % len(questions)] for at in range(calls)]
            pair = [self._round(connection, chosen, size, space) for connection in (self._floor, self._service)]
            rounds.append([quantile(seconds, share) for seconds in pair for share in (0.5, 0.99)])
        f50, f99, p50, p99 = (statistics.median(column) for column in zip(*rounds, strict=True))
        r50 = statistics.median(row[2] / row[0] for row in rounds)
        r99 = statistics.median(row[3] / row[1] for row in rounds)
        body = len(questions[0].before) + len(questions[0].after)
        pace = SPACED if space else BACK_TO_BACK
        goal = GOALS.get((name, candidates)) if space or name == FULL_NODES else None
        return Row(name, candidates, pace, body, size, f50, f99, p50, p99, r50, r99, goal)

    def _fresh(self) -> str:
        self._asked += 1
        return f"uid-{self._asked:08d}"

    def _round(self, connection: Connection, questions: Sequence[Question], size: int, space: float) -> list[float]:
        seconds = []
        for question in questions:
            uid = self._fresh()
            if space:
                time.sleep(space)
            if question.first is not None:
                connection.call(question.first.request(uid, size))
                time.sleep(question.gap_seconds)
            seconds.append(connection.call(question.request(uid, size))[0])
            if question.then is not None:
                time.sleep(question.gap_seconds)
                connection.call(question.then.request(uid, size))
        return seconds


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    names: tuple[int, ...]
    objects: tuple[int, ...]
    rounds: int
    calls: int
    spaced_calls: int


FULL: Final = Plan((500, 1000, 5000, 15000), (1000, 5000), rounds=7, calls=200, spaced_calls=50)
SMALL: Final = Plan((500, 1000), (100,), rounds=5, calls=60, spaced_calls=15)


def measure(plan: Plan) -> Iterator[Row]:
    """Measure everything, a row at a time."""
    with running(["benchmarks.floor"]) as floor:
        for count in plan.names:
            nodes = max(count, min(5000, max(plan.names)))
            with serving(cluster(nodes, full_share=0.0), "scheduler") as address:
                bench = Bench(address, floor, plan.rounds)
                yield from _paces(bench, "filter", count, filters(count, nodes), plan)
                known = prioritizes(count, nodes, after_filter=True)
                yield from _paces(bench, "prioritize", count, known, plan)
                other = prioritizes(count, nodes, after_filter=False)
                yield from _paces(bench, "prioritize, other list", count, other, plan)
            with serving(cluster(nodes, full_share=0.5), "own") as address:
                bench = Bench(address, floor, plan.rounds)
                yield from _paces(bench, "filter, own count", count, filters(count, nodes), plan)
        for count in plan.objects:
            with serving(cluster(count, full_share=0.5), "own") as address:
                bench = Bench(address, floor, plan.rounds)
                calls = max(3, 10_000 // count)
                yield bench.measure(FULL_NODES, count, full_filters(count), calls, 0.0)


def _paces(bench: Bench, name: str, count: int, questions: Sequence[Question], plan: Plan) -> Iterator[Row]:
    yield bench.measure(name, count, questions, plan.calls, 0.0)
    yield bench.measure(name, count, questions, plan.spaced_calls, SPACE_SECONDS)


COLUMNS: Final = (("floor p50", 10), ("p99", 8), ("ours p50", 10), ("p99", 8), ("ratio", 8), ("goal", 6))
HEAD: Final = f"{'verb':<24}{'nodes':>7}  {'pace':<13}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)


def line(row: Row) -> str:
    """Return a row as a line of the table."""
    goal = f"{row.goal:>6.1f}" if row.goal else ""
    return (
        f"{row.verb:<24}{row.candidates:>7,}  {row.pace:<13}{row.floor_p50:>10.2f}{row.floor_p99:>8.2f}"
        f"{row.p50:>10.2f}{row.p99:>8.2f}{row.ratio_p50:>7.2f}x{goal}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 when a ratio is past the gate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a short run, for CI")
    parser.add_argument("--output", type=Path, default=None, help="JSON file to write (results/latency.json)")
    options = parser.parse_args(arguments)
    print(f"milliseconds; {os.cpu_count()} cores, Python {platform.python_version()}\n\n{HEAD}")
    rows = []
    for row in measure(SMALL if options.small else FULL):
        rows.append(row)
        print(line(row), flush=True)
    target = options.output or (None if options.small else RESULTS)
    if target is not None:
        measured.write(target, rows=[asdict(row) for row in rows])
    slow = [row for row in rows if row.goal is not None and row.ratio_p50 > row.goal * GATE]
    for row in slow:
        print(f"past the gate of {row.goal * GATE if row.goal else 0:.1f}x: {line(row)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
