"""Runs Filter and Score, and makes 0..10 of an order. Rounding to 0..10 happens here and nowhere else.

kube-scheduler breaks ties at random and adds the in-tree scorers' opinion, so exactly one node gets ``MAX_SCORE``
(docs/background.md, "Packing": coarse scores with default neighbours cost FGD 3 to 7 points).
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo

MAX_SCORE: Final = 10
Rows = npt.NDArray[np.intp]
Utilities = npt.NDArray[np.float64]
Scores = npt.NDArray[np.int64]


class Policy(Protocol):
    """A way to prefer one feasible node over another."""

    @property
    def name(self) -> str:
        """Return the name under which configuration knows the policy."""
        ...

    def score(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Utilities:
        """Return one float per row of ``rows``, higher is better; finite. The docstring says the unit.

        ``rows`` are distinct rows of the snapshot on which the pod fits, in any order; the utility of a row may
        depend on the snapshot and the pod, and on the other rows only through the snapshot.
        """
        ...


def run_score(policy: Policy, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Scores:
    """Score the candidate rows: integers 0..10, aligned with ``rows``, exactly one 10 when there is any row."""
    return normalise(snapshot.table, rows, policy.score(snapshot, pod, rows))


def best_row(policy: Policy, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> int:
    """Return the row that would get the 10; ``rows`` must not be empty."""
    return int(rows[winner(snapshot.table, rows, policy.score(snapshot, pod, rows))])


def ranked(policy: Policy, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
    """Return the rows in the order the policy prefers them: the one that would get the 10 first."""
    utilities = policy.score(snapshot, pod, rows)
    return rows[np.lexsort((snapshot.table.hash_rank[rows], -utilities))]


def winner(table: NodeTable, rows: Rows, utilities: Utilities) -> int:
    """Return the position of the best row: highest utility, then the fixed order of name hashes."""
    best = np.flatnonzero(utilities == utilities.max())
    return int(best[np.argmin(table.hash_rank[rows[best]])])


def normalise(table: NodeTable, rows: Rows, utilities: Utilities) -> Scores:
    """Make scores of utilities: the winner 10, the rest 0..9 by the rank of their utility; equals stay equal."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    ordered, rank = np.sort(utilities), np.zeros(len(rows), dtype=np.int64)
    np.add.accumulate(ordered[1:] != ordered[:-1], dtype=np.int64, out=rank[1:])
    # A rank makes score (MAX_SCORE - 1) x rank // last rank: `least` are the smallest utilities of scores 1, 2, ...
    steps = np.arange(1, MAX_SCORE)
    least = ordered[rank.searchsorted(-(-steps * rank[-1] // (MAX_SCORE - 1)))]
    scores: Scores = least.searchsorted(utilities, side="right").astype(np.int64)
    scores[winner(table, rows, utilities)] = MAX_SCORE
    return scores
