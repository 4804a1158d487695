"""Checks of what a dump shows: GPUs of nodes, requests of pods, where a pod fits, gangs."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from extender.dump import read_dumps
from extender.kube.convert import node_info, pod_info
from extender.kube.raw import RawContainer, RawNode, RawNodeStatus, RawPod, RawPodSpec, RawResources
from extender.packing.gpu import model_tokens
from extender.packing.resources import CPU, QuantityError, parse_quantity
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.reports import gpus_report
from tests.cases.case import GPU, RULES, Case

# ---------------------------------------------------------------- GPUs of nodes


def check_gpu_view(case: Case, expected: Any) -> None:
    for node, resources in expected.items():
        rows = case.rows_of(node)
        assert set(rows) == set(resources)
        for resource, amounts in resources.items():
            assert {key: rows[resource][key] for key in amounts} == amounts  # type: ignore[literal-required]


def check_gpu_view_each_node(case: Case, expected: Any) -> None:
    check_gpu_view(case, dict.fromkeys((node.name for node in case.dump.nodes), expected))


def check_gpu_type(case: Case, expected: Any) -> None:
    for node, value in expected.items():
        model = None if value.startswith("unknown") else value
        assert {row["model"] for row in case.rows_of(node).values()} == {model}


def check_withdrawn(case: Case, expected: Any) -> None:
    assert {node: case.rows_of(node)[GPU]["withdrawn"] for node in expected} == expected


def check_free_by_node(case: Case, expected: Any) -> None:
    assert {node: case.rows_of(node)[GPU]["free"] for node in expected} == expected


def check_schedulable_free(case: Case, expected: Any) -> None:
    assert sum(row["free"] for row in case.rows if row["schedulable"]) == expected


def check_total_free(case: Case, expected: Any) -> None:
    assert sum(model["free"] for model in case.models) == expected


def check_largest_free_block(case: Case, expected: Any) -> None:
    assert max(model["largest_free"] for model in case.models) == expected


def check_requestable_now(case: Case, expected: Any) -> None:
    (model,) = case.models
    assert [int(size) for size, count in model["startable"].items() if count] == expected


def check_by_type(case: Case, expected: Any) -> None:
    models = {model["model"]: model for model in case.models}
    assert set(models) == set(expected)
    ours = {"free_schedulable": "free", "free_cordoned": "unschedulable", "largest_free_block": "largest_free"}
    for name, facts in expected.items():
        assert {key: models[name][ours.get(key, key)] for key in facts} == facts


def check_cluster(case: Case, expected: Any) -> None:
    (model,) = case.models
    asked = sum(pod.gpu.count for pod in case.waiting)
    percent = round(100 * model["used"] / model["allocatable"], 1)
    facts = {"allocatable": model["allocatable"], "used": model["used"]}
    assert facts | {"pending_requested": asked, "allocation_percent": percent} == expected


def check_by_resource(case: Case, expected: Any) -> None:
    for resource, facts in expected.items():
        pods = [pod for pod in case.waiting if pod.gpu.resource == resource]
        rows = [row for row in case.rows if row["resource"] == resource]
        assert len(pods) == facts["pending_pods"]
        assert sum(pod.gpu.count for pod in pods) == facts["pending_units"]
        ratio = sum(row["used"] for row in rows) / sum(row["allocatable"] for row in rows)
        assert ratio == pytest.approx(facts["requested_ratio"], abs=1e-4)
    assert {pod.gpu.resource for pod in case.waiting} - {""} <= set(expected)


def check_no_gpu_cluster(case: Case, expected: Any) -> None:
    dump = read_dumps([("dump.json", json.dumps(case.input["no_gpu_cluster"]).encode())], RULES)
    assert gpus_report(Snapshot.of(dump.nodes, dump.pods)) == {"nodes": [], "summary": [], "warnings": []}


def check_each(case: Case, expected: Any) -> None:
    for data, nodes in zip(case.input["dumps"], expected, strict=True):
        one = Case({"input": {"dump": data}})
        for node, facts in nodes.items():
            row = one.rows_of(node)[GPU]
            assert {key: row["used" if key == "allocated" else key] for key in facts} == facts  # type: ignore[literal-required]
            over = row["used"] > row["allocatable"]
            assert any(line.startswith(f"node {node}: overcommitted") for line in one.dump.warnings) == over
        assert {row["node"] for row in one.rows} == set(nodes)


# ---------------------------------------------------------------- what pods ask for


def check_effective_requests(case: Case, expected: Any) -> None:
    for name, amounts in expected.items():
        ours = case.pods[name].requests
        assert {r: ours.get(r, 0) for r in amounts} == {r: n * (1000 if r == CPU else 1) for r, n in amounts.items()}
        assert set(ours) <= set(amounts)


def check_is_gpu_pod(case: Case, expected: Any) -> None:
    assert {name: case.pods[name].gpu.count > 0 for name in expected} == expected


def check_values(case: Case, expected: Any) -> None:
    for line in expected:
        assert parse_quantity(line["in"]) == line["units"], line
    assert [line["in"] for line in expected] == case.input["quantities"]


def check_bad(case: Case, expected: Any) -> None:
    for value in case.input["bad_quantities"]:
        with pytest.raises(QuantityError):
            parse_quantity(value)
        _check_counts_as_nothing(value)


def check_negative(case: Case, expected: Any) -> None:
    _check_counts_as_nothing("-1")


def _check_counts_as_nothing(value: object) -> None:
    said: list[str] = []
    node = node_info(RawNode(status=RawNodeStatus(capacity={GPU: value})), RULES, said.append)
    container = RawContainer(resources=RawResources(requests={GPU: value}))
    pod = pod_info(RawPod(spec=RawPodSpec(containers=[container])), RULES, said.append)
    assert node.capacity == {GPU: 0}
    assert pod.requests == {}
    assert [line.partition("]:")[0] for line in said] == [
        f"node : status.capacity[{GPU}",
        f"pod default/: spec.containers[0].resources.requests[{GPU}",
    ]


def check_sanitised(case: Case, expected: Any) -> None:
    for entry, label in zip(case.input["sanitise"], expected, strict=True):
        assert model_tokens(entry["nvml"]) == model_tokens(label)


# ---------------------------------------------------------------- where pods fit


def check_fit(case: Case, expected: Any) -> None:
    every = sorted(node.name for node in case.dump.nodes)
    for name, lists in expected.items():
        row = case.fit(name)
        assert sorted([*row["fits"], *row["busy"], *row["never"]]) == every
        assert {kind: sorted(row[kind]) for kind in lists} == {k: sorted(v) for k, v in lists.items()}  # type: ignore[literal-required]


def check_reasons(case: Case, expected: Any) -> None:
    for name, nodes in expected.items():
        row = case.fit(name)
        for node, word in nodes.items():
            assert word in (row["busy"] | row["never"])[node]


def check_online_alternatives(case: Case, expected: Any) -> None:
    assert {name: sorted(case.fit(name)["fits"]) for name in expected} == expected


def check_known_limit(case: Case, expected: Any) -> None:
    if isinstance(expected, str):
        return  # in words, for people
    row = case.snapshot.table.index[expected["node"]]
    facts = {"allocatable": case.snapshot.allocatable_of(GPU), "free": case.snapshot.free_of(GPU)}
    assert {key: int(values[row]) for key, values in facts.items()} == {key: expected[key] for key in facts}
    assert sum(pod.requests[GPU] for pod in case.snapshot.pods[row]) == expected["used_by_pods"]
    assert any(line.startswith(f"node {expected['node']}:") for line in case.dump.warnings)


def check_orphans(case: Case, expected: Any) -> None:
    assert [pod.name for group in case.snapshot.orphans.values() for pod in group] == expected
    for name in expected:
        assert any(f"ml/{name}" in line for line in case.dump.warnings)


def check_pending(case: Case, expected: Any) -> None:
    assert sorted(pod.name for pod in case.waiting) == expected


def check_gated(case: Case, expected: Any) -> None:
    assert [pod.name for pod in case.dump.pods if pod.gated] == expected
    assert [case.fit(name)["gated"] for name in expected] == [True] * len(expected)


def check_pending_metrics(case: Case, expected: Any) -> None:
    gated = sum(pod.gpu.count for pod in case.dump.pods if pod.gated)
    assert {"pending_gpus": sum(pod.gpu.count for pod in case.waiting), "gated_gpus": gated} == expected


# ---------------------------------------------------------------- gangs


def _groups(case: Case) -> dict[str, list[PodInfo]]:
    groups: dict[str, list[PodInfo]] = defaultdict(list)
    for pod in case.dump.pods:
        groups[str(pod.group or "")].append(pod)
    return groups


def check_groups(case: Case, expected: Any) -> None:
    assert {key: [pod.name for pod in group] for key, group in _groups(case).items() if key} == expected


def check_ungrouped(case: Case, expected: Any) -> None:
    assert [pod.name for pod in _groups(case)[""]] == expected


def check_gang_size_known(case: Case, expected: Any) -> None:
    sizes = {str(pod.group): pod.group.size for pod in case.dump.pods if pod.group and pod.group.size is not None}
    assert sizes == expected
