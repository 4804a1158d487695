"""What the quota LP is asked: groups of pods that may come, kinds of nodes with what is free on them.

Plain arrays, so that a child process can be given it. The demand is what waits, exactly, and for the rest of the free
GPUs what the mix leads to expect: a plan for more demand than there are GPUs is worse than none (docs/background.md,
"Packing"). Every shape counts, however rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.packing.expected import shaped_classes
from extender.packing.guidance import Quotas
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.mix import DemandMix, PodClass
from extender.packing.resources import CPU
from extender.packing.snapshot import Snapshot

Floats = npt.NDArray[np.float64]
BoolMatrix = npt.NDArray[np.bool_]

# CPU per GPU is told apart in so many cores; what asks for more is one class.
CORE_STEP: Final = 4
_CORE_MILLI: Final = 1000
_MAX_CORES: Final = 16


class GroupKey(NamedTuple):
    """Pods that the LP does not tell apart: GPUs, kinds they may use (a byte each), class of CPU per GPU."""

    gpus: int
    allowed: bytes
    cpu_class: int


@dataclass(frozen=True, eq=False, slots=True)
class QuotaProblem:
    """The quota LP of one resource, as columns.

    Attributes:
        gpus: float [group], GPUs a pod asks for.
        cores: float [group], cores per GPU, the mean over the group's demand.
        allowed: bool [group, kind].
        demand: float [group], GPUs.
        free_gpus, free_cores: float [kind], on nodes that take pods and have a GPU free.
        sizes: float [size], the GPU counts above 1 that groups ask for, ascending.
        in_pieces: float [size, kind], GPUs that pods of at least the size can get: sum of size x floor(free / size).
    """

    gpus: Floats
    cores: Floats
    allowed: BoolMatrix
    demand: Floats
    free_gpus: Floats
    free_cores: Floats
    sizes: Floats
    in_pieces: Floats


def pose(snapshot: Snapshot, resource: str) -> tuple[QuotaProblem, Mapping[PodClass, int]]:
    """Return the problem of a Snapshot and the group of each class of its mix that some kind could hold."""
    kinds = NodeKinds.of(snapshot.table, resource)
    groups, of_class = _grouped(snapshot, kinds)
    free, cores = _free(snapshot, resource, kinds)
    gpus = np.array([key.gpus for key in groups], dtype=np.float64)
    allowed = np.frombuffer(b"".join(key.allowed for key in groups), dtype=np.bool_).reshape(len(groups), len(kinds))
    seen, waiting, asked_cores = np.array(list(groups.values()), dtype=np.float64).reshape(-1, 3).T
    sizes = np.unique(gpus[gpus > 1])
    problem = QuotaProblem(
        gpus=gpus,
        cores=asked_cores / np.maximum(seen, 1.0),
        allowed=allowed,
        demand=_demand(seen, waiting, float(free.sum())),
        free_gpus=_by_kind(kinds, free),
        free_cores=_by_kind(kinds, cores),
        sizes=sizes,
        in_pieces=np.array([_by_kind(kinds, size * (free // size)) for size in sizes]).reshape(-1, len(kinds)),
    )
    return problem, of_class


def _grouped(snapshot: Snapshot, kinds: NodeKinds) -> tuple[dict[GroupKey, list[float]], dict[PodClass, int]]:
    """Return the groups with (GPUs seen, GPUs waiting, cores seen), and the group of each class of pods."""
    groups: dict[GroupKey, list[float]] = {}
    places: dict[GroupKey, int] = {}
    of_class: dict[PodClass, int] = {}
    waiting = DemandMix.of(pod for pod in snapshot.pending.values() if not pod.gated).counts
    for pods, shape, count in shaped_classes(snapshot.table, kinds, snapshot.mix):
        key = _key(kinds, shape)
        if 1 in key.allowed:
            sums = groups.setdefault(key, [0.0, 0.0, 0.0])
            sums[0] += count * shape.gpus
            sums[1] += waiting.get(pods, 0) * shape.gpus
            sums[2] += count * shape.cpu_milli / _CORE_MILLI
            of_class[pods] = places.setdefault(key, len(places))
    return groups, of_class


def quotas_of(kinds: NodeKinds, groups: Mapping[PodClass, int], wanted: Floats) -> Quotas:
    """Return a solution (float [group, kind], GPUs) as scoring reads it."""
    return Quotas(kinds.signature, groups, wanted)


def _key(kinds: NodeKinds, shape: Shape) -> GroupKey:
    fits = (
        (kinds.gpus >= shape.gpus) & (kinds.cpu_milli >= shape.cpu_milli) & (kinds.memory_bytes >= shape.memory_bytes)
    )
    allowed = np.frombuffer(shape.allowed, dtype=np.bool_) & fits
    cores = shape.cpu_milli / _CORE_MILLI / shape.gpus
    return GroupKey(shape.gpus, allowed.tobytes(), min(int(-(-cores // CORE_STEP)), _MAX_CORES // CORE_STEP))


def _free(snapshot: Snapshot, resource: str, kinds: NodeKinds) -> tuple[Floats, Floats]:
    """Return float [node]: free GPUs, and free cores beside them, of open nodes."""
    usable = (kinds.of_row >= 0) & snapshot.table.open
    gpus = np.where(usable, snapshot.free_of(resource), 0).astype(np.float64)
    return gpus, np.where(gpus > 0, snapshot.free_of(CPU) / _CORE_MILLI, 0.0)


def _by_kind(kinds: NodeKinds, amounts: Floats) -> Floats:
    member = kinds.of_row >= 0
    return np.bincount(kinds.of_row[member], weights=amounts[member], minlength=len(kinds)).astype(np.float64)


def _demand(seen: Floats, waiting: Floats, free: float) -> Floats:
    rest = max(0.0, free - float(waiting.sum()))
    demand: Floats = waiting + rest * seen / max(1.0, float(seen.sum()))
    return demand
