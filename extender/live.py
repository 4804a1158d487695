"""Follows a live cluster: two reflectors and the applier, each a thread, from `start` to `stop`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from extender.applier import Applier
from extender.cache import Cache
from extender.clustersettings import Cluster
from extender.kube.client import ApiClient
from extender.kube.gpurules import GpuRules
from extender.kube.objects import node_kind, pod_kind
from extender.kube.reflector import Pace, Reflector
from extender.metrics import Metrics, WatchMetrics
from extender.packing.types import NodeInfo, PodInfo

_LOG: Final = logging.getLogger(__name__)
_END_SECONDS: Final = 5.0


def pace_of(cluster: Cluster) -> Pace:
    """Return the `cluster` section as a reflector wants it."""
    return Pace(
        page_size=cluster.page_size,
        watch_min=cluster.watch_min_seconds,
        watch_max=cluster.watch_max_seconds,
        silence=cluster.silence_seconds,
        backoff_first=cluster.backoff_first_seconds,
        backoff_max=cluster.backoff_max_seconds,
    )


class LiveCluster:
    """The threads that keep a cache true. They must be started in the process that serves: threads survive no fork."""

    def __init__(self, cache: Cache, api: ApiClient, pace: Pace, rules: GpuRules, metrics: Metrics) -> None:
        """Put the parts together; nothing runs and nobody is asked yet."""
        watch = WatchMetrics(metrics.registry, time.time)
        self._applier = Applier(cache, metrics, watch)
        nodes: Reflector[NodeInfo] = Reflector(api, node_kind(rules, _LOG.warning), self._applier.put, pace, watch)
        pods: Reflector[PodInfo] = Reflector(api, pod_kind(rules, _LOG.warning), self._applier.put, pace, watch)
        self._reflectors = (nodes, pods)
        self._threads: list[threading.Thread] = []

    @property
    def trouble(self) -> str:
        """Return why the cluster cannot be followed at the moment, "" when it can."""
        return "; ".join(dict.fromkeys(r.trouble for r in self._reflectors if r.trouble))

    def start(self) -> None:
        """Start the threads; returns at once."""
        functions: dict[str, Callable[[], None]] = {"nodes": self._reflectors[0].run, "pods": self._reflectors[1].run}
        functions["applier"] = self._applier.run
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for name, run in functions.items()]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; a few seconds at most."""
        for reflector in self._reflectors:
            reflector.stop()
        self._applier.stop()
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
