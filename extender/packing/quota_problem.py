"""What the quota LP is asked: groups of pods that may come, and columns of nodes with what is free on them.

Plain arrays, so that a child process can be given it. The demand is what waits, exactly, and for the rest of the free
GPUs what has come of late leads to expect: a plan for more demand than there are GPUs is worse than none
(docs/background.md, "Packing"). Every shape counts, however rare, as long as the LP stays small enough to be solved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.packing.guidance import CPU_CLASSES, Columns, Quotas, column_of
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.quota_groups import COARSER, LEAST_WEIGHT, Groups
from extender.packing.resources import CORE_MILLI, CPU, GIB, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolMatrix, IntVector, Rows

Floats = npt.NDArray[np.float64]

MOST_VARIABLES: Final = 20_000
"""As many are solved in one to four seconds, 50,000 in nine; more would age the quotas, or never come in time."""


@dataclass(frozen=True, eq=False, slots=True)
class QuotaProblem:
    """The quota LP of one resource.

    Attributes:
        gpus: float [group], GPUs a pod asks for.
        cores, gib: float [group], cores and GiB per GPU, the mean over the group's demand.
        demand: float [group], GPUs.
        allowed: bool [group, column], whether some node of the column could take a pod of the group now.
        column: int [column], as numbered by ``guidance.column_of``.
        width: how many columns that numbering has.
        free_gpus, free_cores, free_gib: float [column], on nodes that take pods and have a GPU free.
        sizes: float [size], the GPU counts above 1 that groups ask for, ascending.
        in_pieces: float [size, column], GPUs that pods of at least the size can get: sum of size x floor(free / size).
    """

    gpus: Floats
    cores: Floats
    gib: Floats
    demand: Floats
    allowed: BoolMatrix
    column: Columns
    width: int
    free_gpus: Floats
    free_cores: Floats
    free_gib: Floats
    sizes: Floats
    in_pieces: Floats


def pose(
    snapshot: Snapshot, resource: str, most_variables: int = MOST_VARIABLES
) -> tuple[QuotaProblem, Mapping[PodClass, int]]:
    """Return the problem of a Snapshot and the group of each class of its mix that some kind could hold.

    The LP has a variable for each pair of ``allowed``. Where they would be more than ``most_variables``, groups are
    told apart by less, by memory first; where that is not enough, those with least demand are left out. Their pods are
    in no group, so scores have no quotas for them, but room for their demand is left.
    """
    kinds = NodeKinds.of(snapshot.table, resource)
    free = _Free.of(snapshot, kinds)
    groups = Groups.of(snapshot, kinds)
    for coarse in COARSER:
        if free.allows(groups).sum() > most_variables:
            groups = groups.merged(coarse)
    demand, allowed = _demand(groups, float(free.gpus.astype(np.float64).sum())), free.allows(groups)
    kept = _most_wanted(groups, demand, allowed, most_variables)
    groups = groups.only(set(kept.tolist()))
    asked = np.array([key.gpus for key in groups.by_key], dtype=np.int64)
    sizes = np.unique(asked[asked > 1])
    amounts = [(max(g.gpus, LEAST_WEIGHT), g.cpu_milli, g.memory_bytes) for g in groups.by_key.values()]
    each, cpu_milli, memory_bytes = np.array(amounts, dtype=np.float64).reshape(len(groups), 3).T
    problem = QuotaProblem(
        gpus=asked.astype(np.float64),
        cores=cpu_milli / CORE_MILLI / each,
        gib=memory_bytes / GIB / each,
        demand=demand[kept],
        allowed=allowed[kept],
        column=free.column,
        width=len(kinds) * CPU_CLASSES,
        free_gpus=free.total(free.gpus),
        free_cores=free.total(free.cpu_milli) / CORE_MILLI,
        free_gib=free.total(free.memory_bytes) / GIB,
        sizes=sizes.astype(np.float64),
        in_pieces=free.in_pieces(sizes),
    )
    return problem, groups.of_class


def quotas_of(kinds: NodeKinds, groups: Mapping[PodClass, int], problem: QuotaProblem, wanted: Floats) -> Quotas:
    """Return a problem's solution (float [group, width], GPUs) as scoring reads it."""
    free = np.zeros(problem.width)
    free[problem.column] = problem.free_gpus
    return Quotas(kinds.signature, groups, wanted, free)


@dataclass(frozen=True, eq=False, slots=True)
class _Free:
    """What is free on the nodes that take pods and have a GPU free.

    Attributes:
        column: int [column], as ``QuotaProblem`` has it.
        at: int [node], the place in ``column`` of each of the nodes.
        gpus, cpu_milli, memory_bytes: int64 [node].
    """

    column: Columns
    at: Rows
    gpus: IntVector
    cpu_milli: IntVector
    memory_bytes: IntVector

    @classmethod
    def of(cls, snapshot: Snapshot, kinds: NodeKinds) -> _Free:
        rows = np.flatnonzero((kinds.of_row >= 0) & snapshot.table.open & (snapshot.free_of(kinds.resource) > 0))
        gpus, cpu_milli, memory = (snapshot.free_of(name)[rows] for name in (kinds.resource, CPU, MEMORY))
        column, at = np.unique(column_of(kinds.of_row[rows], gpus, cpu_milli), return_inverse=True)
        return cls(column, at, gpus, cpu_milli, memory)

    def total(self, amounts: IntVector) -> Floats:
        """Sum an amount per node by column."""
        return np.bincount(self.at, weights=amounts, minlength=len(self.column)).astype(np.float64)

    def in_pieces(self, sizes: IntVector) -> Floats:
        """Return float [size, column]: the GPUs of the column that pods of at least the size can get."""
        pieces = [self.total(size * (self.gpus // size)) for size in sizes]
        return np.array(pieces, dtype=np.float64).reshape(len(sizes), len(self.column))

    def allows(self, groups: Groups) -> BoolMatrix:
        """Return bool [group, column]: whether some node of the column could take the most modest pod of the group."""
        kind = self.column // CPU_CLASSES
        asked = np.array([key.gpus for key in groups.by_key], dtype=np.int64)[:, None]
        least = np.array([group.least_cpu_milli for group in groups.by_key.values()], dtype=np.int64)[:, None]
        allowed = [np.frombuffer(key.allowed, dtype=np.bool_)[kind] for key in groups.by_key]
        named = np.array(allowed, dtype=np.bool_).reshape(len(groups), len(kind))
        return named & (asked <= self._most(self.gpus)) & (least <= self._most(self.cpu_milli))

    def _most(self, amounts: IntVector) -> IntVector:
        most = np.zeros(len(self.column), dtype=np.int64)
        np.maximum.at(most, self.at, amounts)
        return most


def _most_wanted(groups: Groups, demand: Floats, allowed: BoolMatrix, most_variables: int) -> Rows:
    """Return the places, ascending, of the groups with most demand that have so many variables at most together."""
    keys = list(groups.by_key)
    order = np.array(sorted(range(len(keys)), key=lambda place: (-demand[place], keys[place])), dtype=np.intp)
    return np.sort(order[np.cumsum(allowed[order].sum(axis=1)) <= most_variables])


def _demand(groups: Groups, free: float) -> Floats:
    """Return float [group], GPUs: what waits, and of the rest of what is free a share as large as of what has come."""
    amounts = [(group.gpus, group.waiting) for group in groups.by_key.values()]
    came, waiting = np.array(amounts, dtype=np.float64).reshape(len(groups), 2).T
    rest = max(0.0, free - float(waiting.sum()))
    demand: Floats = waiting + rest * came / max(LEAST_WEIGHT, float(came.sum()))
    return demand
