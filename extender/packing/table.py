"""The static half of a Snapshot: the nodes as columns, and what follows from their labels and taints alone.

Rows are in order of node name, so a row number is also the total order of last resort. A NodeTable never changes; what
it remembers (label columns, verdicts per constraint set) are functions of it and cannot be told from new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from extender.packing.gpu import GpuModel
from extender.packing.memory import Memory
from extender.packing.resources import ResourceAxis, total
from extender.packing.selectors import Taint
from extender.packing.types import NodeInfo

IntVector = npt.NDArray[np.int64]
IntMatrix = npt.NDArray[np.int64]
BoolVector = npt.NDArray[np.bool_]
BoolMatrix = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]
T = TypeVar("T")

_ROOM_BYTES = 2**26


def frozen(array: npt.NDArray[T]) -> npt.NDArray[T]:  # type: ignore[type-var]
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """The GPU models of one resource: ``models[codes[row]]``; code -1 where a node does not name the resource."""

    codes: Codes
    models: tuple[GpuModel, ...]


@dataclass(frozen=True, eq=False)
class NodeTable:
    """Nodes by name as columns.

    Attributes:
        nodes: the NodeInfos, in row order.
        names: their names, sorted.
        index: name -> row.
        axis: the resources of the rows of ``allocatable``.
        allocatable: int64 [resource, node], in the units of ``resources``.
        answers: memory for what follows from the table and a pod; the constraint sets are up to the users.
    """

    nodes: tuple[NodeInfo, ...]
    names: tuple[str, ...]
    index: Mapping[str, int]
    axis: ResourceAxis
    allocatable: IntMatrix
    answers: Memory = field(default_factory=lambda: Memory(_ROOM_BYTES), repr=False)
    _memo: dict[tuple[str, object], object] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, nodes: Iterable[NodeInfo]) -> NodeTable:
        """Lay out nodes; of two with one name the later one counts."""
        by_name = {node.name: node for node in nodes}
        ordered = tuple(by_name[name] for name in sorted(by_name))
        axis = ResourceAxis.of(name for node in ordered for name in (*node.allocatable, *node.capacity))
        allocatable = np.zeros((len(axis), len(ordered)), dtype=np.int64)
        for row, node in enumerate(ordered):
            for name, amount in node.allocatable.items():
                allocatable[axis.index[name], row] = amount
        names = tuple(node.name for node in ordered)
        return cls(ordered, names, {name: row for row, name in enumerate(names)}, axis, frozen(allocatable))

    def __len__(self) -> int:
        return len(self.names)

    def remember(self, kind: str, key: object, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once per (kind, key).

        Keys must be few (resources, settings), never pods: for what follows from those there is ``answers``.
        """
        found = self._memo.get((kind, key))
        if found is None:
            found = self._memo[kind, key] = make()
        return found  # type: ignore[return-value]

    @cached_property
    def taint_sets(self) -> tuple[Codes, tuple[tuple[Taint, ...], ...]]:
        """Return (code per row, distinct taint tuples)."""
        distinct: dict[tuple[Taint, ...], int] = {}
        codes = [distinct.setdefault(node.taints, len(distinct)) for node in self.nodes]
        return frozen(np.array(codes, dtype=np.int32)), tuple(distinct)

    @cached_property
    def unschedulable(self) -> BoolVector:
        """Return the cordoned rows."""
        return frozen(np.array([node.unschedulable for node in self.nodes], dtype=np.bool_))

    @cached_property
    def open(self) -> BoolVector:
        """Return the rows that take new pods: neither cordoned nor unready."""
        return frozen(np.array([not node.closed for node in self.nodes], dtype=np.bool_))

    def allocatable_of(self, resource: str) -> IntVector:
        """Return int64 [node] of one resource; zeros when no node names it."""
        at = self.axis.index.get(resource)
        return np.zeros(len(self), dtype=np.int64) if at is None else self.allocatable[at]

    def models(self, resource: str) -> ModelColumn:
        """Return the GPU models of a resource; none of one that no node names."""
        # What pods ask for is up to the users: only names of nodes are remembered.
        known = resource if resource in self.axis.index else ""
        return self.remember("models", known, lambda: self._models(known))

    def _models(self, resource: str) -> ModelColumn:
        distinct: dict[GpuModel, int] = {}
        codes = np.full(len(self), -1, dtype=np.int32)
        for row, node in enumerate(self.nodes):
            if (model := node.gpus.get(resource)) is not None:
                codes[row] = distinct.setdefault(model, len(distinct))
        return ModelColumn(frozen(codes), tuple(distinct))

    def of_model_like(self, resource: str, row: int) -> BoolVector:
        """Return the rows whose GPUs of a resource have the label of those of one row; none where that has no such."""
        column = self.models(resource)
        own = column.models[column.codes[row]].label if column.codes[row] >= 0 else None
        return frozen(np.array([*(m.label == own for m in column.models), False], dtype=np.bool_)[column.codes])

    @cached_property
    def gpu_resources(self) -> tuple[str, ...]:
        """Return the GPU resources that some node names, sorted."""
        return tuple(sorted({name for node in self.nodes for name in node.gpus}))

    @cached_property
    def whole_gpu_resources(self) -> tuple[str, ...]:
        """Return those whose units are whole exclusive GPUs on at least one node."""
        return tuple(r for r in self.gpu_resources if any(m.whole for m in self.models(r).models))

    def whole(self, resource: str) -> BoolVector:
        """Return the rows on which the resource counts whole exclusive GPUs."""
        known = resource if resource in self.axis.index else ""
        return self.remember("whole", known, lambda: self._whole(known))

    def _whole(self, resource: str) -> BoolVector:
        column = self.models(resource)
        verdicts = np.array([*(m.whole and m.exclusive for m in column.models), False], dtype=np.bool_)
        return frozen(verdicts[column.codes])

    @cached_property
    def whole_gpus(self) -> int:
        """Return how many whole exclusive GPUs the nodes offer, of all resources together."""
        return sum(total(self.allocatable_of(r)[self.whole(r)]) for r in self.whole_gpu_resources)

    @cached_property
    def name_hash(self) -> npt.NDArray[np.uint64]:
        """Return a fixed 64-bit hash of every node name: an order that follows neither names nor time."""
        return frozen(np.array([fnv1a(name) for name in self.names], dtype=np.uint64))

    @cached_property
    def hash_rank(self) -> Codes:
        """Return each row's place in the order (hash of the name, name): the total tie-break of the framework."""
        rank = np.empty(len(self), dtype=np.int32)
        rank[np.argsort(self.name_hash, kind="stable")] = np.arange(len(self), dtype=np.int32)
        return frozen(rank)


def fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a text's UTF-8 bytes, finished by the mixer of MurmurHash3.

    FNV alone leaves numbered names (``gpu-001``, ``gpu-002``) in runs; the mixer spreads them.
    """
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogatepass"):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 33)
