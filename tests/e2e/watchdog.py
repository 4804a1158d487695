"""Follows every pod while a test runs, and fails it if a node ever held more GPUs than it has."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final, Self

import urllib3

from controlplane.api import ApiError, Manifest, Watch
from controlplane.cluster import Cluster
from controlplane.counting import built_in, gpus_of, holds, name_of, uid_of
from controlplane.objects import node_of

_PODS: Final = "/api/v1/pods"
_RETRY_SECONDS: Final = 0.1


class Watchdog:
    """Counts GPUs held per node in the order in which the API server says that it happened.

    Survives restarts of the API server: what it missed is in the list that it then reads.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._held: dict[str, tuple[str, int]] = {}  # uid -> node, GPUs
        self._where: dict[str, set[str]] = {}
        self._sizes = {name_of(node): built_in(node) for node in cluster.nodes()}
        self._listed = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self.most: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listed.wait(30), "the pods were not listed"
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stopping.set()
        with self._lock:
            if self._watch is not None:
                self._watch.stop()
        self._thread.join()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Fail when a node ever held too much, or a pod was ever on two nodes."""
        sizes = self._sizes | {name_of(node): built_in(node) for node in self._cluster.nodes()}
        too_full = {
            name: (count, sizes.get(name, 0)) for name, count in self.most.items() if count > sizes.get(name, 0)
        }
        assert not too_full, f"more GPUs held than there are (held, there): {too_full}"
        twice = {uid: nodes for uid, nodes in self._where.items() if len(nodes) > 1}
        assert not twice, f"bound twice: {twice}"

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._once()
            except (ApiError, urllib3.exceptions.HTTPError):
                self._stopping.wait(_RETRY_SECONDS)

    def _once(self) -> None:
        listed = self._cluster.api.get(_PODS)
        self._held.clear()
        for pod in listed["items"]:
            self._seen("ADDED", pod)
        watch = self._cluster.api.watch(_PODS, listed["metadata"]["resourceVersion"])
        with self._lock:
            self._watch = watch
        self._listed.set()
        if self._stopping.is_set():
            watch.stop()
        for kind, pod in watch:
            if kind == "ERROR":
                return
            self._seen(kind, pod)

    def _seen(self, kind: str, pod: Manifest) -> None:
        uid = uid_of(pod)
        self._held.pop(uid, None)
        if node_of(pod):
            self._where.setdefault(uid, set()).add(node_of(pod))
        if kind == "DELETED" or not holds(pod):
            return
        self._held[uid] = (node_of(pod), gpus_of(pod))
        now = sum(gpus for node, gpus in self._held.values() if node == node_of(pod))
        self.most[node_of(pod)] = max(self.most[node_of(pod)], now)
