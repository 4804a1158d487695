"""Utilities become 0..10 in one place: rank bands below, exactly one 10 on top."""

from __future__ import annotations

import numpy as np
import pytest

from extender.packing.framework import best_row, normalise, ranked, run_score, winner
from extender.packing.snapshot import Snapshot
from tests.builders import node, pod


class Told:
    """A policy that says what it is told, by node name."""

    name = "told"

    def __init__(self, utilities):
        self.utilities = utilities

    def score(self, snapshot, _, rows):
        return np.array([self.utilities[snapshot.table.names[row]] for row in rows], dtype=np.float64)


def cluster(count):
    return Snapshot.of([node(f"n{i:02d}").build() for i in range(count)])


def normalised(utilities):
    table = cluster(len(utilities)).table
    return normalise(table, np.arange(len(utilities)), np.array(utilities, dtype=np.float64)).tolist()


@pytest.mark.parametrize(
    ("utilities", "scores"),
    [
        ([1.5], [10]),
        # ranks 0, 1, 2 of 2: 9 r // 2
        ([0.1, 0.2, 0.3], [0, 4, 10]),
        ([0.3, 0.1, 0.2], [10, 0, 4]),
        # equals stay equal below the top: ranks 0, 0, 1
        ([1.0, 1.0, 2.0], [0, 0, 10]),
        # only the order counts, not the distance
        ([-1e9, 0.0, 1e-9], [0, 4, 10]),
        # 12 ranks over 0..9: 9 r // 11
        (list(range(12)), [0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 10]),
    ],
)
def test_bands(utilities, scores):
    assert normalised(utilities) == scores


def test_equal_nodes_share_nine_and_one_has_ten():
    assert sorted(normalised([0.5] * 5)) == [9, 9, 9, 9, 10]


def test_ties_at_the_top_go_by_the_hash_of_the_name_whatever_the_order():
    snapshot = cluster(8)
    table = snapshot.table
    rows = np.array([5, 3, 7, 1])
    first = min(rows.tolist(), key=lambda row: (int(table.name_hash[row]), table.names[row]))
    for order in (rows, rows[::-1], np.sort(rows)):
        assert order[winner(table, order, np.zeros(4))] == first


def test_a_tie_below_the_top_does_not_take_part():
    scores = normalised([2.0, 1.0, 2.0, 1.0])
    # ranks 1, 0, 1, 0 of 1: 9 and 0, one of the nines becomes 10
    assert scores[1] == scores[3] == 0
    assert sorted((scores[0], scores[2])) == [9, 10]


def test_no_candidates_no_scores():
    assert normalise(cluster(1).table, np.zeros(0, dtype=np.intp), np.zeros(0)).tolist() == []


def test_run_score_is_aligned_with_the_rows_and_agrees_with_best_row():
    snapshot, policy = cluster(4), Told({"n00": 1.0, "n01": 4.0, "n02": 3.0, "n03": 2.0})
    rows = np.array([3, 1, 0])
    # utilities 2, 4, 1: ranks 1, 2, 0 of 2
    assert run_score(policy, snapshot, pod("p").build(), rows).tolist() == [4, 10, 0]
    assert best_row(policy, snapshot, pod("p").build(), rows) == 1


def test_ranked_rows_begin_with_the_winner_and_equals_go_by_the_hash():
    snapshot = cluster(12)
    rows = np.arange(11, -1, -1)
    policy = Told({f"n{i:02d}": float(i % 3) for i in range(12)})
    order = ranked(policy, snapshot, pod("p").build(), rows)
    assert sorted(order.tolist()) == list(range(12))
    assert order[0] == best_row(policy, snapshot, pod("p").build(), rows)
    assert [int(row) % 3 for row in order] == [2] * 4 + [1] * 4 + [0] * 4
    ranks = [int(snapshot.table.hash_rank[row]) for row in order]
    assert all(ranks[at : at + 4] == sorted(ranks[at : at + 4]) for at in (0, 4, 8))
