"""Scenarios of the quality benchmark: clusters, arrivals and lifetimes from the synthetic generator, by seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from extender import synthetic
from extender.churn import Job
from extender.kube.convert import node_info, pod_info
from extender.kube.gpurules import GpuRules
from extender.kube.raw import raw_node, raw_pod
from extender.packing.types import NodeInfo, PodInfo
from extender.synthetic import ClusterSpec, Workload

SIZES = (1, 2, 4, 8)
# Mean lifetimes of openb, in seconds: small jobs are short, multi-GPU jobs long (docs/background.md, "Packing").
_MEAN_SECONDS = {1: 3900.0, 2: 13800.0, 4: 13800.0, 8: 13800.0}
_CPU_ONLY_SECONDS = 1800.0
_CAP_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named cluster and workload."""

    name: str
    cluster: ClusterSpec
    workload: Workload


TYPED = Scenario("typed", synthetic.MIXED_CLUSTER, synthetic.TYPED_WORKLOAD)
UNTYPED = Scenario("untyped", synthetic.UNIFORM_CLUSTER, synthetic.UNTYPED_WORKLOAD)
SCENARIOS = (TYPED, UNTYPED)


def shrunk(scenario: Scenario, divisor: int) -> Scenario:
    """Return the scenario with every node group divided, for CI."""
    groups = tuple(replace(g, nodes=max(1, g.nodes // divisor)) for g in scenario.cluster.groups)
    return replace(scenario, cluster=replace(scenario.cluster, groups=groups))


def nodes(scenario: Scenario) -> list[NodeInfo]:
    """Return the nodes of a scenario."""
    rules = GpuRules.default()
    return [node_info(raw_node(m), rules, _fail) for m in synthetic.node_manifests(scenario.cluster)]


def arrivals(scenario: Scenario, seed: int, demand_share: float) -> list[PodInfo]:
    """Return pods whose GPU demand is ``demand_share`` of the cluster's GPUs."""
    draw = synthetic.Arrivals(scenario.cluster, scenario.workload, seed)
    return [_pod(manifest) for manifest in draw.demand(int(scenario.cluster.gpus * demand_share))]


def jobs(scenario: Scenario, seed: int, load: float, count: int) -> Iterator[Job]:
    """Yield ``count`` Poisson arrivals with exponential lifetimes, offering ``load`` of the cluster's GPUs."""
    manifests = list(synthetic.Arrivals(scenario.cluster, scenario.workload, seed).pods(count))
    draw = random.Random(seed)
    lives = [min(_CAP_SECONDS, draw.expovariate(1 / _mean_seconds(synthetic.gpu_count(m)))) for m in manifests]
    gpu_seconds = sum(life * synthetic.gpu_count(m) for life, m in zip(lives, manifests, strict=True))
    mean_gap = gpu_seconds / count / (load * scenario.cluster.gpus)
    now = 0.0
    for life, manifest in zip(lives, manifests, strict=True):
        now += draw.expovariate(1 / mean_gap)
        yield Job(now, life, replace(_pod(manifest), created=now))


def _mean_seconds(gpus: int) -> float:
    return _MEAN_SECONDS.get(gpus, _CPU_ONLY_SECONDS)


def _pod(manifest: synthetic.Manifest) -> PodInfo:
    return pod_info(raw_pod(manifest), GpuRules.default(), _fail)


def _fail(line: str) -> None:
    raise AssertionError(line)
