"""``balance+X``: of the models the pod may use, the one with the largest free share; inside it, policy X."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.packing.contention import model_groups
from extender.packing.framework import Policy, Rows, Utilities
from extender.packing.policies import columns
from extender.packing.snapshot import Snapshot
from extender.packing.table import IntVector
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class Balance:
    """Utility: (models with a smaller free share) + (1 + x / (1 + abs x)) / 2, where x is the inner policy's utility.

    A model's free share is free / allocatable over its open nodes, all whole GPUs with one label together. Pods without
    GPUs are not balanced: doing so costs up to 12 points. Measured in docs/background.md, "Packing".
    """

    inner: Policy

    @property
    def name(self) -> str:
        """Return ``balance+`` and the name of the inner policy."""
        return f"balance+{self.inner.name}"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return the model's rank, plus the inner policy's opinion squeezed into 0..1."""
        inside = self.inner.score(snapshot, pod, rows)
        if not pod.gpu.count:
            return inside
        resource = pod.gpu.resource
        ranks = snapshot.remember("model ranks", resource, lambda: _ranks(snapshot, resource))
        place = ranks[model_groups(snapshot.table, resource).of_row[rows]]
        return place + (1.0 + inside / (1.0 + np.abs(inside))) / 2.0


def _ranks(snapshot: Snapshot, resource: str) -> IntVector:
    """Return int64 [model + 1]: how many models have a smaller free share; 0 for rows of no model (-1)."""
    groups, is_open = model_groups(snapshot.table, resource), snapshot.table.open
    free = columns.free(snapshot, resource, np.arange(len(snapshot)))
    offered = groups.totals(snapshot.allocatable_of(resource) * is_open)
    shares = groups.totals(free * is_open) / np.maximum(offered, 1.0)
    return np.array([*((shares < share).sum() for share in shares), 0], dtype=np.int64)
