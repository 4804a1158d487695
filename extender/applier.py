"""The one thread that writes what the API server tells into the cache.

    reflector(nodes) --+
                       +--> queue --> drain what is there --> Cache.apply --> one Snapshot
    reflector(pods)  --+

Under load batches grow and their number falls, so a burst costs one Snapshot and not a thousand.
"""

from __future__ import annotations

import gc
import logging
import queue
import time
from collections.abc import Callable
from typing import Final

from extender.cache import Cache
from extender.changes import Change
from extender.metrics import Metrics, WatchMetrics

_LOG: Final = logging.getLogger(__name__)
_TICK_SECONDS: Final = 1.0
# A batch is bounded, so that a queue which fills faster than it is drained still gets to readers.
_MOST: Final = 10_000
_WITHOUT_COLLECTOR_SECONDS: Final = 60.0
_NAME: Final = "watch"


class Applier:
    """Applies changes in the order they come; `run` is the thread's function."""

    def __init__(
        self, cache: Cache, metrics: Metrics, watch: WatchMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write into `cache`; `clock` is the one of its deadlines."""
        self._cache = cache
        self._metrics = metrics
        self._watch = watch
        self._clock = clock
        self._queue: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._frozen = False

    def put(self, change: Change) -> None:
        """Take a change; returns at once."""
        self._queue.put(change)

    def stop(self) -> None:
        """End `run` once what came before is applied."""
        self._queue.put(None)

    def run(self) -> None:
        """Apply until `stop`. Until the first lists are in, or for a minute, the collector looks at nothing."""
        gc.disable()  # it would go through the growing lists again and again, and double the time to the start
        patience = self._clock() + _WITHOUT_COLLECTOR_SECONDS
        try:
            while self.turn(_TICK_SECONDS):
                if not gc.isenabled() and self._clock() > patience:
                    gc.enable()
        finally:
            gc.enable()

    def turn(self, wait_seconds: float) -> bool:
        """Wait for changes, apply all that are there, and let bookings run out; False once `stop` was met."""
        batch, going_on = self._drain(wait_seconds)
        if batch:
            self._apply(batch)
        self._cache.expire(self._clock())
        return going_on

    def _drain(self, wait_seconds: float) -> tuple[list[Change], bool]:
        batch: list[Change] = []
        try:
            change = self._queue.get(timeout=wait_seconds)
            while change is not None:
                batch.append(change)
                if len(batch) == _MOST:
                    return batch, True
                change = self._queue.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _apply(self, batch: list[Change]) -> None:
        started = time.perf_counter()
        before = self._cache.drifted
        try:
            self._cache.apply(batch)
        except Exception:  # noqa: BLE001 - a bug of ours must not end the thread that all knowledge comes from
            _LOG.exception("bug: a batch of %d changes failed", len(batch))
            self._metrics.bug(_NAME)
        self._watch.applied(len(batch), time.perf_counter() - started)
        for kind, old, new in zip(("nodes", "pods"), before, self._cache.drifted, strict=True):
            if new > old:
                self._watch.drifted(kind, new - old)
        self._freeze_once()

    def _freeze_once(self) -> None:
        """Keep the cluster out of the collector's sight once it is known: it lives as long as we do.

        With 50,000 pods a full collection would stop every thread for a second and more (docs/background.md, "Cost").
        """
        if not self._frozen and self._cache.synced:
            self._frozen = True
            gc.freeze()
            gc.enable()
            snapshot = self._cache.snapshot
            pods = len(snapshot.pending) + sum(map(len, snapshot.pods))
            _LOG.info("the cluster is known: %d nodes, %d unfinished pods", len(snapshot), pods)
