"""Does to pods what kubelets would: bound pods run, run to their end, and are gone once deleted."""

from __future__ import annotations

import heapq
import threading
import time
from typing import Final, Self

from controlplane.api import Api, ApiError, Manifest, Watch
from controlplane.objects import RUN_SECONDS, node_of, phase_of

_PODS: Final = "/api/v1/pods"
_IDLE_SECONDS: Final = 0.05


def set_phase(api: Api, pod: Manifest, phase: str) -> None:
    """Say that a pod has a phase, as its kubelet would; a pod that is gone by now is left alone."""
    ready = "True" if phase == "Running" else "False"
    conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
    uid = pod["metadata"]["uid"]
    body = {"metadata": {"uid": uid}, "status": {"phase": phase, "conditions": conditions}}
    try:
        api.patch(f"{path_of(pod)}/status", body, strategic=True)
    except ApiError as error:
        if error.status not in {404, 409}:  # gone, or another pod of that name
            raise


def path_of(pod: Manifest) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


class Kubelet:
    """All nodes' kubelets: one thread watches, one acts (what runs for a while ends on time, whatever the watch does).

    A bound pod becomes Running at once, and Succeeded after the seconds its annotation says.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stopping = threading.Event()
        self._watch: Watch | None = None
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, str, Manifest]] = []  # when, order, phase to come, pod
        self._order = 0
        self._started: set[str] = set()
        self.faults: list[str] = []
        self._threads = [threading.Thread(target=self._guarded, args=(loop,)) for loop in (self._follow, self._act)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with self._lock:
            if self._watch is not None:
                self._watch.stop()
        for thread in self._threads:
            thread.join()
        assert not self.faults, self.faults

    def _guarded(self, loop: object) -> None:
        assert callable(loop)
        try:
            loop()
        except Exception as error:  # noqa: BLE001 - told when the block ends
            self.faults.append(f"{type(error).__name__}: {error}")

    def _follow(self) -> None:
        while not self._stopping.is_set():
            listed = self._api.get(_PODS)
            for pod in listed["items"]:
                self._seen("ADDED", pod)
            watch = self._api.watch(_PODS, listed["metadata"]["resourceVersion"])
            with self._lock:
                self._watch = watch
            if self._stopping.is_set():
                watch.stop()
            for kind, pod in watch:
                if kind == "ERROR":
                    break
                self._seen(kind, pod)

    def _seen(self, kind: str, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._started.discard(uid)
        elif pod["metadata"].get("deletionTimestamp") and node_of(pod):
            self._plan("", pod, 0.0)
        elif node_of(pod) and phase_of(pod) == "Pending" and uid not in self._started:
            self._started.add(uid)
            self._plan("Running", pod, 0.0)
            seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
            if seconds is not None:
                self._plan("Succeeded", pod, float(seconds))

    def _plan(self, phase: str, pod: Manifest, seconds: float) -> None:
        with self._lock:
            self._order += 1
            heapq.heappush(self._due, (time.monotonic() + seconds, self._order, phase, pod))

    def _act(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                due = bool(self._due) and self._due[0][0] <= time.monotonic()
                item = heapq.heappop(self._due) if due else None
            if item is None:
                self._stopping.wait(_IDLE_SECONDS)
                continue
            _, _, phase, pod = item
            if phase:
                set_phase(self._api, pod, phase)
            else:
                self._api.delete(path_of(pod))
