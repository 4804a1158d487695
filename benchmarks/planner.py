"""The joint plan of a pending queue: time, and how far from what is proved, over many seeds.

    python -m benchmarks.planner            the table of docs/benchmarks.md, some minutes on one core
    python -m benchmarks.planner --small    small queues, one seed: what CI runs

Pods ask for 1, 2, 4 or 8 GPUs (40, 20, 20, 20 %) of one of ten sets of allowed models; there are six models, three on
nodes of 8 GPUs, three on nodes of 4. 70 % of the nodes are full, 22 % partly free, 8 % unused. *With CPU and memory*
gives every size three amounts of both, of which the largest leaves GPUs without CPU; *scarce CPU* has nodes with a
third less of it; with *own amounts* every pod asks for an amount of its own, which the models round to four per size.
*Gangs and priorities* puts most pods into gangs of 2, 4 or 16 and has three priorities.
Seconds are from the Snapshot to the plan, the problem and its models being built included, imports not; CPU seconds
of the one process, so that what else the machine does counts for nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from extender.packing.gpu import GpuModel, GpuRequest, parse_ladder
from extender.packing.plan import JointPlan, Status
from extender.packing.planner import plan
from extender.packing.problem import Goal, PackingProblem
from extender.packing.snapshot import Snapshot
from extender.packing.types import GroupRef, NodeInfo, Phase, PodInfo

RESULTS: Final = Path(__file__).parent / "results" / "planner.json"
GPU: Final = "nvidia.com/gpu"
GIB: Final = 2**30
MODELS: Final = (("B200", 8), ("H100", 8), ("A100", 8), ("L40S", 4), ("A10", 4), ("T4", 4))
ALLOWED: Final = (
    *("B200", "H100", "A100", "L40S", "H100,A100", "B200,H100"),
    *("L40S,A10,T4", "A10,T4", "A100,L40S,A10,T4", "any"),
)
SIZES: Final = (1, 2, 4, 8)
CHAIN_SHARES: Final = (40, 20, 20, 20)
ODD_SIZES: Final = (1, 2, 3, 4, 5, 6, 8)
OWN: Final = 100
"""Number of profiles that gives nearly every pod of a size its own."""

PROFILES: Final = ((4_000, 32), (8_000, 64), (16_000, 160))
"""CPU in milli-CPU and memory in GiB per GPU; a node has 12 CPUs and 128 GiB per GPU."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table."""

    name: str
    pods: int
    nodes: int
    sizes: Sequence[int] = SIZES
    profiles: int = 0
    cpu_per_gpu: int = 12
    gangs: bool = False


SCENARIOS: Final = (
    Scenario("GPUs alone", 50, 100),
    Scenario("GPUs alone", 500, 1000),
    Scenario("GPUs alone", 2000, 5000),
    Scenario("GPUs alone", 2000, 15000),
    Scenario("odd sizes", 500, 1000, ODD_SIZES),
    Scenario("odd sizes", 2000, 5000, ODD_SIZES),
    Scenario("with CPU and memory", 50, 100, profiles=3),
    Scenario("with CPU and memory", 500, 1000, profiles=3),
    Scenario("with CPU and memory", 2000, 5000, profiles=3),
    Scenario("scarce CPU", 500, 1000, profiles=3, cpu_per_gpu=8),
    Scenario("scarce CPU", 2000, 5000, profiles=3, cpu_per_gpu=8),
    Scenario("own amounts", 50, 100, profiles=OWN),
    Scenario("own amounts", 2000, 5000, profiles=OWN),
    Scenario("gangs and priorities", 500, 1000, profiles=3, gangs=True),
    Scenario("gangs and priorities", 2000, 5000, profiles=3, gangs=True),
)
SMALL: Final = (
    Scenario("GPUs alone", 50, 100),
    Scenario("odd sizes", 50, 100, ODD_SIZES),
    Scenario("with CPU and memory", 50, 60, profiles=3),
    Scenario("gangs and priorities", 50, 60, profiles=3, gangs=True),
)


def instance(scenario: Scenario, seed: int) -> tuple[Snapshot, list[PodInfo]]:
    """Return a cluster and its pending queue."""
    draw = random.Random(f"{scenario}{seed}")
    nodes: list[NodeInfo] = []
    running: list[PodInfo] = []
    for number in range(scenario.nodes):
        model, gpus = MODELS[number % len(MODELS)]
        nodes.append(_node(f"{model.lower()}-{number:05}", model, gpus, scenario.cpu_per_gpu))
        running += _running(nodes[-1].name, gpus, draw, scenario)
    snapshot = Snapshot.of(nodes, running)
    pods = [_pending(number, draw, scenario) for number in range(scenario.pods)]
    return snapshot, _in_gangs(pods, draw) if scenario.gangs else pods


def _node(name: str, model: str, gpus: int, cpu_per_gpu: int) -> NodeInfo:
    amounts = {"cpu": 1000 * cpu_per_gpu * gpus, "memory": 128 * GIB * gpus, "pods": 110, GPU: gpus}
    return NodeInfo(name, {"nvidia.com/gpu.product": model}, amounts, amounts, gpus={GPU: GpuModel(model)})


def _running(node: str, gpus: int, draw: random.Random, scenario: Scenario) -> list[PodInfo]:
    """Return one pod that holds what is used of a node."""
    state = draw.random()
    used = gpus if state < 0.70 else draw.randint(1, gpus - 1) if state < 0.92 else 0
    if not used:
        return []
    cpu, memory = _per_gpu(draw, scenario)
    requests = {GPU: used, "cpu": min(cpu, 1000 * scenario.cpu_per_gpu) * used, "memory": min(memory, 128) * GIB * used}
    gpu = GpuRequest(GPU, used, whole=True)
    return [PodInfo(f"run-{node}", "ml", f"run-{node}", requests, gpu, phase=Phase.RUNNING, node_name=node)]


def _pending(number: int, draw: random.Random, scenario: Scenario) -> PodInfo:
    shares = CHAIN_SHARES if scenario.sizes is SIZES else None
    gpus = draw.choices(scenario.sizes, shares)[0]
    cpu, memory = _per_gpu(draw, scenario)
    requests = {GPU: gpus, "cpu": cpu * gpus, "memory": memory * GIB * gpus}
    gpu = GpuRequest(GPU, gpus, whole=True, types=parse_ladder(draw.choice(ALLOWED)))
    return PodInfo(f"pod-{number:05}", "ml", f"pod-{number:05}", requests, gpu, created=float(number))


def _per_gpu(draw: random.Random, scenario: Scenario) -> tuple[int, int]:
    """Return CPU in milli-CPU and memory in GiB per GPU."""
    if scenario.profiles == OWN:
        return draw.randrange(2_000, 16_000, 100), draw.randrange(16, 160)
    return draw.choice(PROFILES) if scenario.profiles else (1_000, 8)


def _in_gangs(pods: list[PodInfo], draw: random.Random) -> list[PodInfo]:
    """Give the pods priorities, and put a third of them into gangs of pods that are the same."""
    found: list[PodInfo] = []
    while len(found) < len(pods):
        first, size = pods[len(found)], draw.choice((1, 1, 1, 1, 2, 4, 16) if len(found) < len(pods) - 16 else (1,))
        group = GroupRef("ml", f"gang-{len(found)}", size) if size > 1 else None
        priority = draw.choice((0, 0, 100, 1000))
        copies = (replace(first, uid=pod.uid, name=pod.name) for pod in pods[len(found) : len(found) + size])
        found += [replace(pod, group=group, priority=priority) for pod in copies]
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """One plan, and the CPU seconds it took from Snapshot to plan."""

    seconds: float
    plan: JointPlan


def measure(scenario: Scenario, seed: int) -> Measured:
    """Plan one instance."""
    snapshot, pods = instance(scenario, seed)
    start = time.process_time()
    found = plan(PackingProblem.of(snapshot, pods))
    return Measured(time.process_time() - start, found)


def summarise(scenario: Scenario, runs: Sequence[Measured]) -> dict[str, Any]:
    """Return the row of a scenario: seconds, how often proved, the gap in percent."""
    seconds = sorted(run.seconds for run in runs)
    gaps = [100 * run.plan.gap for run in runs]
    kept = [
        run.plan.status is Status.OPTIMAL and all(r.proven for r in run.plan.reached if r.level.goal is Goal.OPENED)
        for run in runs
    ]
    return {
        "scenario": scenario.name,
        "pods": scenario.pods,
        "nodes": scenario.nodes,
        "seeds": len(runs),
        "p50_seconds": round(statistics.median(seconds), 3),
        "max_seconds": round(seconds[-1], 3),
        "proven": sum(run.plan.status is Status.OPTIMAL for run in runs),
        "whole_nodes_proven": sum(kept),
        "gap_percent_mean": round(statistics.fmean(gaps), 3),
        "gap_percent_max": round(max(gaps), 3),
        "gpus_placed_mean": round(statistics.fmean(run.plan.objective for run in runs), 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner", description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small queues, one seed: what CI runs")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds (default 20)")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default {RESULTS})")
    options = parser.parse_args(arguments)
    scenarios = [s for s in (SMALL if options.small else SCENARIOS) if options.only in s.name]
    measure(SMALL[0], 0)  # what is loaded on first use
    rows = []
    for scenario in scenarios:
        rows.append(
            summarise(scenario, [measure(scenario, seed) for seed in range(1 if options.small else options.seeds)])
        )
        print(rows[-1], flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
