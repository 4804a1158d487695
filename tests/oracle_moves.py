"""The best plan of moves in plain search: every state that single moves can reach, one Filter question at a time.

Written apart from `extender.packing.defrag`: uniform-cost search, each pod any number of times, no model.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from extender.packing.disruption import Disruptions
from extender.packing.fit import filter_nodes
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo


def moved(snapshot: Snapshot, pod: PodInfo, to: str) -> Snapshot:
    """Evict a pod and start it on another node."""
    (held,) = [p for p in snapshot.pods_on(pod.node_name) if p.uid == pod.uid]
    return snapshot.with_changes(gone=(held,), come=(replace(held, node_name=to),))


def destinations(snapshot: Snapshot, pod: PodInfo) -> list[str]:
    """Return the open nodes on which the pod would fit were it not where it is."""
    fits = filter_nodes(snapshot.without_pod(pod), pod).fits & snapshot.table.open
    return [name for row, name in enumerate(snapshot.table.names) if fits[row] and name != pod.node_name]


def least_price(
    snapshot: Snapshot,
    reached: Callable[[Snapshot], bool],
    disruptions: Disruptions,
    price: Callable[[PodInfo], int],
    most_moves: int = 5,
) -> int | None:
    """Return the price of the best plan of at most so many moves, None when there is none."""
    queue: list[tuple[int, int, int, Snapshot, Mapping[str, int]]] = [(0, 0, 0, snapshot, {})]
    seen: dict[object, int] = {}
    number = 0
    while queue:
        spent, moves, _, state, evicted = heapq.heappop(queue)
        if reached(state):
            return spent
        where = tuple(sorted((p.uid, p.node_name) for group in state.pods for p in group))
        key = (where, tuple(sorted(evicted.items())))
        if moves == most_moves or seen.get(key, most_moves + 1) <= moves:
            continue
        seen[key] = moves
        for pod in _movable(state, disruptions):
            counted = Counter(evicted)
            counted.update(str(budget) for budget in disruptions.budgets_of(pod))
            if any(counted[str(budget)] > budget.allowed for budget in disruptions.budgets_of(pod)):
                continue
            for to in destinations(state, pod):
                number += 1
                after = (spent + price(pod), moves + 1, number, moved(state, pod, to), dict(counted))
                heapq.heappush(queue, after)
    return None


def _movable(snapshot: Snapshot, disruptions: Disruptions) -> Sequence[PodInfo]:
    return [pod for group in snapshot.pods for pod in group if not disruptions.veto(pod)]
