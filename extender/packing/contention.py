"""Which GPU models are contended: the expected demand of every list of models, spread over the models it accepts.

The demand mix is scaled to the free GPUs. Each distinct list of accepted models is a source of demand that can flow to
its models only; loads are made as even as they can be (water-filling), so a model ends up above the others only when
pods that accept nothing else want it. Source: docs/background.md, "Packing", the guard.

    load = argmin  sum_m load_m^2 / (2 free_m)   with  load_m = sum_l x[l, m],  sum_m x[l, m] = demand_l
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.packing.fit import static_verdicts
from extender.packing.memory import ByIdentity
from extender.packing.mix import PodClass
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.table import Codes, NodeTable, frozen

Floats = npt.NDArray[np.float64]

BoolMatrix = npt.NDArray[np.bool_]

_ROUNDS: Final = 24
_STEP: Final = 0.8
_TRIFLE: Final = 1e-9
_LEAST: Final = float(np.finfo(np.float64).tiny)


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


class ModelList(NamedTuple):
    """The models a class of pods may use.

    Attributes:
        accepted: one byte per group, 1 where at least one node of the model, were it empty, could run the class.
        typed: selectors, affinity, taints or wishes rule out some model, whatever the pods' size.
    """

    accepted: bytes
    typed: bool


def model_list(table: NodeTable, pods: PodClass) -> ModelList:
    """Return the models a class may use."""
    groups = model_groups(table, pods.gpu.resource)
    named = static_verdicts(table, pods.constraints, pods.gpu).fits & (groups.of_row >= 0)
    fits = named.copy()
    for resource, amount in ((pods.gpu.resource, pods.gpu.count), (CPU, pods.cpu_milli), (MEMORY, pods.memory_bytes)):
        fits &= table.allocatable_of(resource) >= amount
    size = len(groups.labels)
    typed = bool((np.bincount(groups.of_row[named], minlength=size) == 0).any())
    return ModelList((np.bincount(groups.of_row[fits], minlength=size) > 0).tobytes(), typed)


@dataclass(frozen=True, slots=True)
class Contention:
    """The even spread of the expected demand.

    Attributes:
        groups: the models.
        free: float [group], free GPUs on nodes that take pods.
        typed: accepted models (as bytes) -> float [group], the GPUs of typed demand with that list that come to each.
        load: float [group], their sum. Untyped demand takes part in the spread but guards nothing: it can go elsewhere.
    """

    groups: ModelGroups
    free: Floats
    typed: Mapping[bytes, Floats]
    load: Floats

    def pressure(self, accepted: bytes) -> Floats:
        """Return float [group]: typed demand of *other* lists per free GPU, for a pod that accepts ``accepted``."""
        own = self.typed.get(accepted)
        others = self.load if own is None else self.load - own
        return np.maximum(others, 0.0) / np.maximum(self.free, 1.0)


def contention(snapshot: Snapshot, resource: str) -> Contention:
    """Return the contention of a resource's models under the snapshot's mix; remembered per snapshot."""
    return snapshot.remember("contention", resource, lambda: _contention(snapshot, resource))


def _contention(snapshot: Snapshot, resource: str) -> Contention:
    groups = model_groups(snapshot.table, resource)
    # kube-scheduler may know of a resource before we do: then there is no row of it, and nothing is contended.
    at = snapshot.table.axis.index.get(resource)
    seen = np.zeros(len(snapshot), dtype=np.int64) if at is None else np.maximum(snapshot.free_for_score[at], 0)
    free = groups.totals(seen * snapshot.table.open)
    demand = _demand(snapshot, resource)
    lists = sorted(key for key in demand if any(key))
    accepted = np.frombuffer(b"".join(lists), dtype=np.bool_).reshape(len(lists), len(groups.labels))
    untyped, typed = np.array([demand[key] for key in lists], dtype=np.float64).reshape(-1, 2).T
    total = untyped + typed
    flows = spread(accepted, total * (free.sum() / max(1.0, total.sum())), free)
    guarded = flows * (typed / np.maximum(total, 1.0))[:, None]
    return Contention(groups, free, dict(zip(lists, guarded, strict=True)), guarded.sum(axis=0))


def _demand(snapshot: Snapshot, resource: str) -> Mapping[bytes, list[int]]:
    """Return accepted models -> [untyped GPUs, typed GPUs] that the mix asks for."""
    demand: dict[bytes, list[int]] = defaultdict(lambda: [0, 0])
    # By identity, as in expected.shapes_of.
    known: ByIdentity[PodClass, ModelList] = snapshot.table.remember("model lists", resource, ByIdentity)
    for pods, count in snapshot.mix.counts.items():
        if pods.gpu.whole and pods.gpu.resource == resource:
            accepted, typed = known.recall(pods, lambda pods: model_list(snapshot.table, pods))
            demand[accepted][typed] += count * pods.gpu.count
    known.trim(len(snapshot.mix.counts))
    return demand


def spread(accepted: BoolMatrix, demand: Floats, free: Floats) -> Floats:
    """Spread every list's demand over its models so that loads per free GPU are as even as can be.

    Multiplicative updates: a list moves its demand from its models with a high load per free GPU to those with a low
    one, in proportion; models that stay above the level of the list run dry. After ``_ROUNDS`` rounds loads are within
    1 % of the optimum on average (``tests/unit/test_contention.py``).

    Args:
        accepted: bool [list, group], at least one True a row.
        demand: float [list], GPUs.
        free: float [group], GPUs.

    Returns:
        float [list, group], rows summing to ``demand``.
    """
    width = np.maximum(free, _TRIFLE)
    flows = _scaled(accepted.astype(np.float64) * width, demand)
    for _ in range(_ROUNDS if len(demand) > 1 else 0):
        flows = _scaled(flows * np.maximum(flows.sum(axis=0) / width, _TRIFLE) ** -_STEP, demand)
    return flows


def _scaled(flows: Floats, demand: Floats) -> Floats:
    """Return flows whose rows sum to the demand. It is 0 while nothing is free: then so are they."""
    scaled: Floats = flows * (demand / np.maximum(flows.sum(axis=1), _LEAST))[:, None]
    return scaled
