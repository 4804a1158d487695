"""One case of `tests/cases/NNN-slug.json`, and what the product makes of its input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from extender.dump import ClusterDump, read_dumps, read_pods
from extender.kube.gpurules import GpuRules
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.reports import FitRow, GpuRow, fit_report, gpus_report

GPU: Final = "nvidia.com/gpu"
RULES: Final = GpuRules.default()


@dataclass(frozen=True)
class Case:
    """One case, and what the product makes of its dump."""

    data: Mapping[str, Any]

    @property
    def input(self) -> Any:
        return self.data["input"]

    @property
    def expected(self) -> Any:
        return self.data["expected"]

    @cached_property
    def dump(self) -> ClusterDump:
        text = _generated(self.input["generate"]) if "generate" in self.input else json.dumps(self.input["dump"])
        return read_dumps([("dump.json", text.encode())], RULES)

    @cached_property
    def snapshot(self) -> Snapshot:
        return Snapshot.of(self.dump.nodes, self.dump.pods)

    @cached_property
    def pods(self) -> dict[str, PodInfo]:
        return {pod.name: pod for pod in self.dump.pods}

    @property
    def waiting(self) -> list[PodInfo]:
        """The queue in the order of the dump."""
        return [pod for pod in self.dump.pods if pod.waiting and not pod.gated]

    @cached_property
    def rows(self) -> list[GpuRow]:
        return gpus_report(self.snapshot)["nodes"]

    def rows_of(self, node: str) -> dict[str, GpuRow]:
        return {row["resource"]: row for row in self.rows if row["node"] == node}

    @cached_property
    def models(self) -> list[Any]:
        return list(gpus_report(self.snapshot)["summary"])

    def arrivals(self, key: str) -> list[PodInfo]:
        """The pods under a key of the input, as if new."""
        return list(read_pods([("pods.json", json.dumps(self.input[key]).encode())], RULES).pods)

    def fit(self, name: str) -> FitRow:
        return fit_report(self.snapshot, [self.pods[name]])["pods"][0]


def _generated(amounts: Mapping[str, Any]) -> str:
    def pod(name: str, gpus: int, phase: str, node: str = "", reason: str = "") -> dict[str, Any]:
        container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}}
        return {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ml"},
            "spec": {"nodeName": node, "containers": [container]},
            "status": {"phase": phase, "reason": reason},
        }

    names = amounts["nodes"]
    size = {"cpu": "96", "memory": "1000Gi", "pods": "110", GPU: str(amounts["gpus_per_node"])}
    items: list[Any] = [{"kind": "Node", "metadata": {"name": n}, "status": {"allocatable": size}} for n in names]
    for number in range(amounts["failed_pods"]):
        node = names[number % len(names)]
        items.append(pod(f"crash-{number:05}", 1, "Failed", node, "UnexpectedAdmissionError"))
    items += [pod(f"run-{n}", amounts["running_gpus_per_node"], "Running", n) for n in names]
    items += [pod(name, gpus, "Pending") for name, gpus in amounts["pending"].items()]
    return json.dumps({"kind": "List", "items": items})
