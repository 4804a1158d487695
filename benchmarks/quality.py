"""Packing quality of every policy on synthetic clusters: saturation (nothing leaves) and churn (pods come and go).

    python -m benchmarks.quality            the table of docs/benchmarks.md, about an hour on two cores
    python -m benchmarks.quality --small    the same, small, in a minute: what CI runs

Every policy is asked through the same simulated kube-scheduler: 0..10 scores at the shipped weight, default in-tree
scorers beside it, random ties. Saturation draws demand of exactly the cluster's GPUs and tries each pod once; the
figure is the share of GPUs left unallocated. Churn offers a load and counts how long pods wait; ``pooled`` is the wait
without node boundaries, one big node per GPU model, which no placement can beat by more than chance.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks import markdown, workloads
from benchmarks.workloads import Scenario
from extender import intree
from extender.churn import Churn
from extender.packing.policies import REGISTRY
from extender.packing.policies.planned import Planned
from extender.packing.resources import PODS
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo
from extender.replanning import Replanning
from extender.simulate import KubeScheduler, PolicyExtender, SchedulerConfig, schedule_all

R = TypeVar("R")

RESULTS: Final = Path(__file__).parent / "results" / "quality.json"
STOCK: Final = "kube-scheduler default"
MOST_ALLOCATED: Final = "kube-scheduler MostAllocated"
POOLED: Final = "pooled (no node boundaries)"
LARGEST: Final = 8
WARM_UP_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement to make."""

    kind: str
    scenario: Scenario
    policy: str
    seed: int
    jobs: int = 0
    load: float = 0.95


def scheduler(scenario: Scenario, policy: str, seed: int) -> KubeScheduler:
    """Return the simulated scheduler that stands for a row of the table."""
    nodes = workloads.nodes(scenario)
    if policy == POOLED:
        return KubeScheduler(Snapshot.of(pooled(nodes)), None, SchedulerConfig(seed=seed))
    if policy == MOST_ALLOCATED:
        profile = intree.most_allocated_profile(["nvidia.com/gpu"])
        return KubeScheduler(Snapshot.of(nodes), None, SchedulerConfig(profile, seed=seed))
    if policy == STOCK:
        return KubeScheduler(Snapshot.of(nodes), None, SchedulerConfig(seed=seed))
    chosen = REGISTRY[policy]()
    extender = PolicyExtender(chosen)
    if isinstance(chosen, Planned):
        return Replanning(Snapshot.of(nodes), extender, SchedulerConfig(seed=seed), chosen)
    return KubeScheduler(Snapshot.of(nodes), extender, SchedulerConfig(seed=seed))


def pooled(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Merge all nodes of a kind (by the prefix of their names) into one."""
    merged: dict[str, NodeInfo] = {}
    for node in nodes:
        kind = node.name.rpartition("-")[0]
        have = merged.get(kind)
        amounts = {
            name: value + (have.allocatable[name] if have else 0)
            for name, value in {**node.allocatable, PODS: 10**6}.items()
        }
        merged[kind] = replace(node, name=kind, allocatable=amounts, capacity=amounts)
    return list(merged.values())


def saturate(run: Run) -> dict[str, float]:
    """Place demand of 100 % of the GPUs, each pod tried once."""
    sim = scheduler(run.scenario, run.policy, run.seed)
    pods = workloads.arrivals(run.scenario, run.seed, 1.0)
    placements = schedule_all(sim, pods)
    placed = sum(p.pod.gpu.count for p in placements if p.node)
    large = [p for p in placements if p.pod.gpu.count == LARGEST]
    return {
        "unallocated_percent": 100.0 * (1 - placed / run.scenario.cluster.gpus),
        "refused_8": sum(p.node is None for p in large),
        "arrived_8": len(large),
    }


def churn(run: Run) -> dict[str, float]:
    """Let jobs come and go; return mean waits in seconds after the warm-up."""
    sim = scheduler(run.scenario, run.policy, run.seed)
    jobs = list(workloads.jobs(run.scenario, run.seed, run.load, run.jobs))
    waits = Churn(sim).run(jobs)
    measured = [waits[job.pod.uid] for job in jobs[int(WARM_UP_SHARE * len(jobs)) :]]
    large = [w.seconds for w in measured if w.pod.gpu.count == LARGEST]
    return {
        "wait_8_seconds": statistics.fmean(large) if large else 0.0,
        "wait_all_seconds": statistics.fmean(w.seconds for w in measured),
    }


KINDS: Mapping[str, Callable[[Run], dict[str, float]]] = {"saturation": saturate, "churn": churn}


def measure(run: Run) -> tuple[Run, dict[str, float]]:
    """Make one measurement (in a worker process)."""
    return run, KINDS[run.kind](run)


def plan(policies: Iterable[str], seeds: Iterable[int], jobs: int, divisor: int) -> list[Run]:
    """Return every run of the table."""
    scenarios = [workloads.shrunk(s, divisor) if divisor > 1 else s for s in workloads.SCENARIOS]
    names = list(policies)
    return [
        Run(kind, scenario, policy, seed, jobs)
        for seed in seeds
        for kind in KINDS
        for scenario in scenarios
        for policy in [*names, STOCK, MOST_ALLOCATED, *([POOLED] if kind == "churn" else [])]
    ]


def summarise(measured: Iterable[tuple[Run, dict[str, float]]]) -> list[dict[str, Any]]:
    """Group runs by row; give the median and the spread (smallest, largest) over the seeds, and the mean."""
    groups: dict[tuple[str, str, str], list[tuple[int, dict[str, float]]]] = {}
    for run, values in measured:
        groups.setdefault((run.kind, run.scenario.name, run.policy), []).append((run.seed, values))
    rows = []
    for (kind, scenario, policy), found in sorted(groups.items()):
        figures = {
            name: _spread([values[name] for _, values in sorted(found, key=lambda f: f[0])]) for name in found[0][1]
        }
        rows.append({"kind": kind, "scenario": scenario, "policy": policy, "seeds": len(found), **figures})
    return rows


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "mean": round(statistics.fmean(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def render(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the rows as Markdown tables, best first."""
    rows = list(rows)
    return "\n\n".join(
        _table(kind, scenario, [r for r in rows if (r["kind"], r["scenario"]) == (kind, scenario)])
        for kind in KINDS
        for scenario in sorted({r["scenario"] for r in rows})
    )


COLUMNS: Final[Mapping[str, str]] = {
    "unallocated_percent": "unallocated %",
    "refused_8": "8-GPU pods refused",
    "arrived_8": "of",
    "wait_8_seconds": "8-GPU wait s",
    "wait_all_seconds": "all wait s",
}


def _table(kind: str, scenario: str, rows: list[Mapping[str, Any]]) -> str:
    first, *others = [key for key in rows[0] if isinstance(rows[0][key], dict)]
    head = ["policy", COLUMNS[first], "mean", *(COLUMNS[name] for name in others)]
    best_first = sorted(rows, key=lambda r: float(r[first]["mean"]))
    lines = (
        [
            row["policy"],
            markdown.spread(*(row[first][name] for name in ("median", "min", "max"))),
            f"{row[first]['mean']:.2f}",
            *(f"{row[name]['mean']:.1f}" for name in others),
        ]
        for row in best_first
    )
    return f"### {kind}, {scenario}\n\n{markdown.table(head, lines)}"


def run_all(
    runs: list[R], workers: int, measure: Callable[[R], tuple[R, dict[str, float]]]
) -> Iterator[tuple[R, dict[str, float]]]:
    """Make all measurements, each told as it is there, and how far it is on standard error."""
    started = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        for done, future in enumerate(as_completed([pool.submit(measure, run) for run in runs]), start=1):
            seconds = time.monotonic() - started
            print(f"\r{done}/{len(runs)} runs, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
            yield future.result()
    print(file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small clusters, one seed: what CI runs")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--first-seed", type=int, default=100, help="first seed (default 100)")
    parser.add_argument("--jobs", type=int, default=8000, help="jobs of a churn run (default 8000)")
    parser.add_argument("--policies", nargs="*", default=sorted(REGISTRY), help="policies (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default {RESULTS})")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + (1 if options.small else options.seeds))
    runs = plan(options.policies, seeds, 400 if options.small else options.jobs, 8 if options.small else 1)
    rows = summarise(run_all(runs, options.workers, measure))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(render(rows))


if __name__ == "__main__":
    main()
