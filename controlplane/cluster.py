"""What a test does to a cluster and asks of it, through the API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from controlplane.api import Api, ApiError, Manifest
from controlplane.kubelet import path_of, set_phase
from controlplane.objects import node_of
from controlplane.plane import NAMESPACE
from controlplane.processes import wait_for

_NODES: Final = "/api/v1/nodes"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_SLOW_POLL_SECONDS: Final = 0.2
_ADMISSION_SECONDS: Final = 10.0


class Cluster:
    """Nodes, and the pods of one namespace."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._priority_classes: set[str] = set()

    # -- nodes -------------------------------------------------------------------------------------------------

    def create_nodes(self, nodes: Iterable[Manifest]) -> list[Manifest]:
        """Create nodes, status included, several at a time."""
        return self.api.many(lambda node: self.api.create(_NODES, node), nodes)

    def nodes(self) -> list[Manifest]:
        """Return all nodes."""
        return self.api.items(_NODES)

    def patch_node(self, name: str, body: Manifest) -> Manifest:
        """Merge fields into a node (not its status)."""
        return self.api.patch(f"{_NODES}/{name}", body)

    def patch_node_status(self, name: str, body: Manifest) -> Manifest:
        """Merge fields into a node's status, as its kubelet would."""
        return self.api.patch(f"{_NODES}/{name}/status", {"status": body})

    def delete_node(self, name: str) -> None:
        """Delete a node."""
        self.api.delete(f"{_NODES}/{name}")

    # -- pods --------------------------------------------------------------------------------------------------

    def create_pods(self, pods: Iterable[Manifest]) -> list[Manifest]:
        """Create pods, several at a time; with `nodeName` in the spec they are bound already."""
        return self.api.many(self.create_pod, pods)

    def create_pod(self, pod: Manifest) -> Manifest:
        """Create one pod; a priority class just made may take admission a moment to see."""
        end = time.monotonic() + _ADMISSION_SECONDS
        while True:
            try:
                return self.api.create(PODS, pod)
            except ApiError as error:
                if "no PriorityClass" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(_SLOW_POLL_SECONDS)

    def pods(self) -> list[Manifest]:
        """Return the pods, from the API server's memory (which may be a moment late)."""
        return self.api.items(PODS, resourceVersion="0")

    def pod(self, name: str) -> Manifest:
        """Return one pod, as it is now."""
        pod: Manifest = self.api.get(f"{PODS}/{name}")
        return pod

    def set_phase(self, pod: Manifest, phase: str) -> None:
        """Say a pod has a phase, as its kubelet would."""
        set_phase(self.api, pod, phase)

    def delete_pod(self, pod: Manifest, grace_seconds: int = 0) -> None:
        """Delete a pod."""
        self.api.delete(path_of(pod), grace_seconds)

    def priority_class(self, name: str, value: int) -> str:
        """Make a priority class (for `priorityClassName`) and return its name."""
        if name not in self._priority_classes:
            self.api.create(_CLASSES, {"metadata": {"name": name}, "value": value})
            self._priority_classes.add(name)
        return name

    # -- waiting -----------------------------------------------------------------------------------------------

    def wait_bound(self, pods: Collection[Manifest], seconds: float = 60.0) -> dict[str, str]:
        """Wait until all these pods are bound; return pod name -> node."""
        names = {pod["metadata"]["name"] for pod in pods}
        last: dict[str, str] = {}

        def bound() -> bool:
            found = {pod["metadata"]["name"]: node_of(pod) for pod in self.pods()}
            last.clear()
            last.update({name: node for name, node in found.items() if node and name in names})
            return len(last) == len(names)

        try:
            wait_for(bound, f"{len(names)} pods are bound", seconds, _SLOW_POLL_SECONDS)
        except AssertionError as error:
            waiting = sorted(names - last.keys())
            reasons = sorted({event["message"] for event in self.events() if event["type"] == "Warning"})
            raise AssertionError(f"{error}; {len(last)} are; waiting: {waiting[:5]}; {reasons[:5]}") from error
        return dict(last)

    def wait_pod(self, name: str, condition: Callable[[Manifest], object], what: str, seconds: float = 30.0) -> None:
        """Wait until a condition holds for a pod."""
        wait_for(lambda: condition(self.pod(name)), f"pod {name} {what}", seconds)

    # -- asking ------------------------------------------------------------------------------------------------

    def events(self, reason: str | None = None, pod: str | None = None) -> list[Manifest]:
        """Return the events about pods, of a reason and about a pod if they are given."""
        wanted = {"reason": reason, "involvedObject.name": pod}
        selector = ",".join(f"{key}={value}" for key, value in wanted.items() if value)
        return self.api.items(_EVENTS, **({"fieldSelector": selector} if selector else {}))

    def dump(self, path: Path) -> Path:
        """Write what `kubectl get nodes,pods -A -o json` prints, and return where."""
        items = [{"apiVersion": "v1", "kind": "Node", **node} for node in self.nodes()]
        items += [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in self.api.items("/api/v1/pods")]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        return path

    # -- ending ------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Delete all pods, nodes, events and priority classes of the test."""
        for path in (PODS, _NODES, _EVENTS, *(f"{_CLASSES}/{name}" for name in self._priority_classes)):
            self.api.delete(path)
        self._priority_classes.clear()
        wait_for(lambda: not self.pods() and not self.nodes(), "pods and nodes are gone")
