"""The state of the cluster as gauges, read off the present Snapshot at scrape: no series outlives its node.

Amounts are GPUs unless the name says otherwise. A gauge that would divide by zero is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cache import View
from extender.metrics import Kind, Spec
from extender.packing.fit import static_verdicts
from extender.packing.fragmentation import ModelFragmentation, capacity_of, measure
from extender.packing.memory import ByIdentity
from extender.packing.resources import total
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, IntVector, NodeTable
from extender.packing.types import PodInfo

UNKNOWN: Final = "unknown"
_MODEL: Final = ("resource", "model")
_BY_SIZE: Final = ("resource", "model", "size")
_LARGEST_SIZE: Final = 16

GPUS: Final = Spec(
    Kind.GAUGE, "gpus", ("resource", "model", "state"),
    "Whole, exclusive GPUs as built, in four states that add up: `allocated` to pods; `free` to be had now; "
    "`unschedulable`, free on cordoned or unready nodes; `withdrawn`, built in but not allocatable.",
)  # fmt: skip
SLICES: Final = Spec(
    Kind.GAUGE, "gpu_slices", ("resource", "model", "state"),
    "MIG slices, and shares of GPUs that several pods use, in the states of `gpus`; in units of the resource.",
)  # fmt: skip
OVERCOMMITTED: Final = Spec(
    Kind.GAUGE, "overcommitted_gpus", _MODEL, "GPUs that pods hold beyond what their nodes have; 0 in a sound cluster."
)
LARGEST: Final = Spec(
    Kind.GAUGE, "largest_placeable_gpus", _MODEL, "The most GPUs a pod could get now: the largest hole on one node."
)
PLACEABLE: Final = Spec(
    Kind.GAUGE, "placeable_pods", _BY_SIZE, "Pods of that many GPUs which could start now, counting GPUs alone."
)
STRANDED: Final = Spec(
    Kind.GAUGE, "stranded_gpus", _BY_SIZE, "Free GPUs in pieces too small for a pod of that many GPUs."
)
STARVED: Final = Spec(
    Kind.GAUGE, "stranded_by_cpu_memory_gpus", _MODEL,
    "Free GPUs that would be left without CPU or memory, if each took what is typical for the pods of this cluster.",
)  # fmt: skip
FRAGMENTATION: Final = Spec(
    Kind.GAUGE, "fragmentation_ratio", _MODEL,
    "Share of the free GPUs that a pod of this cluster's mix can be expected not to be able to use (0 to 1); absent "
    "while none is free.",
)  # fmt: skip
PENDING_PODS: Final = Spec(
    Kind.GAUGE, "pending_pods", _BY_SIZE,
    "Pods that wait for GPUs, gated ones left out. `model` is `any` for a pod that takes all, `several` for more than "
    "one, `none` where no node has what it names; `size` is the GPUs it asks for, `17+` above 16.",
)  # fmt: skip
PENDING_GPUS: Final = Spec(Kind.GAUGE, "pending_gpus", _MODEL, "GPUs those pods ask for.")
GATED: Final = Spec(Kind.GAUGE, "gated_pods", ("resource",), "Pods with scheduling gates that ask for GPUs.")
NODES: Final = Spec(Kind.GAUGE, "nodes", ("state",), "Nodes of the cluster: `open`, or `closed` (cordoned or unready).")
TENTATIVE: Final = Spec(
    Kind.GAUGE, "tentative_pods", (), "Pods whose node is booked for scoring until their binding is seen."
)
HOLDS: Final = Spec(
    Kind.GAUGE, "held_nodes", (), "Nodes held for larger pods that wait, so that smaller ones do not break them up."
)
SYNCED: Final = Spec(Kind.GAUGE, "synced", (), "1 when the cluster's nodes and pods are known, else 0.")
GENERATION: Final = Spec(
    Kind.GAUGE, "snapshot_generation", (), "Changes of the cluster since the start; falls back to 0 at a restart."
)
AGE: Final = Spec(Kind.GAUGE, "snapshot_age_seconds", (), "Seconds since the last change of the cluster was seen.")

STATE_SPECS: Final = (
    GPUS, SLICES, OVERCOMMITTED, LARGEST, PLACEABLE, STRANDED, STARVED, FRAGMENTATION, PENDING_PODS, PENDING_GPUS,
    GATED, NODES, TENTATIVE, HOLDS, SYNCED, GENERATION, AGE,
)  # fmt: skip

NODE_GPUS: Final = Spec(
    Kind.GAUGE,
    "node_gpus",
    ("node", "resource", "model", "state"),
    "Whole, exclusive GPUs of each node in the states of `gpus`. On `/metrics/nodes` alone: with thousands of nodes "
    "this is for slow scrapes; joins with `kube_node_*` on `node`.",
)
NODE_SLICES: Final = Spec(
    Kind.GAUGE, "node_gpu_slices", ("node", "resource", "model", "state"), "The same of what is in `gpu_slices`."
)

NODE_SPECS: Final = (NODE_GPUS, NODE_SLICES)

Sample = tuple[tuple[str, ...], float]


class StateCollector(Collector):
    """Reads one View per scrape."""

    def __init__(self, view: Callable[[], View], clock: Callable[[], float]) -> None:
        """Read views from `view`; `clock` is the cache's."""
        self._view = view
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge of this module."""
        view = self._view()
        snapshot = view.snapshot
        yield from _scalars(view, self._clock())
        yield _family(GPUS, gpu_states(snapshot, whole=True))
        yield _family(SLICES, gpu_states(snapshot, whole=False))
        yield from _fragmentation(measure(snapshot))
        yield from _queue(snapshot)

    def describe(self) -> Iterator[Metric]:
        """Yield the gauges without samples, so that registering does not measure."""
        return (_family(spec, ()) for spec in STATE_SPECS)


class NodeCollector(Collector):
    """Reads the GPUs of every node off one View per scrape."""

    def __init__(self, view: Callable[[], View]) -> None:
        """Read views from `view`."""
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield both gauges."""
        snapshot = self._view().snapshot
        yield _family(NODE_GPUS, node_gpu_states(snapshot, whole=True))
        yield _family(NODE_SLICES, node_gpu_states(snapshot, whole=False))

    def describe(self) -> Iterator[Metric]:
        """Yield them without samples."""
        return (_family(spec, ()) for spec in NODE_SPECS)


def _family(spec: Spec, samples: Iterable[Sample]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(spec.full_name, spec.text, labels=spec.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _scalars(view: View, now: float) -> Iterator[Metric]:
    snapshot = view.snapshot
    still_open = int(np.count_nonzero(snapshot.table.open))
    yield _family(NODES, [(("open",), still_open), (("closed",), len(snapshot) - still_open)])
    yield _family(TENTATIVE, [((), len(view.ledger.lines))])
    yield _family(HOLDS, [((), len(view.holds.lines))])
    yield _family(SYNCED, [((), int(view.synced))])
    yield _family(GENERATION, [((), snapshot.generation)])
    yield _family(AGE, [((), max(0.0, now - view.changed))])


# -- GPUs ----------------------------------------------------------------------------------------------------------


def gpu_states(snapshot: Snapshot, *, whole: bool) -> Iterator[Sample]:
    """Yield ((resource, model, state), GPUs) for every resource and model that has any: whole GPUs, or all others."""
    for resource in snapshot.table.gpu_resources:
        totals = _totals(snapshot, resource, whole=whole)
        for model in sorted(totals):
            for state, amount in totals[model].items():
                yield (resource, model, state), amount


def node_gpu_states(snapshot: Snapshot, *, whole: bool) -> Iterator[Sample]:
    """Yield ((node, resource, model, state), GPUs) for every GPU resource that a node names: whole, or others."""
    for resource in snapshot.table.gpu_resources:
        per_row = {state: amounts.tolist() for state, amounts in _states(snapshot, resource).items()}
        asked = snapshot.table.whole(resource) == whole
        for row, node in enumerate(snapshot.table.nodes):
            if asked[row] and (model := node.gpus.get(resource)) is not None:
                for state, amounts in per_row.items():
                    yield (node.name, resource, model.label or UNKNOWN, state), amounts[row]


def _states(snapshot: Snapshot, resource: str) -> dict[str, IntVector]:
    table, allocatable = snapshot.table, snapshot.allocatable_of(resource)
    allocated = np.minimum(snapshot.used[table.axis.index[resource]], allocatable)
    left = allocatable - allocated
    return {
        "allocated": allocated,
        "free": np.where(table.open, left, 0),
        "unschedulable": np.where(table.open, 0, left),
        "withdrawn": capacity_of(table, resource) - allocatable,
    }


def _totals(snapshot: Snapshot, resource: str, *, whole: bool) -> dict[str, dict[str, int]]:
    table, per_row = snapshot.table, _states(snapshot, resource)
    built_or_held = (capacity_of(table, resource) > 0) | (snapshot.used[table.axis.index[resource]] > 0)
    totals = {}
    for model, rows in _rows_by_model(table, resource, whole=whole):
        if built_or_held[rows].any():
            totals[model] = {state: total(amounts[rows]) for state, amounts in per_row.items()}
    return totals


def _rows_by_model(table: NodeTable, resource: str, *, whole: bool) -> list[tuple[str, BoolVector]]:
    column, asked = table.models(resource), table.whole(resource) == whole
    codes = defaultdict(list)
    for code, model in enumerate(column.models):
        codes[model.label or UNKNOWN].append(code)
    return [(label, asked & np.isin(column.codes, group)) for label, group in codes.items()]


def _fragmentation(measured: Iterable[ModelFragmentation]) -> Iterator[Metric]:
    found = {(m.resource, m.model or UNKNOWN): m for m in measured}
    yield _family(OVERCOMMITTED, [(key, m.overcommitted) for key, m in found.items()])
    yield _family(LARGEST, [(key, m.largest_placeable) for key, m in found.items()])
    sizes = [(*key, str(s.size), s) for key, m in found.items() for s in m.sizes]
    yield _family(PLACEABLE, [((r, model, size), s.placeable_pods) for r, model, size, s in sizes])
    yield _family(STRANDED, [((r, model, size), s.stranded_gpus) for r, model, size, s in sizes])
    yield _family(STARVED, [(key, m.starved) for key, m in found.items()])
    ratios = ((key, m.expected_ratio) for key, m in found.items())
    yield _family(FRAGMENTATION, [(key, ratio) for key, ratio in ratios if ratio is not None])


# -- the queue -----------------------------------------------------------------------------------------------------


def _queue(snapshot: Snapshot) -> Iterator[Metric]:
    pods: Counter[tuple[str, ...]] = Counter()
    gpus: Counter[tuple[str, ...]] = Counter({(r, "any"): 0 for r in snapshot.table.gpu_resources})
    gated: Counter[tuple[str, ...]] = Counter()
    # By identity: between two scrapes most pods are the same, and one may say as much as a thousand others.
    models: ByIdentity[PodInfo, str] = snapshot.table.remember("models wanted", None, ByIdentity)
    for pod in snapshot.pending.values():
        if pod.gated and pod.gpu.count:
            gated[pod.gpu.resource,] += 1
        elif pod.gpu.count:
            key = (pod.gpu.resource, models.recall(pod, lambda pod: model_wanted(snapshot.table, pod)))
            pods[*key, _size(pod.gpu.count)] += 1
            gpus[key] += pod.gpu.count
    models.trim(len(snapshot.pending))
    yield _family(PENDING_PODS, sorted(pods.items()))
    yield _family(PENDING_GPUS, sorted(gpus.items()))
    yield _family(GATED, sorted(gated.items()))


def _size(gpus: int) -> str:
    # Sizes are the users' choice: without a bound their number would be, too.
    return str(gpus) if gpus <= _LARGEST_SIZE else f"{_LARGEST_SIZE + 1}+"


def model_wanted(table: NodeTable, pod: PodInfo) -> str:
    """Return the model that a waiting pod can run on: its name, or `any`, `several`, `none`; see PENDING_PODS."""
    if not (pod.constraints.selector or pod.constraints.affinity is not None or pod.gpu.wishful):
        return "any"
    column = table.models(pod.gpu.resource)
    fits = static_verdicts(table, pod.constraints, pod.gpu).fits
    accepted = {column.models[code].label or UNKNOWN for code in np.unique(column.codes[fits]).tolist() if code >= 0}
    if len(accepted) == 1:
        return accepted.pop()
    labels = {model.label or UNKNOWN for model in column.models}
    return "none" if not accepted else "any" if accepted == labels else "several"
