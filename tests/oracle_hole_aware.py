"""What `hole-aware` should say: the formula with everything worked out anew, and nothing remembered or shared.

One exception to plain Python: demand is spread over the models by numpy, whose powers and sums are not those of
`math` to the last bit, and the last bit decides between equals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from extender.packing.gpu import GpuRequest
from extender.packing.labels import Labels
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, PodInfo
from tests.oracle import CPU, FITS, MEMORY, World, judge
from tests.oracle_policies import admitted, kind, passes_static, whole

ROUNDS: Final = 24


def hole_aware(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return the utility of a node for a pod that asks for whole GPUs, at the default weights."""
    cost = fragmentation(world, pod, node)
    cost += 4.0 * guard(world, pod, node)
    cost += large_node(world, pod, node)
    cost += 0.1 * cpu_ratio(world, pod, node)
    cost += 10.0 * ladder(pod, node)
    cost += 10.0 * preference(world, pod, node)
    return -(cost + tie(world, pod, node))


def asking(world: World, resource: str) -> Iterator[PodInfo]:
    """Yield the pods of the mix that ask for whole GPUs of a resource."""
    return (p for p in world.seen() if p.gpu.whole and p.gpu.count and p.gpu.resource == resource)


# -- fragmentation -------------------------------------------------------------------------------------------------


def fragmentation(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return F(g - n, C - c) - F(g, C)."""
    names = (pod.gpu.resource, CPU, MEMORY)
    free = [world.free(node, name) for name in names]
    taken = [pod.gpu.count, pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0)]
    after = [max(0, f - t) for f, t in zip(free, taken, strict=True)]
    return useless(world, pod.gpu.resource, node, *after) - useless(world, pod.gpu.resource, node, *free)


def useless(world: World, resource: str, node: NodeInfo, gpus: int, cpu: int, memory: int) -> float:
    """Return F = g (1 - P) of a node with so much free."""
    if not whole(node, resource):
        return 0.0
    largest = max(n.allocatable.get(resource, 0) for n in world.nodes if whole(n, resource))
    shapes = [
        (min(p.gpu.count, largest), p.gpu.count, p.requests.get(CPU, 0), p.requests.get(MEMORY, 0), kinds)
        for p in asking(world, resource)
        for kinds in [admitted(world, p, resource)]
    ]
    if not any(kinds and count <= largest for _, count, _, _, kinds in shapes):
        sizes = {min(2**power, largest) for power in range(largest.bit_length() + 1)} - {0}
        everywhere = frozenset(kind(n, resource) for n in world.nodes if whole(n, resource))
        shapes = [(1, size, 0, 0, everywhere) for size in sizes]
    total = max(1.0, float(sum(shape[0] for shape in shapes)))
    here = [s for s in shapes if s[1] <= min(gpus, largest) and kind(node, resource) in s[4]]
    by_cpu = sum(shape[0] for shape in here if shape[2] <= cpu)
    by_memory = sum(shape[0] for shape in here if shape[3] <= memory)
    return gpus * (total - min(by_cpu, by_memory)) / total


# -- guard ---------------------------------------------------------------------------------------------------------


def guard(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return n times the typed demand of other lists of models per free GPU of the node's model."""
    resource = pod.gpu.resource
    if not whole(node, resource):
        return 0.0
    models = models_of(world, resource)
    free = [
        float(sum(world.free(n, resource) for n in nodes if n.ready and not n.unschedulable))
        for nodes in models.values()
    ]
    asked: dict[bytes, list[int]] = {}
    for p in asking(world, resource):
        accepted, typed = accepting(world, p)
        asked.setdefault(accepted, [0, 0])[typed] += p.gpu.count
    lists = sorted(accepted for accepted in asked if any(accepted))
    flows = spread(lists, np.array([float(sum(asked[a])) for a in lists]), np.array(free))
    shares = np.array([asked[accepted][1] / max(1.0, sum(asked[accepted])) for accepted in lists])
    guarded = flows * shares[:, None]
    load = np.add.reduce(guarded, axis=0)
    own, _ = accepting(world, pod)
    others = load - guarded[lists.index(own)] if own in lists else load
    at = list(models).index(node.gpus[resource].label)
    return pod.gpu.count * (max(float(others[at]), 0.0) / max(free[at], 1.0))


def models_of(world: World, resource: str) -> dict[str | None, list[NodeInfo]]:
    """Return the nodes with whole GPUs by model, both in order of the nodes' names."""
    models: dict[str | None, list[NodeInfo]] = {}
    for node in sorted(world.nodes, key=lambda n: n.name):
        if whole(node, resource):
            models.setdefault(node.gpus[resource].label, []).append(node)
    return models


def accepting(world: World, pod: PodInfo) -> tuple[bytes, bool]:
    """Return a byte per model (1 where an empty node could run the pod), and whether its words rule some model out."""
    models = models_of(world, pod.gpu.resource).values()
    named = [[n for n in nodes if passes_static(pod, n)] for nodes in models]
    amounts = {pod.gpu.resource: pod.gpu.count} | {name: pod.requests.get(name, 0) for name in (CPU, MEMORY)}
    able = [[n for n in nodes if all(n.allocatable.get(r, 0) >= a for r, a in amounts.items())] for nodes in named]
    return bytes(bool(nodes) for nodes in able), not all(named)


def spread(lists: list[bytes], demand: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Spread demand, scaled to what is free, evenly over the models of each list."""
    demand = demand * (free.sum() / max(1.0, demand.sum()))
    width = np.maximum(free, 1e-9)
    accepted = np.array([list(accepted) for accepted in lists], dtype=np.float64).reshape(len(lists), len(free))
    if not demand.any():
        return np.zeros_like(accepted)
    pull, accepting = width, np.ascontiguousarray(accepted.T)
    for _ in range(ROUNDS if len(lists) > 1 else 0):
        loads = (accepting @ (demand / (accepted @ pull))) * pull / width
        pull = pull * np.minimum(np.maximum(loads, 1e-9), 1 / 1e-9) ** -0.8
    flows: np.ndarray = accepted * pull * (demand / (accepted @ pull))[:, None]
    return flows


# -- the other terms -----------------------------------------------------------------------------------------------


def large_node(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return n (e + (g - n)/G) on the largest nodes, for a pod of at most a quarter of one."""
    resource, n = pod.gpu.resource, pod.gpu.count
    largest = max((x.allocatable.get(resource, 0) for x in world.nodes if whole(x, resource)), default=0)
    is_largest = whole(node, resource) and node.allocatable.get(resource, 0) == largest
    if not is_largest or 4 * n > largest:
        return 0.0
    return float(n) * (world.ended + max(world.free(node, resource) - n, 0) / largest)


def cpu_ratio(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return n |C/g - c/n| / r."""
    resource, n = pod.gpu.resource, pod.gpu.count
    ratios = [p.requests.get(CPU, 0) / p.gpu.count for p in world.seen() if p.gpu.resource == resource and p.gpu.count]
    largest = max(ratios, default=1.0)
    there = min(world.free(node, CPU) / max(world.free(node, resource), 1), largest)
    return n * abs(there - pod.requests.get(CPU, 0) / n) / max(largest, 1.0)


def ladder(pod: PodInfo, node: NodeInfo) -> float:
    """Return n times the penalty of the node's model on the pod's ladder."""
    model = node.gpus.get(pod.gpu.resource)
    return pod.gpu.count * min(pod.gpu.penalty(model), 1e6) if model is not None else 0.0


def preference(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return n times the share of the preferred affinity that the node misses, the best node that fits having all."""
    nodes = sorted(world.nodes, key=lambda n: n.name)
    matched = dict(
        zip((n.name for n in nodes), Labels.of(Snapshot.of(nodes).table).preferred(pod.preferred), strict=True)
    )
    best = float(
        max((matched[n.name] for n in nodes if judge(World(world.nodes, world.pods), pod, n) == FITS), default=0)
    )
    return pod.gpu.count * (1.0 - min(matched[node.name] / best, 1.0)) if best else 0.0


def tie(world: World, pod: PodInfo, node: NodeInfo) -> float:
    """Return a trifle per GPU and core left over."""
    left = world.free(node, pod.gpu.resource) - pod.gpu.count
    return 1e-3 * left + 1e-6 * min(world.free(node, CPU) / 1000.0, 1e3)


def asks_for_whole_gpus(world: World, gpu: GpuRequest) -> bool:
    """Tell whether the formula is about a pod: it asks for whole GPUs of a resource that some node names."""
    return bool(gpu.count and gpu.whole and any(gpu.resource in {*n.allocatable, *n.capacity} for n in world.nodes))
