"""The JSON-able answers of the commands `gpus` and `fit`. Pure functions of a Snapshot; the keys are a stable contract.

Of one row:  capacity = used + free + withdrawn - overcommitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypedDict

import numpy as np

from extender.advice import remedy, verdict
from extender.packing.fit import Cause, Reason, filter_nodes
from extender.packing.fragmentation import capacity_of
from extender.packing.framework import Policy, ranked
from extender.packing.resources import CPU, MEMORY, PODS
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector
from extender.packing.types import PodInfo
from extender.selectorhints import SelectorHints

SIZES: Final = (1, 2, 4, 8)
"""Pod sizes of the summary, in GPUs: what people ask for."""

_UNITS: Final = {CPU: "cpu_milli", MEMORY: "memory_bytes"}


class PodGpus(TypedDict):
    """What one pod holds of a row's resource."""

    pod: str
    gpus: int


class GpuRow(TypedDict):
    """One GPU resource of one node, in units.

    `schedulable`: the node takes new pods; `closed`: why it does not (`cordoned`, `not ready` or both). `withdrawn`:
    built in but not allocatable. `overcommitted`: held above allocatable; `free` is then 0. `releasing`: what of `used`
    terminating pods hold.
    """

    node: str
    resource: str
    model: str | None
    exclusive: bool
    schedulable: bool
    closed: str | None
    capacity: int
    allocatable: int
    used: int
    free: int
    withdrawn: int
    overcommitted: int
    releasing: int
    pods: list[PodGpus]


class ModelRow(TypedDict):
    """All nodes that have one model under one resource.

    `free` can be had now; what is free on nodes that take no pods is `unschedulable`. `startable`: how many pods of a
    size could start now, by count alone. `largest_free`: most that is free on one node.
    """

    model: str | None
    resource: str
    exclusive: bool
    nodes: int
    capacity: int
    allocatable: int
    used: int
    free: int
    unschedulable: int
    withdrawn: int
    overcommitted: int
    releasing: int
    largest_free: int
    startable: dict[str, int]


class GpusReport(TypedDict):
    """Answer of `gpus`."""

    nodes: list[GpuRow]
    summary: list[ModelRow]
    warnings: list[str]


class GroupRow(TypedDict):
    """The group of a pod that does not start without others of it.

    `waiting`: its pods that wait; `needed`: how many of them start together at least. `starts`: whether so many fit
    together now, with nothing else placed; null when that is not proved.
    """

    group: str
    waiting: int
    needed: int
    starts: bool | None
    verdict: str


class FitRow(TypedDict):
    """One pod: every node is in exactly one of `fits` (best first), `busy` (would fit if pods left) and `never`.

    They are about this pod alone; `group` says what it depends on besides.
    """

    pod: str
    requests: dict[str, int]
    gated: bool
    fits: list[str]
    busy: dict[str, str]
    never: dict[str, str]
    verdict: str
    remedy: str | None
    group: GroupRow | None


class FitReport(TypedDict):
    """Answer of `fit`."""

    pods: list[FitRow]
    warnings: list[str]


# ---------------------------------------------------------------- gpus


def gpus_report(snapshot: Snapshot, warnings: Iterable[str] = ()) -> GpusReport:
    """Return a row per GPU resource that a node advertises (zeros too), in order of node and resource."""
    rows = list(_gpu_rows(snapshot))
    return {"nodes": rows, "summary": _summary(rows), "warnings": list(warnings)}


def _gpu_rows(snapshot: Snapshot) -> Iterator[GpuRow]:
    for row, node in enumerate(snapshot.table.nodes):
        for resource, model in sorted(node.gpus.items()):
            holders = [pod for pod in snapshot.pods[row] if pod.requests.get(resource)]
            allocatable = node.allocatable.get(resource, 0)
            capacity = int(capacity_of(snapshot.table, resource)[row])
            used = int(snapshot.used[snapshot.table.axis.index[resource], row])
            yield {
                "node": node.name,
                "resource": resource,
                "model": model.label,
                "exclusive": model.exclusive,
                "schedulable": bool(snapshot.table.open[row]),
                "closed": node.closed or None,
                "capacity": capacity,
                "allocatable": allocatable,
                "used": used,
                "free": max(0, allocatable - used),
                "withdrawn": max(0, capacity - allocatable),
                "overcommitted": max(0, used - allocatable),
                "releasing": sum(pod.requests[resource] for pod in holders if pod.terminating),
                "pods": sorted(({"pod": p.key, "gpus": p.requests[resource]} for p in holders), key=lambda p: p["pod"]),
            }


def _summary(rows: Sequence[GpuRow]) -> list[ModelRow]:
    """Return the rows by resource and model; what exists only as zeros is no model."""
    groups: dict[tuple[str, str, bool], list[GpuRow]] = {}
    for row in rows:
        if row["capacity"] or row["allocatable"] or row["used"]:
            groups.setdefault((row["resource"], row["model"] or "", row["exclusive"]), []).append(row)
    return [_model_row(groups[key]) for key in sorted(groups)]


def _model_row(rows: Sequence[GpuRow]) -> ModelRow:
    free = [row["free"] for row in rows if row["schedulable"]]
    return {
        "model": rows[0]["model"],
        "resource": rows[0]["resource"],
        "exclusive": rows[0]["exclusive"],
        "nodes": len(rows),
        "capacity": sum(row["capacity"] for row in rows),
        "allocatable": sum(row["allocatable"] for row in rows),
        "used": sum(row["used"] for row in rows),
        "free": sum(free),
        "unschedulable": sum(row["free"] for row in rows if not row["schedulable"]),
        "withdrawn": sum(row["withdrawn"] for row in rows),
        "overcommitted": sum(row["overcommitted"] for row in rows),
        "releasing": sum(row["releasing"] for row in rows),
        "largest_free": max(free, default=0),
        "startable": {str(size): sum(units // size for units in free) for size in SIZES},
    }


# ---------------------------------------------------------------- fit


def fit_report(
    snapshot: Snapshot,
    pods: Iterable[PodInfo],
    warnings: Iterable[str] = (),
    policy: Policy | None = None,
    *,
    finding_moves: Callable[[PodInfo], str] = lambda _: "",
    groups: Mapping[str, GroupRow] = MappingProxyType({}),
) -> FitReport:
    """Return a row per pod, in their order. A pod that runs, by its name, is judged as if it were not there.

    Nodes that fit are listed as `policy` would choose them, the best first; without one by name. `finding_moves` gives
    the command that finds pods to move for one that waits; `groups` has what is known of a pod's group by its uid.
    """
    asked = list(pods)
    hints = SelectorHints(snapshot.table.nodes)
    running = {pod.key: pod for group in snapshot.pods for pod in group}
    rows = [
        _fit_row(
            snapshot.without_pod(running[pod.key]) if pod.key in running else snapshot,
            pod,
            hints,
            policy,
            finding_moves=finding_moves(pod) if pod.waiting else "",
            group=groups.get(pod.uid),
        )
        for pod in asked
    ]
    return {"pods": rows, "warnings": [*warnings, *unmodelled(asked, '"fits"')]}


def unmodelled(pods: Iterable[PodInfo], what: str) -> list[str]:
    """Return a warning per pod that kube-scheduler judges by more than we know; `what` is the answer that lacks it."""
    return [
        f"pod {pod.key}: kube-scheduler looks at its {', '.join(pod.unmodelled)}, too; {what} leaves them out"
        for pod in pods
        if pod.unmodelled
    ]


def _fit_row(
    view: Snapshot,
    pod: PodInfo,
    hints: SelectorHints,
    policy: Policy | None,
    *,
    finding_moves: str,
    group: GroupRow | None,
) -> FitRow:
    verdicts = filter_nodes(view, pod)
    fitting = np.flatnonzero(verdicts.fits)
    if policy is not None and len(fitting):
        fitting = ranked(policy, view, pod, fitting)
    fits = [view.table.names[row] for row in fitting.tolist()]
    busy: dict[str, str] = {}
    never: dict[str, str] = {}
    too_large = _too_large(view, pod)
    for row, (name, code) in enumerate(zip(view.table.names, verdicts.codes.tolist(), strict=True)):
        reason = verdicts.reasons[code]
        if code and reason.resolvable:
            busy[name] = reason.text
        elif code:
            never[name] = reason.text + _for_ever(reason, too_large, row)
    return {
        "pod": pod.key,
        "requests": requests_by_unit(pod.requests),
        "gated": pod.gated,
        "fits": fits,
        "busy": busy,
        "never": never,
        "verdict": verdict(pod, verdicts),
        "remedy": remedy(view, pod, verdicts, hints, finding_moves),
        "group": group,
    }


def _too_large(view: Snapshot, pod: PodInfo) -> dict[str, BoolVector]:
    """Return for each resource that the pod asks for the rows whose nodes have less of it, even when empty."""
    wanted = ((PODS, 1), *sorted(pod.requests.items()))
    return {name: amount > view.table.allocatable_of(name) for name, amount in wanted}


def _for_ever(reason: Reason, too_large: Mapping[str, BoolVector], row: int) -> str:
    """Say which of several scarce resources no departure would free; kube-scheduler's words do not tell."""
    if reason.cause is not Cause.RESOURCES or ", " not in reason.text:
        return ""
    return f" (never enough {', '.join(name for name, rows in too_large.items() if rows[row])})"


def requests_by_unit(requests: Mapping[str, int]) -> dict[str, int]:
    """Return requests with the unit in the name of cpu and memory; both are always there."""
    base = {unit: requests.get(name, 0) for name, unit in _UNITS.items()}
    return base | {name: requests[name] for name in sorted(requests) if name not in _UNITS}
