"""GPUs that pods share, device by device, and FGD as published on them: what openb's full lists need and we do not.

The extender sees a node's GPUs as one pool of thousandths, as a device plugin for sharing advertises them. Whether a
pod really fits is up to the devices: a pod that shares needs one device with enough left, a pod of whole GPUs as many
untouched ones. Sources: Weng et al., USENIX ATC 2023; hkust-adsl/kubernetes-scheduler-simulator
pkg/simulator/plugin/fgd_score.go, pkg/utils/frag.go; the published runs' kube-scheduler was patched to give ties to the
first node in an order drawn from the seed, which the fixed order of name hashes here stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.openb import GPU, MILLI, Shape, Workload, pod
from extender.packing.fit import static_verdicts
from extender.packing.framework import Rows, Utilities
from extender.packing.resources import CPU
from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo
from extender.simulate import PolicyExtender

Matrix = npt.NDArray[np.int64]
_TYPICAL_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Devices:
    """The free thousandths of every device, int64 [node, device]; devices a node has not are 0. Changes in place."""

    free: Matrix

    @classmethod
    def of(cls, table: NodeTable) -> Devices:
        """Return the devices of empty nodes."""
        count = table.allocatable_of(GPU) // MILLI
        return cls(np.where(np.arange(int(count.max(initial=1))) < count[:, None], MILLI, 0).astype(np.int64))

    def fit(self, asked: int, rows: Rows) -> Rows:
        """Return those rows whose devices have room for a pod."""
        share, count = _split(asked)
        fits: Rows = rows[(self.free[rows] >= share).sum(axis=1) >= count]
        return fits

    def take(self, row: int, asked: int, device: int | None = None) -> None:
        """Give a pod its devices: the one named, or the fullest that will do; untouched ones for whole GPUs."""
        share, count = _split(asked)
        fit = np.flatnonzero(self.free[row] >= share)
        chosen = fit[np.argsort(self.free[row, fit], kind="stable")][:count] if device is None else [device]
        self.free[row, chosen] -= share


def _split(asked: int) -> tuple[int, int]:
    """Return (thousandths of each device, devices) of a pod."""
    return (asked, 1) if asked < MILLI else (MILLI, asked // MILLI)


@dataclass(frozen=True, slots=True)
class SharedGpuExtender(PolicyExtender):
    """A policy that sees pools, beside a device plugin that knows the devices."""

    devices: Devices
    table: NodeTable

    def filter(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:  # noqa: ARG002 - the protocol's signature
        """Keep the rows whose devices have room."""
        return self.devices.fit(pod.gpu.count, rows) if pod.gpu.count else rows

    def bind(self, pod: PodInfo, node_name: str) -> None:
        """Let the device plugin choose."""
        if pod.gpu.count:
            row = self.table.index[node_name]
            choose = getattr(self.policy, "device_for", None)
            self.devices.take(row, pod.gpu.count, None if choose is None else choose(pod, row))


@dataclass(frozen=True, eq=False)
class PublishedFgd:
    """FGD as published: floor(100 sigmoid((F before - F after) / 1000)), F in thousandths of GPUs.

    F(node) = sum over typical pods m of p_m x free GPU that m cannot use there: all of it when m does not fit or asks
    for none, else the devices with less than m's share. Typical pods: the most frequent shapes that make up 95 % of the
    list. Within a node FGD takes the device that is best by F.
    """

    devices: Devices
    weight: npt.NDArray[np.float64]
    gpus: Matrix
    cpu_milli: Matrix
    admitted: npt.NDArray[np.bool_]
    name: str = "fgd as published"
    _device: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload, devices: Devices, table: NodeTable) -> PublishedFgd:
        """Take the typical pods from the list that arrivals are drawn from."""
        shapes = Counter(replace(shape, memory_bytes=0) for shape in workload.shapes)
        kept = _most_frequent(shapes)
        weight = np.array([shapes[s] for s in kept], dtype=np.float64)
        asked = [pod(at, shape) for at, shape in enumerate(kept)]
        admitted = np.array([static_verdicts(table, p.constraints, p.gpu).fits for p in asked]).T
        gpus, cpu = (np.array([getattr(s, name) for s in kept], dtype=np.int64) for name in ("gpus", "cpu_milli"))
        return cls(devices, weight / weight.sum(), gpus, cpu, admitted)

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return 0..100, whole."""
        cpu = snapshot.free[snapshot.table.axis.index[CPU], rows]
        before = self._fragmentation(self.devices.free[rows], cpu, rows)
        after = np.full(len(rows), np.inf)
        best = np.zeros(len(rows), dtype=np.int64)
        for device, left, possible in self._after(pod.gpu.count, rows):
            there = np.where(possible, self._fragmentation(left, cpu - pod.requests.get(CPU, 0), rows), np.inf)
            best[there < after] = device
            after = np.minimum(after, there)
        self._device.clear()
        self._device[pod.uid] = dict(zip(rows.tolist(), best.tolist(), strict=True))
        return np.floor(100.0 / (1.0 + np.exp(np.clip((after - before) / MILLI, -700, 700))))

    def device_for(self, pod: PodInfo, row: int) -> int | None:
        """Return the device that ``score`` has found best; None for whole GPUs, of which all are alike."""
        return self._device.get(pod.uid, {}).get(row) if pod.gpu.count < MILLI else None

    def _after(self, asked: int, rows: Rows) -> Iterable[tuple[int, Matrix, npt.NDArray[np.bool_]]]:
        """Yield (device, free after a pod has taken it, where that is possible); whole GPUs are taken in one step."""
        free = self.devices.free[rows]
        share, count = _split(asked)
        if not asked:
            yield 0, free, np.ones(len(rows), dtype=np.bool_)
        elif asked >= MILLI:
            whole = free == MILLI
            taken = whole & (whole.cumsum(axis=1) <= count)
            yield 0, np.where(taken, 0, free), taken.sum(axis=1) == count
        else:
            for device in range(free.shape[1]):
                left = free.copy()
                left[:, device] -= share
                yield device, left, left[:, device] >= 0

    def _fragmentation(self, free: Matrix, cpu: npt.NDArray[np.int64], rows: Rows) -> npt.NDArray[np.float64]:
        total = free.sum(axis=1)
        result = np.zeros(len(rows))
        for at, weight in enumerate(self.weight):
            share, count = _split(int(self.gpus[at]))
            able = free >= max(share, 1)
            fits = (self.gpus[at] > 0) & (able.sum(axis=1) >= count) & (cpu >= self.cpu_milli[at])
            fits &= self.admitted[rows, at]
            result += weight * np.where(fits, total - (free * able).sum(axis=1), total)
        return result


def _most_frequent(shapes: Counter[Shape]) -> list[Shape]:
    kept, left = [], _TYPICAL_SHARE * shapes.total()
    for shape, count in shapes.most_common():
        if left <= 0:
            break
        kept.append(shape)
        left -= count
    return kept
