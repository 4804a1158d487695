"""Public cases as data (`NNN-slug.json`), one runner.

A case has `input` and `expected`; every key of `expected` is either in CHECKS, which says what answers it, or in PROSE,
which is for people. Any other key fails. To make a key checkable, add a function.

    input   dump        what `kubectl get nodes,pods -A -o json` prints
            dumps       several of them, each a cluster of its own
            generate    amounts to build a large dump from
            arrivals    pods that come one after the other, each placed before the next
    expect  gpu_view    per node and resource: capacity, allocatable, used, free
            fit         per pod: which nodes can take it now, which if pods left, which never
            others      see the functions
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from extender.packing.fit import filter_nodes
from tests.cases import check_facts as facts
from tests.cases import check_moves as moves
from tests.cases import check_placement as placement
from tests.cases import check_plan as planning
from tests.cases.case import Case

CHECKS: Final[Mapping[str, Callable[[Case, Any], None]]] = {
    "after": placement.check_after,
    "all_placed_online": placement.check_all_placed_online,
    "bad": facts.check_bad,
    "batch_max": planning.check_batch_max,
    "batch_placement": planning.check_batch_placement,
    "by_resource": facts.check_by_resource,
    "by_type": facts.check_by_type,
    "cluster": facts.check_cluster,
    "each": facts.check_each,
    "effective_requests": facts.check_effective_requests,
    "fit": facts.check_fit,
    "fit_after": placement.check_fit_after,
    "free_by_node": facts.check_free_by_node,
    "gang_size_known": facts.check_gang_size_known,
    "gated": facts.check_gated,
    "gpu_type": facts.check_gpu_type,
    "gpu_view": facts.check_gpu_view,
    "gpu_view_each_node": facts.check_gpu_view_each_node,
    "groups": facts.check_groups,
    "is_gpu_pod": facts.check_is_gpu_pod,
    "known_limit": facts.check_known_limit,
    "largest_free_block": facts.check_largest_free_block,
    "metrics": facts.check_pending_metrics,
    "min_moves": moves.check_min_moves,
    "min_moves_for_waiting8_before_arrivals": moves.check_min_moves,
    "min_nodes_for_running": moves.check_min_nodes_for_running,
    "moved_gpus": moves.check_moved_gpus,
    "negative": facts.check_negative,
    "no_gpu_cluster": facts.check_no_gpu_cluster,
    "online": placement.check_online,
    "online_alternatives": facts.check_online_alternatives,
    "online_best_fit_places": placement.check_online_best_fit_places,
    "orphans": facts.check_orphans,
    "pending_for_scheduling": facts.check_pending,
    "pick": placement.check_pick,
    "placement": planning.check_batch_nodes,
    "reasons": facts.check_reasons,
    "requestable_now": facts.check_requestable_now,
    "sanitised": facts.check_sanitised,
    "schedulable_free": facts.check_schedulable_free,
    "total_free": facts.check_total_free,
    "ungrouped": facts.check_ungrouped,
    "values": facts.check_values,
    "what_if_default": placement.check_what_if_default,
    "withdrawn": facts.check_withdrawn,
}

PROSE: Final = frozenset(
    {
        *("must", "must_not", "should", "wrong", "wrong_answers", "ratio_definition", "fragmentation_8"),
        *("naive_sum_is_wrong", "promql_that_agrees"),
    }
)
"""Keys for people. Where a sentence can be tested, a test beside the code does it and names the case."""


CASES: Final = [json.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.json"))]


def _load() -> list[Any]:
    return [
        pytest.param(Case(case), key, id=f"{case['id']}-{key}")
        for case in CASES
        for key in case["expected"]
        if key not in PROSE
    ]


@pytest.mark.parametrize(("case", "key"), _load())
def test_case(case: Case, key: str) -> None:
    assert key in CHECKS, f"no check answers {key!r}: add one, or list the key"
    CHECKS[key](case, case.expected[key])


def test_no_key_is_listed_in_vain() -> None:
    used = {key for case in CASES for key in case["expected"]}
    assert used == CHECKS.keys() | PROSE


def test_twelve_thousand_failed_pods_stay_within_the_limits_of_their_case() -> None:
    data = next(case for case in CASES if case["id"] == "051")
    limits = data["input"]["limits"]
    start = time.perf_counter()
    case = Case(data)
    assert case.fit("want")["fits"]
    filtered = time.perf_counter()
    assert filtered - start < limits["cli_seconds"]
    filter_nodes(case.snapshot, case.pods["want"])
    assert time.perf_counter() - filtered < limits["filter_ms"] / 1000
    assert sum(line.startswith("node n") and "3000 pods were refused" in line for line in case.dump.warnings) == 4


def test_case_files_bear_the_number_of_their_case() -> None:
    names = sorted(path.name for path in Path(__file__).parent.glob("*.json"))
    assert [name[:3] for name in names] == [case["id"] for case in CASES]
    assert len({case["id"] for case in CASES}) == len(CASES)
