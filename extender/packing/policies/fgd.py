"""``fgd`` and ``fgd-exact``: Fragmentation Gradient Descent, the node whose expected fragmentation grows least.

    F(node) = sum over typical pods m of p_m x (free GPUs that m cannot use there) = g (1 - P)

All g count where m does not fit by GPUs, CPU or model, or asks for no GPU; memory is not looked at. Typical pods: the
most frequent shapes (GPUs, CPU, admitted nodes) that make up 95 % of the pods. Sources: Weng et al., USENIX ATC 2023;
docs/background.md, "Packing"; hkust-adsl/kubernetes-scheduler-simulator pkg/simulator/plugin/fgd_score.go and
pkg/utils/frag.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from extender.packing.expected import FitShare, shapes_of
from extender.packing.framework import Rows, Utilities
from extender.packing.kinds import NodeKinds, Shape
from extender.packing.mix import DemandMix
from extender.packing.policies import columns
from extender.packing.resources import CPU
from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo

PodKey = tuple[str, Shape]
_EXP_LIMIT: Final = 700.0


@dataclass(frozen=True, slots=True)
class Fgd:
    """floor(100 / (1 + exp(F after - F before))), F in GPUs; ``exact``: F before - F after, in GPUs.

    Utility: whole points 0..100, above 50 where fragmentation shrinks; the rounding is part of the published policy and
    better than the exact gradient where ties go to a fixed order. Pods without GPUs are scored alike: what matters is
    the CPU they take from free GPUs. ``typical`` is the share of the pods that typical pods make up.
    """

    exact: bool = False
    typical: float = 0.95
    name: str = "fgd"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the (squeezed) gradient of F at each row; summed over resources where a node has several."""
        table, mix = snapshot.table, snapshot.mix
        shares = mix.remember(table, "fgd", self.typical, lambda: _shares(table, mix, self.typical))
        gradient = columns.equal(rows)
        cpu, cpu_after = columns.free(snapshot, CPU, rows), columns.cpu_after(snapshot, pod, rows)
        for resource, share in shares.items():
            gpus = columns.free(snapshot, resource, rows)
            gpus_after = gpus - pod.requests.get(resource, 0)
            gradient += share.expected_fragmentation(rows, gpus, cpu, 0)
            gradient -= share.expected_fragmentation(rows, gpus_after, cpu_after, 0)
        return gradient if self.exact else np.floor(100.0 / (1.0 + np.exp(np.minimum(-gradient, _EXP_LIMIT))))


def _shares(table: NodeTable, mix: DemandMix, typical: float) -> Mapping[str, FitShare]:
    """Return for each whole GPU resource the share of the typical pods that fit; nothing while there are no pods."""
    kinds = {name: NodeKinds.of(table, name) for name in table.whole_gpu_resources}
    pods: Counter[PodKey] = Counter()
    for name, of_resource in kinds.items():
        for shape, count in shapes_of(table, of_resource, mix):
            pods[name, shape._replace(memory_bytes=0)] += count
    for other, count in mix.counts.items():
        if not (other.gpu.whole and other.gpu.resource in kinds):
            pods["", Shape(0, other.cpu_milli, 0, b"")] += count
    if not pods:
        return {}
    kept = _most_frequent(pods, typical)
    total = sum(kept.values())
    return {name: _share(of_resource, kept, total) for name, of_resource in kinds.items()}


def _share(kinds: NodeKinds, pods: Mapping[PodKey, int], total: int) -> FitShare:
    shapes = [(shape, count) for (name, shape), count in pods.items() if name == kinds.resource]
    return FitShare.build(kinds, shapes, other=total - sum(count for _, count in shapes), edges=max(1, len(shapes)))


def _most_frequent(pods: Counter[PodKey], share: float) -> Mapping[PodKey, int]:
    """Return the most frequent shapes that make up the share, and all that are as frequent as the last of them."""
    wanted, least = share * pods.total(), 0
    for least in sorted(pods.values(), reverse=True):
        wanted -= least
        if wanted <= 0:
            break
    return {key: count for key, count in pods.items() if count >= least}
