"""Pods per second of the real kube-scheduler without an extender, with ours, and with one that has no opinion.

    python -m benchmarks.scheduler_throughput            500, 1,000 and 5,000 nodes, about half an hour
    python -m benchmarks.scheduler_throughput --small    100 nodes, one round, half a minute

etcd, kube-apiserver and kube-scheduler run on loopback (controlplane/). Nodes and pods are as heavy as real ones, a
third of the nodes is partly busy, every node with room is a candidate (benchmarks/livecluster.py). A run: the pods
wait, the service starts, the scheduler starts; from its tenth binding to its last it is timed, by a watch; then its
pods are deleted. The variants of a size alternate in rounds, a ratio is between two runs of one round, medians are
shown.

    no extender          and no limit on the scheduler's own requests, here as in all others
    ours, names          the shipped registration (nodeCacheCapable)
    ours, whole nodes    the same without nodeCacheCapable, and a timeout of a minute
    no opinion           what any extender costs: a bare WSGI application that keeps all nodes and scores none

percentageOfNodesToScore is 100 as shipped, in every variant; "sampled" are two more with the scheduler's default.
Writes benchmarks/results/scheduler_throughput.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import markdown, measured
from benchmarks.schedulerrun import FLOOR, NAMES, NODES, NONE, Bench, Run, Variant
from controlplane import build, releases
from controlplane.plane import Plane

RESULTS: Final = Path(__file__).parent / "results" / "scheduler_throughput.json"
GOAL: Final = 0.8
"""With us, by names, at 5,000 nodes, so many times the pods per second of no extender."""

VARIANTS: Final = (
    Variant(NONE),
    Variant(NAMES),
    Variant(FLOOR),
    Variant(NODES),
    Variant(NONE, sampled=True),
    Variant(NAMES, sampled=True),
)


@dataclass(frozen=True)
class Size:
    """How many nodes, and how many pods a run schedules; fewer where whole nodes are sent."""

    nodes: int
    pods: int
    pods_whole_nodes: int

    def arriving(self, variant: Variant) -> int:
        """Return the pods of one run."""
        return self.pods_whole_nodes if variant.extender == NODES else self.pods


FULL: Final = (Size(500, 250, 80), Size(1000, 400, 50), Size(5000, 200, 20))
SMALL: Final = (Size(100, 60, 30),)

Rounds = list[Mapping[Variant, Run]]


def measure(size: Size, rounds: int, variants: Sequence[Variant] = VARIANTS) -> Iterator[Mapping[Variant, Run]]:
    """Yield the runs of one round after the other; who begins changes."""
    with tempfile.TemporaryDirectory() as folder, Plane(Path(folder)) as plane:
        bench = Bench(plane, size.nodes)
        for at in range(rounds):
            turn = at % len(variants)
            order = [*variants[turn:], *variants[:turn]]
            yield {variant: _told(size, variant, bench.run(variant, size.arriving(variant), at)) for variant in order}


def _told(size: Size, variant: Variant, run: Run) -> Run:
    print(f"{size.nodes:>6,} nodes  {variant.name:<22}{run.pods_per_second:>8.1f} pods/s", file=sys.stderr, flush=True)
    return run


def summarise(size: Size, rounds: Rounds) -> Iterator[dict[str, Any]]:
    """Yield a row for each variant: medians over the rounds, and the ratio to no extender within each."""
    for variant in rounds[0]:
        runs = [runs[variant] for runs in rounds]
        bases = [runs[variant.base] for runs in rounds]
        figures = {name: statistics.median(asdict(run)[name] for run in runs) for name in asdict(runs[0])}
        ratios = sorted(run.pods_per_second / base.pods_per_second for run, base in zip(runs, bases, strict=True))
        yield {
            "nodes": size.nodes,
            "variant": variant.name,
            "pods": size.arriving(variant),
            "rounds": len(runs),
            **{name: round(value, 2) for name, value in figures.items()},
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "share_in_service": round(statistics.median(map(_share, runs)), 3),
        }


def _share(run: Run) -> float:
    """Return the part of a pod's scheduling cycle that the service takes."""
    return (run.filter_ms + run.prioritize_ms) / run.cycle_ms


COLUMNS: Final = (
    "nodes", "variant", "pods/s", "ratio", "cycle ms", "of it in ours", "hand-off", "CPU ms: scheduler", "ours",
    "API server", "nodes opened", "8-GPU pods that still fit",
)  # fmt: skip


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row as the texts of the table."""
    ours = row["filter_ms"] > 0
    return [
        f"{row['nodes']:,}",
        row["variant"],
        f"{row['pods_per_second']:.1f}",
        "" if row["variant"].startswith(NONE) else markdown.spread(row["ratio"], row["ratios"][0], row["ratios"][-1]),
        f"{row['cycle_ms']:.1f}",
        f"{row['filter_ms'] + row['prioritize_ms']:.1f} ms, {row['share_in_service']:.0%}" if ours else "",
        f"{row['handoff_hits']:.0%}" if ours and not row["variant"].startswith(NODES) else "",
        f"{row['scheduler_cpu_ms']:.1f}",
        f"{row['extender_cpu_ms']:.1f}" if row["extender_cpu_ms"] else "",
        f"{row['server_cpu_ms']:.1f}",
        *([f"{row['opened']:.0f}", f"{row['whole']:.0f}"] if not row["variant"].startswith(NODES) else ["", ""]),
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    return markdown.table(COLUMNS, map(cells, rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 when the programs are missing or the goal is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="100 nodes, one round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per size (default 5)")
    parser.add_argument("--nodes", type=int, nargs="*", help="sizes (default: all)")
    parser.add_argument(
        "--output", type=Path, default=None, help="JSON file to write (results/scheduler_throughput.json)"
    )
    options = parser.parse_args(arguments)
    try:
        build.programs(releases.NEWEST)
    except build.MissingProgramError as error:
        print(error, file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    for size in SMALL if options.small else FULL:
        if not options.nodes or size.nodes in options.nodes:
            rows += summarise(size, list(measure(size, 1 if options.small else options.rounds)))
    print(table(rows))
    target = options.output or (None if options.small else RESULTS)
    if target is not None:
        measured.write(target, kubernetes=releases.NEWEST.kubernetes, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
