"""Which GPU models are contended: the expected demand of every list of models, spread over the models it accepts.

The demand mix is scaled to the free GPUs. Each distinct list of accepted models is a source of demand that can flow to
its models only; loads are made as even as they can be (water-filling), so a model ends up above the others only when
pods that accept nothing else want it. Source: packing-benchmarks 4c, "guard of contended models".

    load = argmin  sum_m load_m^2 / (2 free_m)   with  load_m = sum_l x[l, m],  sum_m x[l, m] = demand_l
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.packing.fit import static_verdicts
from extender.packing.mix import PodClass
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, Codes, NodeTable, frozen

Floats = npt.NDArray[np.float64]

_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class ModelGroups:
    """The whole GPUs of one resource grouped by model name.

    Attributes:
        labels: the names, None for the nodes that do not say.
        of_row: int32 [node], the group of each row; -1 where the resource does not count whole GPUs.
    """

    labels: tuple[str | None, ...]
    of_row: Codes

    def totals(self, amounts: npt.NDArray[np.int64]) -> Floats:
        """Sum an amount per row over the rows of each group."""
        member = self.of_row >= 0
        return np.bincount(self.of_row[member], weights=amounts[member], minlength=len(self.labels)).astype(np.float64)


def model_groups(table: NodeTable, resource: str) -> ModelGroups:
    """Return the groups of a resource; remembered per table."""
    return table.remember("model groups", resource, lambda: _groups(table, resource))


def _groups(table: NodeTable, resource: str) -> ModelGroups:
    column, distinct = table.models(resource), dict[str | None, int]()
    group_of_code = [
        distinct.setdefault(m.label, len(distinct)) if m.whole and m.exclusive else -1 for m in column.models
    ]
    lookup = np.array([*group_of_code, -1], dtype=np.int32)
    return ModelGroups(tuple(distinct), frozen(lookup[column.codes]))


def accepted_groups(table: NodeTable, pods: PodClass) -> BoolVector:
    """Return bool [group]: the models of which at least one node, were it empty, could run a class."""
    return table.remember("accepted", pods, lambda: _accepted(table, pods))


def _accepted(table: NodeTable, pods: PodClass) -> BoolVector:
    groups = model_groups(table, pods.gpu.resource)
    fits = static_verdicts(table, pods.constraints, pods.gpu).fits & (groups.of_row >= 0)
    for resource, amount in ((pods.gpu.resource, pods.gpu.count), (CPU, pods.cpu_milli), (MEMORY, pods.memory_bytes)):
        fits &= table.allocatable[table.axis.index[resource]] >= amount
    return frozen(np.bincount(groups.of_row[fits], minlength=len(groups.labels)) > 0)


@dataclass(frozen=True, slots=True)
class Contention:
    """The even spread of the expected demand.

    Attributes:
        groups: the models.
        free: float [group], free GPUs on nodes that take pods.
        load: float [group], GPUs of demand that come to each model.
        flows: accepted models (as bytes of the mask) -> float [group], that list's part of the load.
    """

    groups: ModelGroups
    free: Floats
    load: Floats
    flows: dict[bytes, Floats]

    def pressure(self, accepted: BoolVector) -> Floats:
        """Return float [group]: demand of *other* lists per free GPU, for a pod that accepts ``accepted``."""
        own = self.flows.get(accepted.tobytes())
        others = self.load if own is None else self.load - own
        return np.maximum(others, 0.0) / np.maximum(self.free, 1.0)


def contention(snapshot: Snapshot, resource: str) -> Contention:
    """Return the contention of a resource's models under the snapshot's mix; remembered per snapshot."""
    return snapshot.remember("contention", resource, lambda: _contention(snapshot, resource))


def _contention(snapshot: Snapshot, resource: str) -> Contention:
    groups = model_groups(snapshot.table, resource)
    at = snapshot.table.axis.index[resource]
    free = groups.totals(np.where(snapshot.table.open, np.maximum(snapshot.free_for_score[at], 0), 0))
    demand: dict[bytes, float] = defaultdict(float)
    for pod_class, pods in snapshot.mix.counts.items():
        if pod_class.gpu.whole and pod_class.gpu.resource == resource:
            accepted = accepted_groups(snapshot.table, pod_class)
            if accepted.any():
                demand[accepted.tobytes()] += pods * pod_class.gpu.count
    scale = float(free.sum()) / max(1.0, sum(demand.values()))
    flows = spread({key: amount * scale for key, amount in demand.items()}, free)
    return Contention(groups, free, sum(flows.values(), np.zeros(len(groups.labels))), flows)


def spread(demand: dict[bytes, float], free: Floats) -> dict[bytes, Floats]:
    """Spread every list's demand over its models so that loads per free GPU are as even as can be.

    Block-coordinate descent: each list in turn is filled in exactly, given the others; narrow lists first, so that a
    few sweeps settle it.
    """
    order = sorted(demand, key=lambda key: (sum(key), key))
    flows = {key: np.zeros(len(free)) for key in order}
    load = np.zeros(len(free))
    for _ in range(_SWEEPS if len(order) > 1 else 1):
        for key in order:
            load -= flows[key]
            flows[key] = fill(demand[key], load, free, np.frombuffer(key, dtype=np.bool_))
            load += flows[key]
    return flows


def fill(amount: float, load: Floats, free: Floats, accepted: BoolVector) -> Floats:
    """Pour ``amount`` over the accepted models: the lowest load per free GPU rises first, as water would."""
    width = np.maximum(free, 1e-9)
    at = np.flatnonzero(accepted)
    at = at[np.argsort(load[at] / width[at], kind="stable")]
    level = load[at] / width[at]
    # Level after filling the first k models: (amount + their load) / their width; the right k is the last whose own level is below it.
    reached = (amount + np.cumsum(load[at])) / np.cumsum(width[at])
    wet = int(np.flatnonzero(level <= reached)[-1])
    poured = np.zeros(len(free))
    poured[at] = np.maximum(reached[wet] * width[at] - load[at], 0.0)
    return poured
