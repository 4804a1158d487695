"""What the bound is asked: the pods that wait, by shape, and the free state of the nodes, by what is alike about them.

Plain arrays, so that a child process can be given it. Amounts are rounded such that the answer stays a bound: CPU in
units, requests and free CPU rounded down (if pods fit a node, their units fit its units), memory as a sum over the
nodes of a kind; of GPUs and CPU no node has more free than all pods ask for. Pods without GPUs must all run: their CPU,
less what nodes without GPUs have, is taken off the total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.packing.expected import shaped_classes
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.mix import DemandMix
from extender.packing.resources import CPU, MAX_AMOUNT, MEMORY, total
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolMatrix, IntVector
from extender.packing.types import PodInfo

CPU_UNIT_MILLI: Final = 250
_MIB: Final = 2**20


@dataclass(frozen=True, eq=False, slots=True)
class BoundProblem:
    """The bound of one resource, as columns.

    Attributes:
        gpus, cpu, memory: int64 [shape], GPUs, CPU units and MiB that a pod asks for.
        pods: int64 [shape], how many wait.
        allowed: bool [shape, kind]; a kind is one of ``NodeKinds``.
        kind, free_gpus, free_cpu, nodes: int64 [state]: nodes of one kind with as much free, and how many.
        memory_of_kind: int64 [kind], MiB free on the nodes of the states.
        cpu_for_gpu_pods: CPU units that pods with GPUs can have at most, all nodes together.
    """

    gpus: IntVector
    cpu: IntVector
    memory: IntVector
    pods: IntVector
    allowed: BoolMatrix
    kind: IntVector
    free_gpus: IntVector
    free_cpu: IntVector
    nodes: IntVector
    memory_of_kind: IntVector
    cpu_for_gpu_pods: int


def pose(snapshot: Snapshot, resource: str, pods: Iterable[PodInfo], cpu_step: int = 1) -> BoundProblem:
    """Return the problem of placing some pods on what a Snapshot has free.

    Args:
        snapshot: the free state, of nodes that are open; what already waits in it is not looked at.
        resource: whole exclusive GPUs; pods that ask for others must not be among the pods.
        pods: to be placed, all of them at once.
        cpu_step: free CPU is rounded up to a multiple of so many units: fewer states, a weaker bound.
    """
    kinds = NodeKinds.of(snapshot.table, resource)
    mix = DemandMix.of(pods)
    found: Counter[tuple[int, int, int, bytes]] = Counter()
    for _, shape, count in shaped_classes(snapshot.table, kinds, mix):
        amounts = shape.gpus, shape.cpu_milli // CPU_UNIT_MILLI, shape.memory_bytes // _MIB
        found[*amounts, _allowed(kinds, shape)] += count
    shapes = sorted(key for key in found if any(key[3]))
    gpus, cpu, memory = np.array([key[:3] for key in shapes], dtype=np.int64).reshape(-1, 3).T
    allowed = np.frombuffer(b"".join(key[3] for key in shapes), dtype=np.bool_).reshape(len(shapes), len(kinds))
    counts = [found[key] for key in shapes]
    asked = [_asked(amounts, counts) for amounts in (gpus, cpu)]
    state, nodes, memory_of_kind = _states(snapshot, kinds, cpu_step, asked)
    return BoundProblem(
        gpus=gpus,
        cpu=cpu,
        memory=memory,
        pods=np.array(counts, dtype=np.int64),
        allowed=allowed,
        kind=state[0],
        free_gpus=state[1],
        free_cpu=state[2],
        nodes=nodes,
        memory_of_kind=memory_of_kind,
        cpu_for_gpu_pods=_cpu_left(snapshot, kinds, mix),
    )


def _allowed(kinds: NodeKinds, shape: Shape) -> bytes:
    return (np.frombuffer(shape.allowed, dtype=np.bool_) & kinds.could_hold(shape)).tobytes()


def _asked(amounts: IntVector, counts: Sequence[int]) -> int:
    """Return what so many pods of each shape ask for, within 64 bits."""
    return min(MAX_AMOUNT, sum(int(amount) * count for amount, count in zip(amounts, counts, strict=True)))


def _states(
    snapshot: Snapshot, kinds: NodeKinds, cpu_step: int, asked: Sequence[int]
) -> tuple[npt.NDArray[np.int64], IntVector, IntVector]:
    """Return int64 [3, state] of (kind, free GPUs, free CPU units), the nodes in each, and MiB by kind.

    ``asked`` is what all pods ask for of both, of which no node needs more free.
    """
    free = snapshot.free_of(kinds.resource)
    rows = np.flatnonzero((kinds.of_row >= 0) & snapshot.table.open & (free > 0))
    cpu = -(-(snapshot.free_of(CPU)[rows] // CPU_UNIT_MILLI) // cpu_step) * cpu_step
    usable = [np.minimum(amounts, most) for amounts, most in zip((free[rows], cpu), asked, strict=True)]
    columns = np.stack([kinds.of_row[rows].astype(np.int64), *usable])
    states, nodes = np.unique(columns, axis=1, return_counts=True)
    memory = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(memory, kinds.of_row[rows], snapshot.free_of(MEMORY)[rows] // _MIB)
    return states, nodes.astype(np.int64), memory


def _cpu_left(snapshot: Snapshot, kinds: NodeKinds, mix: DemandMix) -> int:
    """Return CPU units: what is free on nodes with GPUs, less what pods without GPUs cannot get elsewhere."""
    free = np.where(snapshot.table.open, snapshot.free_of(CPU), 0)
    with_gpus = kinds.of_row >= 0
    elsewhere = total(free[~with_gpus])
    others = sum(pods.cpu_milli * count for pods, count in mix.counts.items() if not pods.gpu.count)
    return max(0, total(free[with_gpus]) - max(0, others - elsewhere)) // CPU_UNIT_MILLI
