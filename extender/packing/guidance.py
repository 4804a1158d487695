"""What a planner has worked out ahead for scoring: quotas per kind of node, and nodes for pods in the queue.

Advice, never more: without it, or once it no longer matches the nodes, scoring falls back to what needs no solver. A
value that the Snapshot carries: as pods start, the quotas that they use up are counted, so it serves until the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Quotas:
    """How many GPUs each group of pods should take on each kind of node, for one resource.

    Attributes:
        signature: of the ``NodeKinds`` that the columns of ``wanted`` speak of.
        groups: class of pods -> row of ``wanted``.
        wanted: float [group, kind], GPUs, as solved.
        taken: (group, kind) -> GPUs that pods have taken there since.
    """

    signature: tuple[object, ...]
    groups: Mapping[PodClass, int]
    wanted: Floats
    taken: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def fits(self, kinds: NodeKinds) -> bool:
        """Tell whether the columns are these kinds."""
        return self.signature is kinds.signature or self.signature == kinds.signature

    def left(self, pods: PodClass) -> Floats | None:
        """Return float [kind]: GPUs a class of pods should still take on each kind; None for a class not planned."""
        group = self.groups.get(pods)
        if group is None:
            return None
        left = self.wanted[group].copy()
        for kind in range(len(left)):
            left[kind] -= self.taken.get((group, kind), 0)
        rest: Floats = np.maximum(left, 0.0)
        return rest

    def after(self, table: NodeTable, resource: str, started: Iterable[PodInfo]) -> Quotas:
        """Return the quotas after pods have started on nodes of the table."""
        kinds = NodeKinds.of(table, resource)
        taken = dict(self.taken)
        for pod in started if self.fits(kinds) else ():
            row, group = table.index.get(pod.node_name), self.groups.get(PodClass.of(pod))
            if row is not None and group is not None:
                at = (group, int(kinds.of_row[row]))
                taken[at] = taken.get(at, 0) + pod.gpu.count
        return replace(self, taken=taken)


@dataclass(frozen=True, eq=False, slots=True)
class Guidance:
    """Quotas by GPU resource, and the node that the joint plan gives to a waiting pod, by its uid."""

    quotas: Mapping[str, Quotas] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)

    def after(self, table: NodeTable, started: Iterable[PodInfo]) -> Guidance:
        """Return the guidance after pods have started; what it says of their nodes is used up."""
        pods = [pod for pod in started if pod.gpu.whole and pod.gpu.resource in self.quotas]
        moved = {
            resource: quotas.after(table, resource, [pod for pod in pods if pod.gpu.resource == resource])
            for resource, quotas in self.quotas.items()
        }
        return replace(self, quotas=moved) if pods else self
