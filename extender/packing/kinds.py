"""Kinds of nodes: what nodes with whole GPUs are when empty. Follows from the NodeTable alone, remembered with it.

What is expected, planned or priced per kind is a short column, however many nodes there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from extender.packing.gpu import GpuModel
from extender.packing.resources import CPU, MEMORY
from extender.packing.table import BoolVector, Codes, IntVector, NodeTable, frozen

# Amounts are much the same as long as they differ by so small a part.
_PART: Final = 50


class Shape(NamedTuple):
    """What pods ask for; ``allowed`` has one byte per kind: 1 where the filters that look at no amounts pass a node."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    allowed: bytes


@dataclass(frozen=True, eq=False)
class NodeKinds:
    """The nodes with whole GPUs of one resource, grouped by what they are when empty.

    Attributes:
        of_row: int32 [node], the kind of each row; -1 for rows without whole exclusive GPUs of the resource.
        model: int32 [kind], code in ``table.models(resource)``.
        gpus, cpu_milli, memory_bytes: int64 [kind], allocatable. CPU and memory are the most that a node of the kind
            has: machines of one make differ a little, and each would be a kind of its own.
        signature: what each kind is, in order: tables with the same signature number their kinds alike.
    """

    resource: str
    of_row: Codes
    model: Codes
    gpus: IntVector
    cpu_milli: IntVector
    memory_bytes: IntVector
    signature: tuple[tuple[GpuModel, int, int, int], ...]

    @classmethod
    def of(cls, table: NodeTable, resource: str) -> NodeKinds:
        """Return the kinds of a table, remembered with it."""
        return table.remember("kinds", resource, lambda: cls._made(table, resource))

    @classmethod
    def _made(cls, table: NodeTable, resource: str) -> NodeKinds:
        rows = np.flatnonzero(table.whole(resource))
        gpus, cpu_milli, memory_bytes = (table.allocatable_of(name)[rows] for name in (resource, CPU, MEMORY))
        amounts = (gpus, _most_alike(cpu_milli), _most_alike(memory_bytes))
        columns = np.stack([table.models(resource).codes[rows], *amounts], axis=1)
        kinds, inverse = np.unique(columns, axis=0, return_inverse=True)
        of_row = np.full(len(table), -1, dtype=np.int32)
        of_row[rows] = inverse.ravel()
        model, gpus, cpu, memory = (frozen(np.ascontiguousarray(column)) for column in kinds.T)
        models = table.models(resource).models
        signature = tuple((models[code], *amounts) for code, *amounts in kinds.tolist())
        return cls(resource, frozen(of_row), frozen(model.astype(np.int32)), gpus, cpu, memory, signature)

    def __len__(self) -> int:
        return len(self.gpus)

    def usable(self, shape: Shape) -> bool:
        """Tell whether some kind admits the shape, and some kind is large enough in GPUs."""
        return 1 in shape.allowed and shape.gpus <= self.largest

    def could_hold(self, shape: Shape) -> BoolVector:
        """Return bool [kind]: whether some empty node of the kind may have the room."""
        fits: BoolVector = (self.gpus >= shape.gpus) & (self.cpu_milli >= shape.cpu_milli)
        return fits & (self.memory_bytes >= shape.memory_bytes)

    @cached_property
    def largest(self) -> int:
        """Return the GPUs of the largest kind, 0 without kinds."""
        return int(self.gpus.max(initial=0))


def _most_alike(amounts: IntVector) -> IntVector:
    """Return for each amount the largest of those that are much the same.

    Not rounded to units: wherever a boundary is, machines of one make may lie on both sides of it.
    """
    distinct, place = np.unique(amounts, return_inverse=True)
    values = distinct.tolist()
    starts = [0]
    for at, value in enumerate(values):
        if (value - values[starts[-1]]) * _PART > values[starts[-1]]:
            starts.append(at)
    ends = np.array([*starts[1:], len(values)]) - 1
    group = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
    return distinct[ends[group]][place] if values else amounts
