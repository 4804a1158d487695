"""How long a refusal waits for news: kube-scheduler's watch may be milliseconds ahead of ours.

It asks at once when something happens. Refused by what we read before that, the pod would wait for the next event in
the cluster, up to five minutes: nothing wakes it when our watch catches up (docs/adr/0010-refusals-wait.md).

    no node is left, and news could change that --> wait for another Snapshot --> decide again ... until time is up

kube-scheduler has one pod in its hands, so what is waited is bounded over time, too: a second in a burst of refusals, a
tenth of all time in the long run. The less is left, the shorter each wait: news take milliseconds, and a cluster with
so many refusals is not quiet, any event in it makes kube-scheduler ask again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from extender.cache import Cache, View
from extender.metrics import Metrics
from extender.wire import FilterAnswer

_MOST_SECONDS: Final = 1.0
_EARNED_PER_SECOND: Final = 0.1
_SHARE_OF_REST: Final = 0.25


class Patience:
    """Decides again while there is hope. May be used from any thread."""

    def __init__(
        self, cache: Cache, longest_seconds: float, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Wait for news of `cache`, for one answer `longest_seconds` at most; 0: never.

        `clock` tells seconds.
        """
        self._cache = cache
        self._longest = longest_seconds
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._left = _MOST_SECONDS
        self._earned = clock()

    def decided(self, decide: Callable[[View], FilterAnswer]) -> FilterAnswer:
        """Decide on the present View, and on newer ones while no node is left."""
        view = self._cache.view
        answer = decide(view)
        return self._decided_again(decide, view, answer) if answer.unsure and self._longest else answer

    def _decided_again(self, decide: Callable[[View], FilterAnswer], view: View, answer: FilterAnswer) -> FilterAnswer:
        began = self._clock()
        until = began + self._allowance(began)
        while answer.unsure and (seconds := until - self._clock()) > 0:
            view = self._cache.wait(view, seconds)
            answer = decide(view)
        self._spend(self._clock() - began)
        self._metrics.waited(changed=not answer.unsure)
        return answer

    def _allowance(self, now: float) -> float:
        with self._lock:
            self._left = min(_MOST_SECONDS, self._left + (now - self._earned) * _EARNED_PER_SECOND)
            self._earned = now
            return min(self._longest, self._left * _SHARE_OF_REST)

    def _spend(self, seconds: float) -> None:
        with self._lock:
            self._left -= seconds
