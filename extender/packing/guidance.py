"""What a planner has worked out ahead for scoring: quotas per state of nodes, and nodes for pods in the queue.

Advice, never more: without it, or once it no longer matches the nodes, scoring falls back to what needs no solver. A
value that the Snapshot carries from change to change until a planner puts another in its place.

Quotas are told by columns: a kind of node (``NodeKinds``) in a class of free CPU per free GPU. A node that pods start
on moves to another column, so quotas keep their sense for the tens of placements until the next solution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.table import BoolMatrix, Codes, IntVector

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp]

# Free CPU per free GPU is told apart in steps of so many milli-CPU; the last class has all above.
_STEP_MILLI: Final = 2000
CPU_CLASSES: Final = 9


def column_of(kinds: Codes, gpus: IntVector, cpu_milli: IntVector) -> Columns:
    """Return the column of nodes by kind (-1 for none) and what is free on them; negative for kind -1."""
    per_gpu = cpu_milli // np.maximum(gpus, 1)
    classes = np.minimum(per_gpu // _STEP_MILLI, CPU_CLASSES - 1)
    columns: Columns = kinds.astype(np.intp) * CPU_CLASSES + classes
    return columns


def quota_place(kinds: NodeKinds, of_node: Codes, gpus: IntVector, cpu_milli: IntVector) -> Columns:
    """Return where the quotas are read for nodes by kind and what is free on them.

    The column of a started node; after the columns a place for nodes without whole GPUs free; after that the columns
    once more, for untouched nodes.
    """
    width, column = len(kinds) * CPU_CLASSES, column_of(of_node, gpus, cpu_milli)
    # Kind -1 reads the last entry.
    untouched = gpus == np.append(kinds.gpus, -1)[of_node]
    places: Columns = np.where((column < 0) | (gpus <= 0), width, column + (width + 1) * untouched)
    return places


@dataclass(frozen=True, eq=False, slots=True)
class Quotas:
    """How many GPUs each group of pods should take in each column, for one resource.

    What a group misses somewhere is 1 - q/max q: q is what it should take there, max q in its best place. It misses all
    where it should take none, and on nodes without whole GPUs: the last entry, 1.

    For a kind of nodes q counts GPUs. For a column it is the share of the column's free GPUs: among nodes of one kind a
    few that are started would else lose to many that are whole, whoever should take the started ones. Of a column where
    nothing was free the nearest of the kind is read: nodes have come to it since.

    Attributes:
        signature: of the ``NodeKinds`` that the columns speak of.
        groups: class of pods -> row of the arrays.
        wanted: float [group, kind x CPU_CLASSES], GPUs.
        free: float [kind x CPU_CLASSES], the GPUs that were free when the quotas were asked for.
        missed_kind: float [group, kind x CPU_CLASSES + 1], what is missed in the column's kind of nodes.
        missed_column: the same of the column alone.
    """

    signature: tuple[object, ...]
    groups: Mapping[PodClass, int]
    wanted: Floats
    free: Floats
    # Worked out once a solution, not once a score.
    missed_kind: Floats = field(init=False)
    missed_column: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Work out what is missed."""
        groups, width = self.wanted.shape
        of_kind = _missed(self.wanted.reshape(groups, width // CPU_CLASSES, CPU_CLASSES).sum(axis=2))
        kind = np.append(np.repeat(np.arange(width // CPU_CLASSES), CPU_CLASSES), -1)
        object.__setattr__(self, "missed_kind", of_kind[:, kind])
        object.__setattr__(self, "missed_column", _missed(_share(self.wanted, self.free))[:, _nearest(self.free)])

    def group_of(self, pods: PodClass, kinds: NodeKinds) -> int | None:
        """Return the row of a class of pods.

        None where the quotas give it nothing: they are of other nodes, or were solved before its like was seen.
        """
        group = self.groups.get(pods) if self.speak_of(kinds) else None
        return group if group is not None and self.wanted[group].any() else None

    def speak_of(self, kinds: NodeKinds) -> bool:
        """Tell whether the columns are of these kinds."""
        return self.signature is kinds.signature or self.signature == kinds.signature


def _missed(wanted: Floats) -> Floats:
    share = _share(wanted, wanted.max(axis=1, initial=0.0, keepdims=True))
    return np.pad(1.0 - share, ((0, 0), (0, 1)), constant_values=1.0)


def _nearest(free: Floats) -> Columns:
    """Return intp [column + 1]: where each column is read, the nearest of its kind that had something free.

    The poorer in CPU of two, as nodes are used up; itself when its kind had nothing free; the last entry as it is.
    """
    had: BoolMatrix = free.reshape(-1, CPU_CLASSES) > 0.0
    classes = np.arange(CPU_CLASSES)
    off = np.where(had[:, None, :], np.abs(classes[:, None] - classes), 2 * CPU_CLASSES)
    at = np.where(had.any(axis=1, keepdims=True), off.argmin(axis=2), classes)
    return np.append(at + CPU_CLASSES * np.arange(len(had))[:, None], -1)


def _share(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 of nothing."""
    whole = np.broadcast_to(whole, part.shape)
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)


@dataclass(frozen=True, eq=False, slots=True)
class Guidance:
    """Quotas by GPU resource, and the node that the joint plan gives to a waiting pod, by its uid."""

    quotas: Mapping[str, Quotas] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
