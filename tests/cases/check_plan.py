"""Checks of what the joint plan of a whole queue comes to."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from extender.packing import planner
from extender.packing.plan import Status
from extender.plan_report import PlanReport, Queue, plan_report
from extender.whatif import queued
from tests.cases.case import Case


def _pods(case: Case) -> Any:
    """The queue: the case's list of pods that come, or else what waits in its dump."""
    key = next((key for key in ("arrivals", "pending_in_order") if key in case.input), None)
    return case.arrivals(key) if key else list(case.dump.pods)


def _report(case: Case) -> PlanReport:
    queue = Queue.of(case.snapshot, queued(_pods(case)))
    plan = planner.plan(queue.problem)
    assert plan.status is Status.OPTIMAL
    return plan_report(queue, plan)


def check_batch_max(case: Case, expected: Any) -> None:
    assert _report(case)["placed"] == expected


def check_batch_nodes(case: Case, expected: Any) -> None:
    assert {row["pod"].partition("/")[2]: row["node"] for row in _report(case)["placements"]} == expected


def check_batch_placement(case: Case, expected: Any) -> None:
    """Read `4+4 on one node, 3+5 on the other`: the sizes of the pods that share a node."""
    sizes = {pod.key: pod.gpu.count for pod in _pods(case)}
    together: dict[str | None, list[int]] = defaultdict(list)
    for row in _report(case)["placements"]:
        together[row["node"]].append(sizes[row["pod"]])
    wanted = [sorted(map(int, words.split("+"))) for words in re.findall(r"[\d+]+", expected)]
    assert sorted(sorted(found) for found in together.values()) == sorted(wanted)
