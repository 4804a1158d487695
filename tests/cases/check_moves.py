"""Checks of plans: which running pods to move, and how few nodes would do."""

from __future__ import annotations

from typing import Any

from extender.buy_report import nodes_for_running
from extender.defrag_report import DefragReport, defrag_report
from tests.cases.case import Case


def _plan(case: Case) -> DefragReport:
    (waiting,) = case.waiting
    report = defrag_report(case.dump, waiting)
    assert report["status"] == "OPTIMAL"
    return report


def check_min_moves(case: Case, expected: Any) -> None:
    assert len(_plan(case)["moves"]) == expected


def check_moved_gpus(case: Case, expected: Any) -> None:
    assert sum(row["gpus"] for row in _plan(case)["moves"]) == expected


def check_min_nodes_for_running(case: Case, expected: Any) -> None:
    answer = nodes_for_running(case.dump)
    assert answer["nodes"] == expected
    assert answer["status"] == "OPTIMAL"
