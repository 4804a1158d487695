"""The public trace openb (Alibaba cluster-trace-gpu-v2023): its nodes and pods as ours, and arrivals drawn from them.

Arrivals follow the method of FGD (Weng et al., USENIX ATC 2023): all pods of the list in an order drawn from the seed,
then pods of the list with replacement, until what they ask for reaches a share of the cluster's GPUs.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from extender.churn import Job
from extender.packing.gpu import GpuModel, GpuRequest
from extender.packing.selectors import NO_CONSTRAINTS, NodeConstraints, Operator, Requirement, Term
from extender.packing.types import NodeInfo, PodInfo

GPU: Final = "nvidia.com/gpu"
SPOT_FOLDER: Final = "alibaba-spot-gpu-v2026"
MODEL_LABEL: Final = "nvidia.com/gpu.product"
# Where pods share GPUs, a node offers its GPUs in thousandths, as one pool.
MILLI: Final = 1000
_PODS_PER_NODE: Final = 1001
_MIB: Final = 2**20
_PLENTY_BYTES: Final = 2**50
_DAY_SECONDS: Final = 86400.0
_G3_CORES_MILLI: Final = 120_000
_MODELS_DRAWN_BY: Final = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod of the list asks for; ``gpus`` in whole GPUs, or in thousandths where pods share them."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A cluster, and the list of pods that arrivals are drawn from.

    Attributes:
        unit: how many units of ``shapes`` and nodes one GPU is: 1, or MILLI where pods share GPUs.
        by_device: a pod that shares needs one device with room; else a node's GPUs are one pool.
    """

    nodes: tuple[NodeInfo, ...]
    shapes: tuple[Shape, ...]
    unit: int = 1
    by_device: bool = False

    @property
    def gpus(self) -> int:
        """Return the GPUs of the cluster, in units."""
        return sum(node.allocatable[GPU] for node in self.nodes)


class Trace:
    """The files of a folder, read as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file, gzipped or not."""
        plain = self.folder / name
        if plain.exists():
            return list(csv.DictReader(plain.read_text(encoding="utf-8").splitlines()))
        with gzip.open(self.folder / f"{name}.gz", "rt", encoding="utf-8") as text:
            return list(csv.DictReader(text))

    def nodes(self, unit: int = 1) -> tuple[NodeInfo, ...]:
        """Return the GPU nodes."""
        return tuple(_node(row, unit) for row in self.rows("openb_node_list_gpu_node.csv"))

    def shapes(self, variant: str, *, cpu_only: bool = False, shared: bool = False) -> tuple[Shape, ...]:
        """Return what the pods of a list ask for; pods without GPUs and sharing ones only if wanted."""
        if variant == "multigpu50+gpuspec33":
            return self._typed_multi_gpu(cpu_only=cpu_only)
        found = []
        for row in self.rows(f"openb_pod_list_{variant}.csv"):
            gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
            if (gpus or cpu_only) and (shared or not gpus or milli >= MILLI):
                models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
                amount = gpus * milli if shared else gpus
                found.append(Shape(amount, int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB, models))
        return tuple(found)

    def _typed_multi_gpu(self, *, cpu_only: bool) -> tuple[Shape, ...]:
        """Return the pods of multigpu50 with models drawn from the pods of gpuspec33 that ask for the same."""
        models: dict[tuple[int, int, int], list[tuple[str, ...]]] = defaultdict(list)
        for shape in self.shapes("gpuspec33", cpu_only=cpu_only):
            models[shape.gpus, shape.cpu_milli, shape.memory_bytes].append(shape.models)
        draw = random.Random(_MODELS_DRAWN_BY)
        return tuple(
            replace(shape, models=draw.choice(models.get((shape.gpus, shape.cpu_milli, shape.memory_bytes), [()])))
            for shape in self.shapes("multigpu50", cpu_only=cpu_only)
        )

    def workload(self, variant: str, *, cpu_only: bool = False, shared: bool = False) -> Workload:
        """Return the cluster with the pods of a variant."""
        unit = MILLI if shared else 1
        return Workload(self.nodes(unit), self.shapes(variant, cpu_only=cpu_only or shared, shared=shared), unit)

    def large_workload(self, variant: str) -> Workload:
        """Return the nodes of the trace spot-GPU v2026, in a folder beside this one, with untyped pods of a variant."""
        rows = Trace(self.folder.parent / SPOT_FOLDER).rows("node_info_df.csv")
        nodes = tuple(_spot_node(row) for row in rows)
        return Workload(nodes, tuple(replace(shape, models=()) for shape in self.shapes(variant)))

    def lifetimes(self) -> dict[bool, list[float]]:
        """Return seconds that whole-GPU pods of the default list ran, capped at a day: (more than one GPU) -> all."""
        found: dict[bool, list[float]] = {False: [], True: []}
        for row in self.rows("openb_pod_list_default.csv"):
            start = row["scheduled_time"] or row["creation_time"]
            if int(row["num_gpu"]) and int(row["gpu_milli"]) >= MILLI and start and row["deletion_time"]:
                seconds = float(row["deletion_time"]) - float(start)
                if seconds > 0:
                    found[int(row["num_gpu"]) > 1].append(min(_DAY_SECONDS, seconds))
        return found


def thinned(nodes: tuple[NodeInfo, ...], every: int) -> tuple[NodeInfo, ...]:
    """Return each so many-th node of those that are alike."""
    alike: dict[object, list[NodeInfo]] = defaultdict(list)
    for node in nodes:
        alike[node.gpus[GPU], tuple(node.allocatable.values())].append(node)
    return tuple(node for group in alike.values() for node in group[::every])


def pooled(nodes: tuple[NodeInfo, ...]) -> list[NodeInfo]:
    """Merge all nodes of a model into one: what no placement on the nodes themselves can do much better than."""
    merged: dict[str, NodeInfo] = {}
    for node in nodes:
        model = node.labels[MODEL_LABEL]
        before = merged[model].allocatable if model in merged else {}
        amounts = {name: amount + before.get(name, 0) for name, amount in node.allocatable.items()}
        merged[model] = replace(node, name=f"pooled-{model}", allocatable=amounts, capacity=amounts)
    return list(merged.values())


def arrivals(workload: Workload, seed: int, share: float = 1.0) -> list[PodInfo]:
    """Return pods until what they ask for reaches a share of the cluster's GPUs."""
    draw = random.Random(seed)
    order = list(workload.shapes)
    draw.shuffle(order)
    pods: list[PodInfo] = []
    asked, wanted = 0, share * workload.gpus
    while asked < wanted:
        shape = order[len(pods)] if len(pods) < len(order) else draw.choice(workload.shapes)
        pods.append(pod(len(pods), shape))
        asked += shape.gpus
    return pods


def jobs(workload: Workload, lifetimes: dict[bool, list[float]], seed: int, load: float, count: int) -> Iterator[Job]:
    """Yield Poisson arrivals that offer a load of the cluster's GPUs.

    8-GPU pods of 120 cores or more are left out: they run on few nodes, and alone ask for more than those have.
    """
    draw = random.Random(seed)
    shapes = [s for s in workload.shapes if not (s.gpus == 8 and s.cpu_milli >= _G3_CORES_MILLI)]
    chosen = [draw.choice(shapes) for _ in range(count)]
    lives = [draw.choice(lifetimes[shape.gpus > 1]) for shape in chosen]
    # As expected of the lists, not as drawn: a seed may ask for more than the load, as a week may.
    mean_life = {large: fmean(seconds) for large, seconds in lifetimes.items()}
    mean_gap = fmean(shape.gpus * mean_life[shape.gpus > 1] for shape in shapes) / (load * workload.gpus)
    now = 0.0
    for number, (shape, life) in enumerate(zip(chosen, lives, strict=True)):
        now += draw.expovariate(1 / mean_gap)
        yield Job(now, life, pod(number, shape, now))


def pod(number: int, shape: Shape, created: float = 0.0) -> PodInfo:
    """Return a waiting pod of a shape."""
    amounts = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes, GPU: shape.gpus}
    models = Term((Requirement(MODEL_LABEL, Operator.IN, shape.models),))
    return PodInfo(
        uid=f"u{number:06d}",
        namespace="openb",
        name=f"p{number:06d}",
        requests={name: amount for name, amount in amounts.items() if amount},
        gpu=GpuRequest(GPU, shape.gpus, whole=True) if shape.gpus else GpuRequest(),
        constraints=NodeConstraints(affinity=(models,)) if shape.models else NO_CONSTRAINTS,
        created=created,
    )


def _spot_node(row: dict[str, str]) -> NodeInfo:
    """Return a node of spot-GPU v2026, whose list says nothing of memory: there is enough."""
    cores, gpus = int(row["cpu_num"]), int(row["gpu_capacity_num"])
    amounts = {"cpu": cores * 1000, "memory": _PLENTY_BYTES, "pods": _PODS_PER_NODE, GPU: gpus}
    model = row["gpu_model"]
    name = f"spot-{int(row['node_name']):05d}"
    return NodeInfo(name, {MODEL_LABEL: model}, amounts, amounts, gpus={GPU: GpuModel(model)})


def _node(row: dict[str, str], unit: int) -> NodeInfo:
    amounts = {
        "cpu": int(row["cpu_milli"]),
        "memory": int(row["memory_mib"]) * _MIB,
        "pods": _PODS_PER_NODE,
        GPU: int(row["gpu"]) * unit,
    }
    model = row["model"]
    return NodeInfo(row["sn"], {MODEL_LABEL: model}, amounts, amounts, gpus={GPU: GpuModel(model)})
