"""One run of the real kube-scheduler over waiting pods, timed; see `scheduler_throughput` for what is compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from benchmarks import livecluster
from controlplane import releases
from controlplane.cluster import PODS, Cluster
from controlplane.counting import Usage
from controlplane.extenderprocess import ExtenderProcess, ListeningProcess
from controlplane.metrics import sum_of
from controlplane.objects import node_of
from controlplane.plane import EXTENDER_USER, Plane
from controlplane.processes import wait_for
from controlplane.schedulerfiles import registration, without_extender
from controlplane.schedulerprocess import SchedulerProcess

MINOR: Final = releases.NEWEST.minor
NONE, NAMES, NODES, FLOOR = "no extender", "ours, names", "ours, whole nodes", "no opinion"
WARM_UP: Final = 10
"""Bindings before the clock starts: first calls fill caches on both sides."""
_RUN_SECONDS: Final = 240.0
_SYNC_SECONDS: Final = 60.0
_MILLI: Final = 1000


@dataclass(frozen=True)
class Variant:
    """One way to run the scheduler. `sampled` leaves percentageOfNodesToScore to its default."""

    extender: str
    sampled: bool = False

    @property
    def name(self) -> str:
        """Return what the tables call it."""
        return f"{self.extender}, sampled" if self.sampled else self.extender

    @property
    def base(self) -> Variant:
        """Return what it is compared with."""
        return Variant(NONE, self.sampled)


@dataclass(frozen=True)
class Run:
    """What one run has shown.

    Attributes:
        pods_per_second: by the times of the bindings.
        cycle_ms: mean time of a pod's scheduling cycle, binding left out, as kube-scheduler measures it.
        filter_ms, prioritize_ms: our mean time per call, from body to body, as we measure it.
        handoff_hits: share of the prioritize calls that were about the names filter had answered; 0 without any.
        scheduler_cpu_ms, extender_cpu_ms, server_cpu_ms: CPU time per pod; the last is API server and etcd.
        opened: nodes that had no pod before and have one now.
        whole: nodes without a pod: so many 8-GPU pods would still fit.
        stranded: GPUs free on nodes that have been begun.
    """

    pods_per_second: float
    cycle_ms: float
    filter_ms: float
    prioritize_ms: float
    handoff_hits: float
    scheduler_cpu_ms: float
    extender_cpu_ms: float
    server_cpu_ms: float
    opened: int
    whole: int
    stranded: int


class Bindings:
    """Notes the time of each binding, told by a watch of its own."""

    def __init__(self, cluster: Cluster) -> None:
        version = cluster.api.get(PODS, limit="1")["metadata"]["resourceVersion"]
        self._watch = cluster.api.watch(PODS, version, fieldSelector="spec.nodeName!=")
        self._thread = threading.Thread(target=self._follow)
        self.times: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        self._thread.join()

    def _follow(self) -> None:
        # A pod that gets its node enters what the field selector shows.
        for kind, _ in self._watch:
            if kind == "ADDED":
                self.times.append(time.monotonic())

    def wait(self, count: int) -> None:
        """Wait until so many pods are bound."""
        wait_for(lambda: len(self.times) >= count, f"{count} pods are bound", _RUN_SECONDS, 0.02)


class Bench:
    """A control plane with nodes of which some are busy; runs follow one another."""

    def __init__(self, plane: Plane, nodes: int) -> None:
        """Create the nodes and the pods that run from the start."""
        self._plane = plane
        self._cluster = Cluster(plane.api)
        self._runs = 0
        self._nodes = self._cluster.create_nodes(livecluster.nodes(nodes))
        self._begun = self._cluster.create_pods(livecluster.running(nodes))

    def run(self, variant: Variant, pods: int, seed: int) -> Run:
        """Schedule so many pods; the cluster is as before when it returns."""
        self._runs += 1
        folder = self._plane.folder / f"run-{self._runs}"
        folder.mkdir()
        self._cluster.create_pods(livecluster.arrivals(pods, seed))
        try:
            with ExitStack() as stack:
                extender = stack.enter_context(_extender(variant, self._plane, folder))
                bindings = stack.enter_context(Bindings(self._cluster))
                config = _config(variant, self._plane, folder, extender)
                scheduler = stack.enter_context(self._plane.scheduler(MINOR, config=config))
                return self._timed(bindings, scheduler, extender, pods)
        finally:
            self._clean()

    def _timed(
        self, bindings: Bindings, scheduler: SchedulerProcess, extender: ListeningProcess | None, pods: int
    ) -> Run:
        bindings.wait(WARM_UP)
        first, before = len(bindings.times), self._cpu(scheduler, extender)
        bindings.wait(pods)
        after = self._cpu(scheduler, extender)
        cpu = [(now - then) * _MILLI / max(1, pods - first) for now, then in zip(after, before, strict=True)]
        seconds = bindings.times[pods - 1] - bindings.times[WARM_UP - 1]
        scheduler_cpu, extender_cpu, server_cpu = cpu
        filter_ms, prioritize_ms, hits = _service(extender)
        opened, whole, stranded = self._packing()
        return Run(
            (pods - WARM_UP) / seconds,
            _cycle_ms(scheduler),
            filter_ms,
            prioritize_ms,
            hits,
            scheduler_cpu,
            extender_cpu,
            server_cpu,
            opened,
            whole,
            stranded,
        )

    def _cpu(self, scheduler: SchedulerProcess, extender: ListeningProcess | None) -> tuple[float, float, float]:
        ours = extender.cpu_seconds() if extender else 0.0
        return scheduler.cpu_seconds(), ours, self._plane.cpu_seconds()

    def _packing(self) -> tuple[int, int, int]:
        pods = self._cluster.pods()
        begun = {node_of(pod) for pod in self._begun}
        now = {node_of(pod) for pod in pods if node_of(pod)}
        usage = Usage.of(self._nodes, pods)
        return len(now - begun), len(self._nodes) - len(now), usage.stranded[max(livecluster.SIZES)]

    def _clean(self) -> None:
        self._plane.api.delete(PODS, labelSelector=livecluster.ARRIVING)
        wait_for(lambda: len(self._cluster.pods()) == len(self._begun), "the pods of the run are gone")


@contextmanager
def _extender(variant: Variant, plane: Plane, folder: Path) -> Iterator[ListeningProcess | None]:
    """Run the extender of a variant, ready to answer."""
    if variant.extender == NONE:
        yield None
    elif variant.extender == FLOOR:
        with ListeningProcess("floor", ["benchmarks.floor", "--agree"], folder, {}) as floor:
            yield floor
    else:
        with ExtenderProcess(folder, "--kubeconfig", plane.kubeconfig(EXTENDER_USER)) as extender:
            extender.wait_synced(_SYNC_SECONDS)
            yield extender


def _config(variant: Variant, plane: Plane, folder: Path, extender: ListeningProcess | None) -> Path:
    changes: dict[str, object] = {} if variant.sampled else {"percentageOfNodesToScore": 100}
    if extender:
        names = variant.extender != NODES
        changes["extenders"] = [registration(extender.url, httpTimeout="60s", nodeCacheCapable=names)]
    return without_extender(plane, folder, changes=changes)


def _cycle_ms(scheduler: SchedulerProcess) -> float:
    page, name = scheduler.metrics(), "scheduler_scheduling_algorithm_duration_seconds"
    return sum_of(page, f"{name}_sum") / sum_of(page, f"{name}_count") * _MILLI


def _service(extender: ListeningProcess | None) -> tuple[float, float, float]:
    """Return milliseconds of a filter and of a prioritize call, and the share of hand-offs that hit."""
    if not isinstance(extender, ExtenderProcess):
        return 0.0, 0.0, 0.0
    page, name = extender.get("/metrics")[1], "gpu_extender_request_duration_seconds"
    filter_ms, prioritize_ms = (
        sum_of(page, f"{name}_sum", verb=verb) / max(1.0, sum_of(page, f"{name}_count", verb=verb)) * _MILLI
        for verb in ("filter", "prioritize")
    )
    handoffs = "gpu_extender_handoffs_total"
    return filter_ms, prioritize_ms, sum_of(page, handoffs, result="hit") / max(1.0, sum_of(page, handoffs))
