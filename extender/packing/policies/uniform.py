"""``random``: any feasible node, as likely as the others. The floor that every other policy has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.packing.framework import Rows, Utilities
from extender.packing.snapshot import Snapshot
from extender.packing.table import fnv1a
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class Uniform:
    """A fixed hash of (seed, pod uid, node name): uniform over pods and nodes, the same at every call.

    Utility: a number in [0, 1) without unit. Source: the Random policy of FGD's evaluation (docs/background.md,
    "Packing"), made deterministic.
    """

    seed: int = 0
    name: str = "random"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the hash of each row's node for this pod."""
        mixed = _mixed(snapshot.table.name_hash[rows] ^ np.uint64(fnv1a(f"{self.seed}/{pod.uid}")))
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return MurmurHash3's 64-bit finaliser of each value; without it one pod's order would be another's, shifted."""
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(33))
