"""Checks of where a policy puts pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from extender.packing.fit import filter_nodes
from extender.packing.framework import best_row
from extender.packing.policies import REGISTRY
from extender.packing.snapshot import Snapshot
from extender.packing.types import Phase, PodInfo
from extender.reports import fit_report
from tests.cases.case import GPU, Case

POLICY: Final = "hole-aware"


def place(case: Case, snapshot: Snapshot, pod: PodInfo, policy: str = POLICY) -> tuple[Snapshot, str | None]:
    """Return the snapshot with the pod where the policy puts it, and the node; None when it fits nowhere."""
    rows = np.flatnonzero(filter_nodes(snapshot, pod).fits)
    if not len(rows):
        return snapshot, None
    settings = case.input.get("config", {}) if policy == POLICY else {}
    scorer = REGISTRY[policy](**{key: tuple(values) for key, values in settings.items()})
    row = best_row(scorer, snapshot, pod, rows)
    name = snapshot.table.names[row]
    bound = PodInfo(
        pod.uid, pod.namespace, pod.name, pod.requests, pod.gpu, pod.constraints, phase=Phase.RUNNING, node_name=name
    )
    return snapshot.without_pod(pod).with_pod(bound), name


def _place_all(case: Case, pods: list[PodInfo], policy: str = POLICY) -> tuple[Snapshot, dict[str, str | None]]:
    snapshot, placed = case.snapshot, {}
    for pod in pods:
        snapshot, placed[pod.name] = place(case, snapshot, pod, policy)
    return snapshot, placed


def check_pick(case: Case, expected: Any) -> None:
    for name, nodes in expected.items():
        assert place(case, case.snapshot, case.pods[name])[1] in nodes


def check_fit_after(case: Case, expected: Any) -> None:
    snapshot, _ = _place_all(case, [case.pods[name] for name in case.expected["pick"]])
    (pod,) = case.arrivals("then")
    assert fit_report(snapshot, [pod])["pods"][0]["fits"] == expected[pod.name]


def check_online(case: Case, expected: Any) -> None:
    pods = case.arrivals("arrivals")
    _, placed = _place_all(case, pods)
    earlier: list[str | None] = []
    for pod, nodes in zip(pods, expected, strict=True):
        assert placed[pod.name] in _acceptable(case, nodes, placed, earlier), f"{pod.name} in {placed}"
        earlier.append(placed[pod.name])


def _acceptable(
    case: Case, nodes: list[str] | None, placed: Mapping[str, str | None], earlier: list[str | None]
) -> Collection[str | None]:
    """Read one line of `online`: node names, null for none, `same node as POD`, `the other node`."""
    if nodes is None:
        return {None}
    (words,) = nodes if len(nodes) == 1 else ("",)
    if words.startswith("same node as "):
        return {placed[words.removeprefix("same node as ")]}
    if words == "the other node":
        return set(case.snapshot.table.names) - set(earlier)
    return nodes


def check_all_placed_online(case: Case, expected: Any) -> None:
    _, placed = _place_all(case, case.arrivals("arrivals"))
    assert (None not in placed.values()) == expected


def check_after(case: Case, expected: Any) -> None:
    snapshot, _ = _place_all(case, case.arrivals("arrivals"))
    free = dict(zip(snapshot.table.names, snapshot.free_of(GPU).tolist(), strict=True))
    assert free == expected["free"]


def check_online_best_fit_places(case: Case, expected: Any) -> None:
    _, placed = _place_all(case, case.arrivals("pending_in_order"), "best-fit")
    assert len([node for node in placed.values() if node is not None]) == expected


def check_what_if_default(case: Case, expected: Any) -> None:
    _, placed = _place_all(case, case.waiting)
    assert sorted(name for name, node in placed.items() if node is not None) == expected["placed"]
    assert [pod.name for pod in case.dump.pods if pod.gated] == expected["not_considered"]
