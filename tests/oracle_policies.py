"""What every policy should say of one node: the formula of its source in plain Python. `UTILITIES` has them by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from extender.packing.table import fnv1a
from extender.packing.types import NodeInfo, PodInfo
from tests.oracle import CPU, FITS, MEMORY, PODS, World, judge

Utility = Callable[[World, PodInfo, NodeInfo], float]
Shape = tuple[str, int, int, frozenset[object]]


def gpu_resources(world: World) -> list[str]:
    """Return the resources that count whole exclusive GPUs somewhere."""
    return sorted({name for n in world.nodes for name, m in n.gpus.items() if m.whole})


def whole(node: NodeInfo, resource: str) -> bool:
    model = node.gpus.get(resource)
    return model is not None and model.whole and model.exclusive


def free_gpus(world: World, pod: PodInfo, node: NodeInfo) -> int:
    resources = [pod.gpu.resource] if pod.gpu.count else gpu_resources(world)
    return sum(world.free(node, resource) for resource in resources)


def left(world: World, pod: PodInfo, node: NodeInfo, resource: str) -> int:
    return max(0, world.free(node, resource) - pod.requests.get(resource, 0))


def uniform(_: World, pod: PodInfo, node: NodeInfo) -> float:
    mask = 2**64 - 1
    value = fnv1a(node.name) ^ fnv1a(f"0/{pod.uid}")
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = ((value ^ (value >> 33)) * factor) & mask
    return ((value ^ (value >> 33)) >> 11) / 2**53


def first_fit(world: World, _: PodInfo, node: NodeInfo) -> float:
    order = sorted((n.name for n in world.nodes), key=lambda name: (fnv1a(name), name))
    return -float(order.index(node.name))


def percent(world: World, pod: PodInfo, node: NodeInfo, resources: list[str], *, free: bool) -> float:
    parts = []
    for resource in resources:
        offered = node.allocatable.get(resource, 0)
        if offered:
            rest = left(world, pod, node, resource)
            parts.append(math.floor((rest if free else offered - rest) * 100.0 / offered))
    return math.floor(sum(parts) / len(parts)) if parts else 0.0


def least_allocated(world: World, pod: PodInfo, node: NodeInfo) -> float:
    return percent(world, pod, node, [CPU, MEMORY], free=True)


def most_allocated(world: World, pod: PodInfo, node: NodeInfo) -> float:
    return percent(world, pod, node, [pod.gpu.resource] if pod.gpu.count else [], free=False)


def most_allocated_gpu_cpu(world: World, pod: PodInfo, node: NodeInfo) -> float:
    return percent(world, pod, node, [*([pod.gpu.resource] if pod.gpu.count else []), CPU], free=False)


def best_fit(world: World, pod: PodInfo, node: NodeInfo) -> float:
    gpus = max(0, free_gpus(world, pod, node) - pod.gpu.count)
    return math.floor(100 * (1 - (left(world, pod, node, CPU) / 128_000 + gpus / 8) / 2))


def dot_product(world: World, pod: PodInfo, node: NodeInfo) -> float:
    cpu = world.free(node, CPU) / 128_000 * (pod.requests.get(CPU, 0) / 128_000)
    gpus = free_gpus(world, pod, node) / 8 * (pod.gpu.count / 8)
    return math.floor(100 * (1 - (cpu + gpus) / 2))


def gpu_packing(world: World, pod: PodInfo, node: NodeInfo) -> float:
    if not pod.gpu.count:
        return 0.0
    free = world.free(node, pod.gpu.resource)
    if free == node.allocatable.get(pod.gpu.resource, 0):
        return float(max(33 - free, free))
    return float(max(50 - pod.gpu.count, 33))


def gpu_clustering(world: World, pod: PodInfo, node: NodeInfo) -> float:
    if not pod.gpu.count:
        return 0.0
    sizes = {p.gpu.count for p in world.holding(node) if p.gpu.resource == pod.gpu.resource and p.gpu.count}
    band = (75 if len(sizes) == 1 else 50) if pod.gpu.count in sizes else (0 if sizes else 25)
    fullness = 8 - min(8, world.free(node, pod.gpu.resource))
    return float(band + 25 * fullness // 8)


def kind(node: NodeInfo, resource: str) -> tuple[object, int, int, int]:
    amounts = node.allocatable
    return node.gpus[resource], amounts.get(resource, 0), amounts.get(CPU, 0) // 1000, amounts.get(MEMORY, 0) // 2**30


def admitted(world: World, pod: PodInfo, resource: str) -> frozenset[object]:
    """Return the kinds of node on which a pod could run if amounts did not matter."""
    nodes = [n for n in world.nodes if whole(n, resource)]
    return frozenset(kind(n, resource) for n in nodes if passes_static(pod, n))


def passes_static(pod: PodInfo, node: NodeInfo) -> bool:
    roomy = World([NodeInfo(node.name, node.labels, {PODS: 1}, {}, node.taints, node.unschedulable, gpus=node.gpus)])
    bare = PodInfo(pod.uid, pod.namespace, pod.name, {}, pod.gpu, pod.constraints)
    return judge(roomy, bare, roomy.nodes[0]) == FITS


def typical_pods(world: World) -> dict[Shape, int]:
    """Return the most frequent (resource, GPUs, CPU, admitted kinds) that make up 95 % of the pods, ties kept."""
    resources, shapes = gpu_resources(world), Counter[Shape]()
    for p in world.seen():
        cpu = p.requests.get(CPU, 0)
        if p.gpu.whole and p.gpu.count and p.gpu.resource in resources:
            shapes[p.gpu.resource, p.gpu.count, cpu, admitted(world, p, p.gpu.resource)] += 1
        else:
            shapes["", 0, cpu, frozenset()] += 1
    kept, least = 0, 0
    for count in sorted(shapes.values(), reverse=True):
        if kept < 0.95 * shapes.total():
            kept, least = kept + count, count
    return {shape: count for shape, count in shapes.items() if count >= least}


def fragmentation(typical: dict[Shape, int], node: NodeInfo, resource: str, gpus: int, cpu: int) -> float:
    """Return F in GPUs of one node with so much free."""
    if not whole(node, resource):
        return 0.0
    useless = 0
    for (name, n, c, kinds), count in typical.items():
        fits = name == resource and n <= gpus and c <= cpu and kind(node, resource) in kinds
        useless += 0 if fits else count
    return max(0, gpus) * useless / max(1, sum(typical.values()))


def fgd_exact(world: World, pod: PodInfo, node: NodeInfo) -> float:
    typical, gradient = typical_pods(world), 0.0
    for resource in gpu_resources(world):
        free = world.free(node, resource)
        after = free - pod.requests.get(resource, 0)
        gradient += fragmentation(typical, node, resource, free, world.free(node, CPU))
        gradient -= fragmentation(typical, node, resource, after, left(world, pod, node, CPU))
    return gradient


def fgd(world: World, pod: PodInfo, node: NodeInfo) -> float:
    return math.floor(100 / (1 + math.exp(-fgd_exact(world, pod, node))))


def balanced(inner: Utility) -> Utility:
    def utility(world: World, pod: PodInfo, node: NodeInfo) -> float:
        x = inner(world, pod, node)
        if not pod.gpu.count:
            return x
        return free_share_rank(world, pod.gpu.resource, node) + (1 + x / (1 + abs(x))) / 2

    return utility


def free_share_rank(world: World, resource: str, node: NodeInfo) -> int:
    """Return how many models have a smaller free share than the node's; 0 where the node has no whole GPUs."""
    free, offered = Counter[str | None](), Counter[str | None]()
    for n in world.nodes:
        if whole(n, resource):
            label, is_open = n.gpus[resource].label, n.ready and not n.unschedulable
            free[label] += world.free(n, resource) * is_open
            offered[label] += n.allocatable.get(resource, 0) * is_open
    shares = {label: free[label] / max(1, offered[label]) for label in offered}
    return sum(s < shares[node.gpus[resource].label] for s in shares.values()) if whole(node, resource) else 0


UTILITIES: Final[Mapping[str, Utility]] = {
    "random": uniform,
    "first-fit": first_fit,
    "least-allocated": least_allocated,
    "most-allocated": most_allocated,
    "most-allocated-gpu-cpu": most_allocated_gpu_cpu,
    "best-fit": best_fit,
    "dot-product": dot_product,
    "gpu-packing": gpu_packing,
    "gpu-clustering": gpu_clustering,
    "fgd": fgd,
    "fgd-exact": fgd_exact,
    "balance+first-fit": balanced(first_fit),
    "balance+most-allocated": balanced(most_allocated),
    "balance+fgd": balanced(fgd),
}
