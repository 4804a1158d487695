"""Which GPU models are contended: the expected demand of every list of models, spread over the models it accepts.

The demand mix is scaled to the free GPUs. Each distinct list of accepted models is a source of demand that can flow to
its models only; loads are made as even as they can be (water-filling), so a model ends up above the others only when
pods that accept nothing else want it. Source: docs/background.md, "Packing", the guard.

    load = argmin  sum_m load_m^2 / (2 free_m)   with  load_m = sum_l x[l, m],  sum_m x[l, m] = demand_l
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.packing.fit import static_verdicts
from extender.packing.memory import ByIdentity
from extender.packing.mix import Changes, DemandMix, PodClass
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolMatrix, Codes, IntVector, NodeTable, Rows, frozen

Floats = npt.NDArray[np.float64]

_ROUNDS: Final = 24
_STEP: Final = 0.8
_TRIFLE: Final = 1e-9
_KEY_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class ModelGroups:
    """The whole GPUs of one resource grouped by model name.

    Attributes:
        labels: the names, None for the nodes that do not say.
        of_row: int32 [node], the group of each row; -1 where the resource does not count whole GPUs.
        open_rows, of_open_row: intp [open node], the rows in a group that take pods, and their groups.
    """

    labels: tuple[str | None, ...]
    of_row: Codes
    open_rows: Rows
    of_open_row: Rows

    def totals(self, amounts: IntVector, rows: Rows | None = None) -> Floats:
        """Sum an amount per row over the rows of each group; ``rows`` are those that the amounts are of, if not all."""
        groups = self.of_row if rows is None else self.of_row[rows]
        member = groups >= 0
        return np.bincount(groups[member], weights=amounts[member], minlength=len(self.labels)).astype(np.float64)

    def open_totals(self, amounts: IntVector) -> Floats:
        """Sum an amount per row over the rows of each group that take pods."""
        open_amounts = amounts.take(self.open_rows)
        return np.bincount(self.of_open_row, weights=open_amounts, minlength=len(self.labels)).astype(np.float64)


def model_groups(table: NodeTable, resource: str) -> ModelGroups:
    """Return the groups of a resource; remembered per table."""
    return table.remember("model groups", resource, lambda: _groups(table, resource))


def _groups(table: NodeTable, resource: str) -> ModelGroups:
    column, distinct = table.models(resource), dict[str | None, int]()
    group_of_code = [
        distinct.setdefault(m.label, len(distinct)) if m.whole and m.exclusive else -1 for m in column.models
    ]
    of_row = np.array([*group_of_code, -1], dtype=np.int32)[column.codes]
    open_rows = frozen(np.flatnonzero((of_row >= 0) & table.open))
    return ModelGroups(tuple(distinct), frozen(of_row), open_rows, frozen(of_row[open_rows].astype(np.intp)))


class ModelList(NamedTuple):
    """The models a class of pods may use.

    Attributes:
        accepted: one byte per group, 1 where at least one node of the model, were it empty, could run the class.
        typed: selectors, affinity, taints or wishes rule out some model, whatever the pods' size.
    """

    accepted: bytes
    typed: bool


def model_list(table: NodeTable, pods: PodClass) -> ModelList:
    """Return the models a class may use; remembered per table while there is room."""
    return table.answers.recall(
        ("models", pods), lambda: _model_list(table, pods), lambda _: _KEY_BYTES + pods.constraints.size_bytes
    )


def _model_list(table: NodeTable, pods: PodClass) -> ModelList:
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
        width: float [group], free GPUs on nodes that take pods, 1 at least.
        typed: accepted models (as bytes) -> float [group], the GPUs of typed demand with that list that come to each.
        load: float [group], their sum. Untyped demand takes part in the spread but guards nothing: it can go elsewhere.
    """

    groups: ModelGroups
    width: Floats
    typed: Mapping[bytes, Floats]
    load: Floats

    def pressure(self, accepted: bytes) -> Floats:
        """Return float [group]: typed demand of *other* lists per free GPU, for a pod that accepts ``accepted``."""
        own = self.typed.get(accepted)
        others = self.load if own is None else self.load - own
        return np.maximum(others, 0.0) / self.width


def contention(snapshot: Snapshot, resource: str) -> Contention:
    """Return the contention of a resource's models under the snapshot's mix; remembered per snapshot."""
    return snapshot.remember("contention", resource, lambda: _contention(snapshot, resource))


def _contention(snapshot: Snapshot, resource: str) -> Contention:
    groups = model_groups(snapshot.table, resource)
    table, mix = snapshot.table, snapshot.mix
    free = _free(snapshot, resource, groups)
    demand = mix.remember(table, "demand", resource, lambda: Demand.of(table, mix, resource), Demand.followed)
    total = demand.untyped + demand.typed
    flows = spread(demand.accepted, total * (np.add.reduce(free) / max(1.0, float(np.add.reduce(total)))), free)
    guarded = flows * (demand.typed / np.maximum(total, 1.0))[:, None]
    typed = dict(zip(demand.lists, guarded, strict=True))
    return Contention(groups, np.maximum(free, 1.0), typed, np.add.reduce(guarded, axis=0))


def _free(snapshot: Snapshot, resource: str, groups: ModelGroups) -> Floats:
    """Return float [group]: free GPUs on open nodes, less what the tentative ledger has booked."""
    unbooked = snapshot.remember(
        "free by model",
        resource,
        lambda: groups.open_totals(snapshot.free_of(resource)),
        lambda found, now, changed: groups.open_totals(now.free_of(resource)) if changed.rows else found,
    )
    at = snapshot.table.axis.index.get(resource)
    if snapshot.booked is None or at is None:
        return unbooked
    rows = np.flatnonzero(snapshot.booked[at])
    booked = np.maximum(snapshot.free[at, rows], 0) - snapshot.free_for_score_of(resource, rows)
    return np.maximum(unbooked - groups.totals(booked * snapshot.table.open[rows], rows), 0.0)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the mix asks of one resource, by the list of models that pods accept.

    Attributes:
        asked: accepted models as bytes -> GPUs of untyped and of typed pods, exact.
        lists: those of them that some model satisfies, sorted.
        accepted: bool [list, group].
        untyped, typed: float [list], GPUs.
    """

    resource: str
    asked: Mapping[bytes, tuple[int, int]]
    lists: tuple[bytes, ...]
    accepted: BoolMatrix
    untyped: Floats
    typed: Floats

    @classmethod
    def of(cls, table: NodeTable, mix: DemandMix, resource: str) -> Demand:
        """Add up the classes of the mix."""
        asked: dict[bytes, tuple[int, int]] = {}
        # By identity, as in expected.shaped_classes.
        known: ByIdentity[PodClass, ModelList] = table.remember("model lists", resource, ByIdentity)
        for pods, count in mix.counts.items():
            if pods.gpu.whole and pods.gpu.resource == resource:
                _ask(asked, known.recall(pods, lambda pods: model_list(table, pods)), count * pods.gpu.count)
        known.trim(len(mix.counts))
        return cls._laid_out(table, resource, asked)

    def followed(self, table: NodeTable, changes: Changes) -> Demand:
        """Return the demand once classes of the mix have grown or shrunk."""
        asked = dict(self.asked)
        for pods, by in changes.items():
            if by and pods.gpu.whole and pods.gpu.resource == self.resource:
                _ask(asked, model_list(table, pods), by * pods.gpu.count)
        return self if asked == self.asked else self._laid_out(table, self.resource, asked)

    @classmethod
    def _laid_out(cls, table: NodeTable, resource: str, asked: dict[bytes, tuple[int, int]]) -> Demand:
        lists = tuple(sorted(key for key, gpus in asked.items() if any(key) and any(gpus)))
        accepted = np.frombuffer(b"".join(lists), dtype=np.bool_)
        untyped, typed = np.array([asked[key] for key in lists], dtype=np.float64).reshape(-1, 2).T
        width = len(model_groups(table, resource).labels)
        return cls(resource, asked, lists, accepted.reshape(len(lists), width), untyped, typed)


def _ask(asked: dict[bytes, tuple[int, int]], models: ModelList, gpus: int) -> None:
    untyped, typed = asked.get(models.accepted, (0, 0))
    asked[models.accepted] = (untyped, typed + gpus) if models.typed else (untyped + gpus, typed)


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
    width, takes = np.maximum(free, _TRIFLE), accepted.astype(np.float64)
    if not demand.any():
        return takes * 0.0  # nothing is free to be spread over
    # A flow is demand x pull of the model / pull of all that the list accepts, so only the pulls need following. `dot`
    # into arrays at hand, because arrays of a few numbers that come and go cost more than what is done with them.
    pull, loads, per_pull = width.copy(), np.empty_like(width), np.empty_like(demand)
    by_model, step = np.ascontiguousarray(takes.T), np.array(-_STEP)
    # Within these a pull stays a number, however absurd the demand.
    least, most = np.array(_TRIFLE), np.array(1.0 / _TRIFLE)
    for _ in range(_ROUNDS if len(demand) > 1 else 0):
        np.divide(demand, np.dot(takes, pull, out=per_pull), out=per_pull)
        np.divide(np.multiply(np.dot(by_model, per_pull, out=loads), pull, out=loads), width, out=loads)
        np.minimum(np.maximum(loads, least, out=loads), most, out=loads)
        pull *= np.power(loads, step, out=loads)
    flows: Floats = takes * pull * (demand / np.dot(takes, pull))[:, None]
    return flows
