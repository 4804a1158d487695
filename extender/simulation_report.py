"""What a simulated sequence of arrivals came to, in the keys of the command line contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from extender.packing.fragmentation import JOB_SIZES, free_gpus, measure, most_on_a_node, stranded_by_size
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.simulate import KubeScheduler, Placement, schedule_all


class PlacementRow(TypedDict):
    """One arrival: where it went, None and why when it found no node."""

    pod: str
    node: str | None
    reason: str


class SimulationSummary(TypedDict):
    """Totals over the arrivals.

    ``stranded_gpus`` says by job size how many free whole GPUs are left in pieces too small for such a pod;
    ``largest_node`` how many whole GPUs the largest node offers, pods larger than that have no room anywhere.
    ``starved_gpus``: how many of the free ones lack the CPU or memory that pods here typically ask for per GPU.
    """

    arrived: int
    placed: int
    refused: int
    gpus_arrived: int
    gpus_placed: int
    free_gpus: int
    stranded_gpus: dict[str, int]
    largest_node: int
    starved_gpus: int


class SimulationReport(TypedDict):
    """The report of ``simulate``."""

    placements: list[PlacementRow]
    summary: SimulationSummary
    warnings: list[str]


def simulation_report(scheduler: KubeScheduler, pods: Iterable[PodInfo], warnings: Iterable[str]) -> SimulationReport:
    """Let the pods arrive one after the other and report."""
    placements = schedule_all(scheduler, pods)
    rows = [PlacementRow(pod=p.pod.key, node=p.node, reason=p.reason) for p in placements]
    return {"placements": rows, "summary": _summary(placements, scheduler.snapshot), "warnings": list(warnings)}


def _summary(placements: list[Placement], snapshot: Snapshot) -> SimulationSummary:
    placed = [p for p in placements if p.node is not None]
    whole = snapshot.table.whole_gpu_resources
    stranded = [stranded_by_size(snapshot, resource, JOB_SIZES) for resource in whole]
    return {
        "arrived": len(placements),
        "placed": len(placed),
        "refused": len(placements) - len(placed),
        "gpus_arrived": sum(p.pod.gpu.count for p in placements),
        "gpus_placed": sum(p.pod.gpu.count for p in placed),
        "free_gpus": sum(free_gpus(snapshot, resource) for resource in whole),
        "stranded_gpus": {str(size): sum(found[size] for found in stranded) for size in JOB_SIZES},
        "largest_node": max((most_on_a_node(snapshot, resource) for resource in whole), default=0),
        "starved_gpus": sum(model.starved for model in measure(snapshot)),
    }
