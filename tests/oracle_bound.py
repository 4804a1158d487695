"""The most GPUs that a placement uses, by trying all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extender.packing.fit import filter_nodes
from extender.packing.snapshot import Snapshot
from extender.packing.types import Phase, PodInfo


def most_placed(snapshot: Snapshot, waiting: Sequence[PodInfo]) -> float:
    """Return the GPUs of the best placement of any of the pods; pods without GPUs must all run."""
    if not waiting:
        return 0
    first, rest = waiting[0], waiting[1:]
    best = most_placed(snapshot, rest) if first.gpu.count else float("-inf")
    for row in filter_nodes(snapshot, first).fits.nonzero()[0]:
        running = replace(first, node_name=snapshot.table.names[row], phase=Phase.RUNNING)
        best = max(best, first.gpu.count + most_placed(snapshot.with_pod(running), rest))
    return best
