"""``first-fit``: one fixed order of the nodes, the first that fits. Hard to beat where GPUs are typed."""

from __future__ import annotations

from dataclasses import dataclass

from extender.packing.framework import Rows, Utilities
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


@dataclass(frozen=True, slots=True)
class FirstFit:
    """The order of the hashes of the node names: following neither names nor sizes, it uses every model in proportion.

    Utility: minus the node's place in that order. Measured in docs/background.md, "Packing".
    """

    name: str = "first-fit"

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:  # noqa: ARG002 - the same for every pod
        """Return minus each row's place in the order of name hashes."""
        return -snapshot.table.hash_rank[rows].astype("float64")
