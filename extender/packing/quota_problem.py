"""What the quota LP is asked: groups of pods that may come, and columns of nodes with what is free on them.

Plain arrays, so that a child process can be given it. The demand is what waits, exactly, and for the rest of the free
GPUs what has come of late leads to expect: a plan for more demand than there are GPUs is worse than none
(docs/background.md, "Packing"). Every shape counts, however rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.packing.expected import shaped_classes
from extender.packing.guidance import CPU_CLASSES, Columns, Quotas, column_of
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.mix import DemandMix, PodClass
from extender.packing.resources import CPU, MEMORY
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolMatrix, Rows

Floats = npt.NDArray[np.float64]

# Pods are told apart by cores and GiB per GPU in steps of so many; what asks for more than four steps is one class.
_CORE_STEP: Final = 4
_GIB_STEP: Final = 16
_STEPS: Final = 4
_CORE_MILLI: Final = 1000
# However long ago a class has come: its pods run or wait, and may come again.
_LEAST_WEIGHT: Final = 1e-3
_GIB: Final = 2**30


class GroupKey(NamedTuple):
    """Pods that the LP does not tell apart; ``allowed`` has a byte per kind, the classes are of amounts per GPU."""

    gpus: int
    allowed: bytes
    cpu_class: int
    memory_class: int


@dataclass(slots=True)
class _Group:
    """What the pods of a group ask for together; ``least_cpu_milli`` by the most modest pod of it."""

    place: int
    gpus: float = 0.0
    waiting: int = 0
    cpu_milli: float = 0.0
    memory_bytes: float = 0.0
    least_cpu_milli: int = 2**62


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


def pose(snapshot: Snapshot, resource: str) -> tuple[QuotaProblem, Mapping[PodClass, int]]:
    """Return the problem of a Snapshot and the group of each class of its mix that some kind could hold."""
    kinds = NodeKinds.of(snapshot.table, resource)
    groups, of_class = _grouped(snapshot, kinds)
    rows = np.flatnonzero((kinds.of_row >= 0) & snapshot.table.open & (snapshot.free_of(resource) > 0))
    gpus, cpu_milli, memory = (snapshot.free_of(name)[rows] for name in (resource, CPU, MEMORY))
    column, at = np.unique(column_of(kinds.of_row[rows], gpus, cpu_milli), return_inverse=True)
    asked = np.array([key.gpus for key in groups], dtype=np.int64)
    least = np.array([group.least_cpu_milli for group in groups.values()], dtype=np.int64)
    allowed = np.frombuffer(b"".join(key.allowed for key in groups), dtype=np.bool_).reshape(len(groups), len(kinds))
    most_gpus, most_cpu = _most(gpus, at, len(column)), _most(cpu_milli, at, len(column))
    sizes = np.unique(asked[asked > 1])

    def total(amounts: npt.NDArray[np.int64]) -> Floats:
        return np.bincount(at, weights=amounts, minlength=len(column)).astype(np.float64)

    amounts = [(g.gpus, g.waiting, g.cpu_milli, g.memory_bytes) for g in groups.values()]
    seen = np.array(amounts, dtype=np.float64).reshape(len(groups), 4)
    each = np.maximum(seen[:, 0], _LEAST_WEIGHT)
    problem = QuotaProblem(
        gpus=asked.astype(np.float64),
        cores=seen[:, 2] / _CORE_MILLI / each,
        gib=seen[:, 3] / _GIB / each,
        demand=_demand(seen[:, 0], seen[:, 1], float(gpus.astype(np.float64).sum())),
        allowed=allowed[:, column // CPU_CLASSES] & (asked[:, None] <= most_gpus) & (least[:, None] <= most_cpu),
        column=column,
        width=len(kinds) * CPU_CLASSES,
        free_gpus=total(gpus),
        free_cores=total(cpu_milli) / _CORE_MILLI,
        free_gib=total(memory) / _GIB,
        sizes=sizes.astype(np.float64),
        in_pieces=np.array([total(size * (gpus // size)) for size in sizes]).reshape(len(sizes), len(column)),
    )
    return problem, of_class


def quotas_of(kinds: NodeKinds, groups: Mapping[PodClass, int], wanted: Floats) -> Quotas:
    """Return a solution (float [group, width], GPUs) as scoring reads it."""
    return Quotas(kinds.signature, groups, wanted)


def _grouped(snapshot: Snapshot, kinds: NodeKinds) -> tuple[dict[GroupKey, _Group], dict[PodClass, int]]:
    """Return the groups, and the place of the group of each class of pods."""
    groups: dict[GroupKey, _Group] = {}
    of_class: dict[PodClass, int] = {}
    waiting = DemandMix.of(pod for pod in snapshot.pending.values() if not pod.gated).counts
    for pods, shape, _ in shaped_classes(snapshot.table, kinds, snapshot.mix):
        key = _key(kinds, shape)
        if 1 in key.allowed:
            group = groups.setdefault(key, _Group(len(groups)))
            count = max(snapshot.arrivals.weight(pods), _LEAST_WEIGHT)
            group.gpus += count * shape.gpus
            group.waiting += waiting.get(pods, 0) * shape.gpus
            group.cpu_milli += count * shape.cpu_milli
            group.memory_bytes += count * shape.memory_bytes
            group.least_cpu_milli = min(group.least_cpu_milli, shape.cpu_milli)
            of_class[pods] = group.place
    return groups, of_class


def _key(kinds: NodeKinds, shape: Shape) -> GroupKey:
    allowed = np.frombuffer(shape.allowed, dtype=np.bool_) & kinds.could_hold(shape)
    cores, gib = shape.cpu_milli / _CORE_MILLI / shape.gpus, shape.memory_bytes / _GIB / shape.gpus
    return GroupKey(shape.gpus, allowed.tobytes(), _step(cores / _CORE_STEP), _step(gib / _GIB_STEP))


def _step(steps: float) -> int:
    return min(int(-(-steps // 1)), _STEPS + 1)


def _most(amounts: npt.NDArray[np.int64], at: Rows, size: int) -> npt.NDArray[np.int64]:
    most = np.zeros(size, dtype=np.int64)
    np.maximum.at(most, at, amounts)
    return most


def _demand(seen: Floats, waiting: Floats, free: float) -> Floats:
    rest = max(0.0, free - float(waiting.sum()))
    demand: Floats = waiting + rest * seen / max(_LEAST_WEIGHT, float(seen.sum()))
    return demand
