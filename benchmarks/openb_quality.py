"""Packing quality on the public trace openb, beside a proven bound.

    python -m benchmarks.openb_quality --data FOLDER     the tables of docs/benchmarks.md, hours on two cores
    python -m benchmarks.openb_quality --small           the same on the sample that comes with the project, one seed

Every policy is asked through the simulated kube-scheduler: 0..10 scores at the shipped weight. `planned` has a planner
beside it that solves its quotas anew every ten placements; the mix is learned from the pods that run, starting empty.
Results are kept by seed and merged into those of earlier calls, so a table can be made in pieces (--only).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import openb, openb_tables, quality
from benchmarks.decisive import DecisiveReplanning, DecisiveScheduler, RandomTies
from benchmarks.openb import GPU, Trace, Workload
from benchmarks.openb_tables import BOUND
from benchmarks.shared_gpus import Devices, PublishedFgd, SharedGpuExtender
from extender import intree
from extender.churn import NO_BACK_OFF, BackOff, Churn
from extender.heldnodes import HeldNodes
from extender.packing import bound, bound_problem
from extender.packing.framework import Policy
from extender.packing.policies import REGISTRY
from extender.packing.policies.hole_aware import HoleAware, Weights
from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement, PolicyExtender, SchedulerConfig, schedule_all

RESULTS: Final = Path(__file__).parent / "results" / "openb.json"
SAMPLE: Final = Path(__file__).parent / "data" / "openb-sample"
LOAD: Final = 0.95
WARM_UP_SHARE: Final = 0.25

WORKLOADS: Final[Mapping[str, Callable[[Trace], Workload]]] = {
    "default": lambda trace: trace.workload("default"),
    "gpuspec33": lambda trace: trace.workload("gpuspec33"),
    "multigpu50": lambda trace: trace.workload("multigpu50"),
    "multigpu50+gpuspec33": lambda trace: trace.workload("multigpu50+gpuspec33"),
    "default, CPU-only pods kept": lambda trace: trace.workload("default", cpu_only=True),
    "gpuspec33, CPU-only pods kept": lambda trace: trace.workload("gpuspec33", cpu_only=True),
    "default, shared GPUs": lambda trace: trace.workload("default", shared=True),
    "gpuspec33, shared GPUs": lambda trace: trace.workload("gpuspec33", shared=True),
    "default, shared device by device": lambda trace: replace(trace.workload("default", shared=True), by_device=True),
    "gpuspec33, shared device by device": lambda trace: replace(
        trace.workload("gpuspec33", shared=True), by_device=True
    ),
    "10,412 GPUs, gpuspec33 untyped": lambda trace: trace.large_workload("gpuspec33"),
    "10,412 GPUs, multigpu50": lambda trace: trace.large_workload("multigpu50"),
}
CHURNED: Final = ("multigpu50", "gpuspec33")
BY_DEVICE: Final = ("default, shared device by device", "gpuspec33, shared device by device")
SHARED: Final = ("default, shared GPUs", "gpuspec33, shared GPUs", *BY_DEVICE)
FGD: Final = "fgd as published"
FGD_RANDOM_TIES: Final = "fgd as published, random ties"
LARGE: Final = ("10,412 GPUs, gpuspec33 untyped", "10,412 GPUs, multigpu50")
UNAIDED: Final = (quality.STOCK, quality.MOST_ALLOCATED)
COMPARED: Final = (
    "planned",
    "hole-aware",
    "first-fit",
    "balance+fgd",
    "fgd",
    "best-fit",
    "most-allocated",
    "gpu-packing",
)
ABLATIONS: Final[Mapping[str, Callable[[], Policy]]] = {
    "planned without quotas": lambda: Planned(quota=0.0, cpu_quota=0.0),
    "planned without quotas of columns": lambda: Planned(cpu_quota=0.0),
    "planned without CPU match": lambda: Planned(cpu_match=0.0),
    "planned without fragmentation": lambda: _planned(fragmentation=0.0),
    "planned without guard": lambda: _planned(guard=0.0),
    "planned without large_node": lambda: _planned(large_node=0.0),
    "planned without cpu_ratio": lambda: _planned(cpu_ratio=0.0),
    "planned, quotas under departures too": lambda: Planned(filling=2.0),
    "planned, quotas solved every 50 placements": Planned,
}
BACK_OFF: Final = ", with back-off"
"""After a policy's name: what waits is retried as by kube-scheduler. Holds mean nothing but where large pods sit in
their back-off, so this is what a policy with them is to be compared with."""
HOLDS: Final = ", with back-off and holds"
EVERY: Final = {"planned, quotas solved every 50 placements": 50}


def _planned(**weights: float) -> Planned:
    return Planned(base=HoleAware(weights=Weights(**weights)))


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement to make."""

    kind: str
    workload: str
    policy: str
    seed: int
    data: Path
    jobs: int = 0
    every: int = 1


def scheduler(run: Run, workload: Workload, held: HeldNodes | None = None) -> KubeScheduler:
    """Return the simulated scheduler that stands for a row of the table; `held` is what our filter keeps back."""
    snapshot, config = Snapshot.of(workload.nodes), SchedulerConfig(seed=run.seed)
    if run.policy == quality.POOLED:
        return KubeScheduler(Snapshot.of(openb.pooled(workload.nodes)), None, config)
    if run.policy == quality.STOCK:
        return KubeScheduler(snapshot, None, config)
    if run.policy == quality.MOST_ALLOCATED:
        return KubeScheduler(snapshot, None, replace(config, profile=intree.most_allocated_profile([GPU])))
    devices = Devices.of(snapshot.table)
    policy: Policy
    if run.policy in (FGD, FGD_RANDOM_TIES):
        policy = PublishedFgd.of(workload, devices, snapshot.table)
    else:
        policy = (ABLATIONS.get(run.policy) or REGISTRY[run.policy.partition(BACK_OFF)[0]])()
    by_device = SharedGpuExtender(policy, devices, snapshot.table)
    extender = by_device if workload.by_device else PolicyExtender(policy, held=held)
    if isinstance(policy, Planned):
        return DecisiveReplanning(snapshot, extender, config, policy, every=EVERY.get(run.policy, 10))
    return (RandomTies if run.policy == FGD_RANDOM_TIES else DecisiveScheduler)(snapshot, extender, config)


def workload_of(run: Run) -> Workload:
    """Return the workload of a run."""
    workload = WORKLOADS[run.workload](Trace(run.data))
    return replace(workload, nodes=openb.thinned(workload.nodes, run.every))


def saturate(run: Run) -> dict[str, float]:
    """Place demand of 100 % of the GPUs, each pod tried once."""
    workload = workload_of(run)
    pods = openb.arrivals(workload, run.seed)
    if run.policy == BOUND:
        return _bound(workload, pods)
    return _saturated(workload, pods, scheduler(run, workload))


def _saturated(workload: Workload, pods: Iterable[PodInfo], sim: KubeScheduler) -> dict[str, float]:
    started = time.process_time()
    placements = schedule_all(sim, pods)
    seconds = time.process_time() - started
    large = [p for p in placements if p.pod.gpu.count == quality.LARGEST * workload.unit]
    return {
        "unallocated_percent": _unallocated(workload, placements),
        "refused_8": sum(p.node is None for p in large),
        "arrived_8": len(large),
        "refused_cpu_only": sum(p.node is None for p in placements if not p.pod.gpu.count),
        "milliseconds_per_pod": 1000.0 * seconds / len(placements),
    }


def _unallocated(workload: Workload, placements: Iterable[Placement]) -> float:
    return 100.0 * (1 - sum(p.pod.gpu.count for p in placements if p.node) / workload.gpus)


def _bound(workload: Workload, pods: list[PodInfo]) -> dict[str, float]:
    started = time.process_time()
    found = bound.solve(bound_problem.pose(Snapshot.of(workload.nodes), GPU, pods))
    return {
        "unallocated_percent": 100.0 * (1 - min(1.0, found.gpus / workload.gpus)),
        "gap_gpus": found.gap,
        "seconds": time.process_time() - started,
    }


def churn(run: Run) -> dict[str, float]:
    """Let jobs come and go; return mean waits in seconds after the warm-up."""
    workload = workload_of(run)
    jobs = list(openb.jobs(workload, Trace(run.data).lifetimes(), run.seed, LOAD, run.jobs))
    held = HeldNodes() if run.policy.endswith(HOLDS) else None
    back_off = BackOff() if BACK_OFF in run.policy else NO_BACK_OFF
    waits = Churn(scheduler(run, workload, held), back_off, held).run(jobs)
    measured = [waits[job.pod.uid] for job in jobs[int(WARM_UP_SHARE * len(jobs)) :]]
    large = [w.seconds for w in measured if w.pod.gpu.count == quality.LARGEST]
    return {
        "wait_8_seconds": statistics.fmean(large) if large else 0.0,
        "wait_all_seconds": statistics.fmean(w.seconds for w in measured),
    }


def shift(run: Run) -> dict[str, float]:
    """Saturate with a mix that changes half-way: what is learned first is wrong afterwards."""
    trace, workload = Trace(run.data), workload_of(run)
    later = replace(workload, shapes=WORKLOADS["multigpu50"](trace).shapes)
    pods = openb.arrivals(workload, run.seed, 0.5)
    second = openb.arrivals(later, run.seed, 0.5)
    pods += [replace(p, uid=f"v{p.uid}", name=f"v{p.name}") for p in second]
    return _bound(workload, pods) if run.policy == BOUND else _saturated(workload, pods, scheduler(run, workload))


def drain(run: Run) -> dict[str, float]:
    """Saturate while all V100M32 nodes are cordoned for the second quarter of the arrivals."""
    workload = workload_of(run)
    pods = openb.arrivals(workload, run.seed)
    if run.policy == BOUND:
        return _bound(workload, pods)
    sim, quarter, placements = scheduler(run, workload), len(pods) // 4, list[Placement]()
    for start, cordoned in ((0, False), (quarter, True), (2 * quarter, False)):
        nodes = [
            replace(n, unschedulable=cordoned and n.labels[openb.MODEL_LABEL] == "V100M32") for n in workload.nodes
        ]
        sim.snapshot = sim.snapshot.with_changes(nodes=nodes)
        end = start + quarter if start < 2 * quarter else len(pods)
        placements += schedule_all(sim, pods[start:end])
    return {"unallocated_percent": _unallocated(workload, placements)}


KINDS: Final[Mapping[str, Callable[[Run], dict[str, float]]]] = {
    "saturation": saturate,
    "churn": churn,
    "mix shifts half-way": shift,
    "a model is cordoned for a while": drain,
}


def measure(run: Run) -> tuple[Run, dict[str, float]]:
    """Make one measurement (in a worker process)."""
    return run, KINDS[run.kind](run)


def plan(options: argparse.Namespace) -> Iterator[Run]:
    """Yield every run of the tables, seed by seed."""
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for kind, name, policy in _saturations(options.data):
            yield Run(kind, name, policy, seed, options.data)
    for seed in range(options.first_seed, options.first_seed + options.churn_seeds):
        for name in CHURNED:
            others = ("planned, quotas under departures too", f"planned{BACK_OFF}", f"planned{HOLDS}")
            for policy in (*COMPARED, *UNAIDED, quality.POOLED, *others):
                yield Run("churn", name, policy, seed, options.data, jobs=options.jobs, every=4)


def _saturations(data: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, workload, policy) of what is tried once a seed."""
    for name in WORKLOADS:
        if name not in LARGE or (data.parent / openb.SPOT_FOLDER).exists():
            yield from (("saturation", name, policy) for policy in (*COMPARED, *UNAIDED))
            if name not in SHARED:
                yield "saturation", name, BOUND
    for name in BY_DEVICE:
        yield from (("saturation", name, policy) for policy in (FGD, FGD_RANDOM_TIES))
    for name in ("gpuspec33", "multigpu50", "multigpu50+gpuspec33"):
        yield from (("saturation", name, policy) for policy in ABLATIONS)
    for kind in ("mix shifts half-way", "a model is cordoned for a while"):
        yield from ((kind, "gpuspec33", policy) for policy in ("planned", "hole-aware", "first-fit", "fgd", BOUND))


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.openb_quality", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=SAMPLE, help="folder of the trace (default: the sample)")
    parser.add_argument("--small", action="store_true", help="one seed and short churn: what CI runs")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of saturation (default 5)")
    parser.add_argument("--churn-seeds", type=int, default=8, help="seeds of churn (default 8)")
    parser.add_argument("--first-seed", type=int, default=5000, help="first seed (default 5000)")
    parser.add_argument("--jobs", type=int, default=18000, help="jobs of a churn run (default 18000)")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT", help="runs whose kind/workload/policy has it")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default {RESULTS})")
    options = parser.parse_args(arguments)
    if options.small:
        options.seeds, options.churn_seeds, options.jobs = 1, 1, 300
    runs = [run for run in plan(options) if _chosen(run, options.only)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.output.read_text(encoding="utf-8"))["rows"] if options.output.exists() else []
    for run, values in quality.run_all(runs, options.workers, measure):
        rows = openb_tables.merged(rows, (run.kind, run.workload, run.policy), run.seed, values)
        options.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(openb_tables.render(rows))


def _chosen(run: Run, texts: Iterable[str]) -> bool:
    # Ended by a slash, so that "saturation/gpuspec33/planned/" is one row.
    name = f"{run.kind}/{run.workload}/{run.policy}/"
    return any(text in name for text in texts) if texts else True


if __name__ == "__main__":
    main()
