"""CPU time of one score, beside what the wire costs for the same answer.

    python -m benchmarks.score_cost            500, 5,000 and 15,000 nodes, some minutes
    python -m benchmarks.score_cost --small    500 nodes, a few pods: what CI runs

Six models of GPU, nodes of 8 and of 4; 300 shapes of pods (1, 2, 4 or 8 GPUs; CPU and memory drawn for each; half of
them name models) fill a part of the nodes. Then pod after pod comes, is scored on every node where it fits, and gets
the best: each is scored on a Snapshot that nobody has asked yet, as in service. One pod in five is of a class that
nobody has had before. *Events* are the pod's arrival and its binding, which are entered off the request path: with them
goes what scoring keeps up to date. `planned` follows quotas solved at the start.

The floor is the bare WSGI application of `benchmarks.floor`, asked over HTTP with a body of that many names for an
answer of that size. All times are CPU time of the process or thread that does the work, in milliseconds.

Writes benchmarks/results/score_cost.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import markdown, measured
from benchmarks.floor import CPU_SECONDS
from benchmarks.latency import quantile, running
from benchmarks.questions import ANY_TYPE, GPU, by_names, node_name
from extender.httpd import malloc
from extender.packing.fit import fitting
from extender.packing.forecast import QuotaAnswer, pose_quotas
from extender.packing.framework import Policy, run_score
from extender.packing.gpu import GpuModel, GpuRequest
from extender.packing.policies import REGISTRY
from extender.packing.selectors import NO_CONSTRAINTS, NodeConstraints, Operator, Requirement, Term
from extender.packing.snapshot import Snapshot
from extender.packing.solvers import solve
from extender.packing.types import NodeInfo, Phase, PodInfo

RESULTS: Final = Path(__file__).parent / "results" / "score_cost.json"
POLICIES: Final = ("hole-aware", "planned")
GOAL_MS: Final[Mapping[int, float]] = {5000: 0.5}
"""What the median score may cost, by nodes."""

LABEL: Final = "nvidia.com/gpu.product"
GIB: Final = 2**30
# Model, GPUs, cores and GiB of a node.
MODELS: Final = (
    ("H100", 8, 192, 2000), ("A100-SXM4", 8, 128, 1000), ("A100-PCIE", 4, 64, 512),
    ("L40S", 4, 96, 512), ("T4", 4, 48, 192), ("V100", 8, 96, 768),
)  # fmt: skip
NAMED: Final = (("H100",), ("A100-SXM4",), ("H100", "A100-SXM4"), ("T4", "L40S"), ("V100", "A100-PCIE"))
SHAPES: Final = 300
NEW_CLASS_SHARE: Final = 0.2
SEEN, NEW = "seen before", "new"
WARM_UP: Final = 20


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks for; no models: any will do."""

    gpus: int
    cores: int
    gib: int
    models: tuple[str, ...]

    @classmethod
    def drawn(cls, draw: random.Random) -> Shape:
        """Draw a shape as many pods have it."""
        gpus = draw.choice((1, 1, 1, 2, 2, 4, 8))
        cores, gib = draw.choice((2, 3, 4, 6, 8, 10, 12, 16, 20)), draw.choice((8, 12, 16, 24, 32, 48, 64, 96))
        return cls(gpus, cores * gpus, gib * gpus, draw.choice(NAMED) if draw.random() < 0.5 else ())

    def odd(self, draw: random.Random) -> Shape:
        """Return the shape with CPU and memory that nobody else asks for."""
        return replace(self, cores=draw.randint(1, 12 * self.gpus), gib=draw.randint(1, 64 * self.gpus))

    def pod(self, uid: str) -> PodInfo:
        """Return a waiting pod of the shape."""
        terms = (Term((Requirement(LABEL, Operator.IN, self.models),)),)
        constraints = NodeConstraints(affinity=terms) if self.models else NO_CONSTRAINTS
        requests = {"cpu": self.cores * 1000, "memory": self.gib * GIB, GPU: self.gpus}
        return PodInfo(uid, "ml", uid, requests, GpuRequest(GPU, self.gpus, whole=True), constraints)


def bound(pod: PodInfo, node: str) -> PodInfo:
    """Return the pod running on a node."""
    return replace(pod, node_name=node, phase=Phase.RUNNING)


def nodes(count: int) -> list[NodeInfo]:
    """Return so many nodes, the models in turn."""
    found = []
    for at in range(count):
        model, gpus, cores, gib = MODELS[at % len(MODELS)]
        amounts = {"cpu": cores * 1000, "memory": gib * GIB, "pods": 110, GPU: gpus}
        found.append(NodeInfo(node_name(at), {LABEL: model}, amounts, amounts, gpus={GPU: GpuModel(model)}))
    return found


def cluster(count: int, shapes: Sequence[Shape], draw: random.Random) -> Snapshot:
    """Return so many nodes, each with up to six pods as far as they fit, and quotas for what may come."""
    found, pods = nodes(count), list[PodInfo]()
    for node in found:
        free = dict(node.allocatable)
        for shape in draw.choices(shapes, k=draw.randint(0, 6)):
            pod = bound(shape.pod(f"held-{len(pods)}"), node.name)
            right = not shape.models or node.labels[LABEL] in shape.models
            if right and all(free[name] >= amount for name, amount in pod.requests.items()):
                free |= {name: free[name] - amount for name, amount in pod.requests.items()}
                pods.append(pod)
    snapshot = Snapshot.of(found, pods)
    posed = pose_quotas(snapshot)
    answer = solve(posed.question)
    assert isinstance(answer, QuotaAnswer)
    return snapshot.with_guidance(posed.guidance(answer, snapshot))


class Placing:
    """Pods that come one after the other, each placed where one policy wants it."""

    def __init__(self, policy: Policy, snapshot: Snapshot) -> None:
        self._policy = policy
        self._snapshot = snapshot

    def score(self, pod: PodInfo) -> tuple[float, float] | None:
        """Let a pod come and bind it; return CPU seconds of its score and of both events, None if it fits nowhere."""
        begun = time.thread_time()
        waiting = self._snapshot.with_pod(pod)
        arrival = time.thread_time() - begun
        rows = np.flatnonzero(fitting(waiting, pod, np.arange(len(waiting))))
        if not len(rows):
            return None
        started = time.thread_time()
        scores = run_score(self._policy, waiting, pod, rows)
        seconds = time.thread_time() - started
        node = waiting.table.names[int(rows[scores.argmax()])]
        begun = time.thread_time()
        self._snapshot = waiting.with_changes(gone=(pod,), come=(bound(pod, node),))
        return seconds, arrival + time.thread_time() - begun


Pairs = list[tuple[float, float]]


def scores(count: int, pods: int) -> Mapping[tuple[str, str], Pairs]:
    """Return CPU seconds per score and per pair of events, by policy and whether the pod's class was seen before."""
    draw = random.Random(count)
    shapes = [Shape.drawn(draw) for _ in range(SHAPES)]
    snapshot = cluster(count, shapes, draw)
    placings = {name: Placing(REGISTRY[name](), snapshot) for name in POLICIES}
    found: dict[tuple[str, str], Pairs] = {(name, sort): [] for name in POLICIES for sort in (SEEN, NEW)}
    for at in range(-WARM_UP, pods):
        shape, sort = draw.choice(shapes), NEW if draw.random() < NEW_CLASS_SHARE else SEEN
        pod = (shape.odd(draw) if sort == NEW else shape).pod(f"pod-{at}")
        for name, placing in placings.items():
            seconds = placing.score(pod)
            if at >= 0 and seconds is not None:
                found[name, sort].append(seconds)
    return found


def floor(count: int, calls: int) -> list[float]:
    """Return the floor's CPU seconds per call about so many nodes."""
    question = by_names("prioritize", range(count), ANY_TYPE)
    body = question.before + b"uid" + question.after
    listed = [{"Host": node_name(at), "Score": 10} for at in range(count)]
    heads = {"X-Answer-Bytes": str(len(json.dumps(listed, separators=(",", ":"))))}
    told = []
    with running(["benchmarks.floor"]) as address:
        connection = http.client.HTTPConnection(*address, timeout=60)
        for _ in range(WARM_UP + calls + 1):
            connection.request("POST", "/scheduler/prioritize", body, heads)
            answer = connection.getresponse()
            answer.read()
            told.append(float(answer.headers[CPU_SECONDS]))
        connection.close()
    # From answer to answer: the rest of one call, the beginning of the next.
    return np.diff(told[WARM_UP:]).tolist()


@dataclass(frozen=True)
class Row:
    """One line of the table: milliseconds of CPU time; ``ratio``: the score's median to the floor's."""

    nodes: int
    policy: str
    pod_class: str
    pods: int
    floor_p50: float
    floor_p99: float
    score_p50: float
    score_p99: float
    ratio: float
    events_p50: float
    goal: float | None


def measure(counts: Sequence[int], pods: int) -> Iterator[Row]:
    """Measure everything, a cluster at a time."""
    for count in counts:
        calls = floor(count, pods)
        f50, f99 = quantile(calls, 0.5), quantile(calls, 0.99)
        for (policy, sort), pairs in scores(count, pods).items():
            if pairs:
                seconds, events = zip(*pairs, strict=True)
                p50, p99, e50 = quantile(seconds, 0.5), quantile(seconds, 0.99), quantile(events, 0.5)
                goal = GOAL_MS.get(count)
                yield Row(count, policy, sort, len(seconds), f50, f99, p50, p99, p50 / f50, e50, goal)


COLUMNS: Final = (
    "nodes", "policy", "class", "wire p50 ms", "p99 ms", "score p50 ms", "p99 ms", "ratio", "events ms", "goal ms",
)  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    figures = ("floor_p50", "floor_p99", "score_p50", "score_p99", "ratio", "events_p50")
    lines = (
        [
            f"{row['nodes']:,}",
            row["policy"],
            row["pod_class"],
            *(f"{row[name]:.2f}" for name in figures),
            "" if row["goal"] is None else f"{row['goal']:.1f}",
        ]
        for row in rows
    )
    return markdown.table(COLUMNS, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="500 nodes, a few pods: what CI runs")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default {RESULTS})")
    options = parser.parse_args(arguments)
    malloc.tune()
    rows = [asdict(row) for row in (measure((500,), 40) if options.small else measure((500, 5000, 15000), 500))]
    print(table(rows))
    measured.write(options.output, rows=rows)


if __name__ == "__main__":
    main()
