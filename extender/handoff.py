"""Filter to prioritize: the list that filter answered comes back a moment later, and all about it is known already.

An optimisation that no answer shows: bytes are compared, and on any difference everything is worked out as usual. With
real schedulers the lists were equal 300 times of 300 (docs/background.md, "Control plane"). While kube-scheduler reads
the answer of filter, the answer of prioritize is prepared; it is used only if nothing has changed by then.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Final

from extender.cache import View
from extender.packing.framework import Rows
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo
from extender.recent import Recent
from extender.wire import PrioritizeAnswer

# Each scheduler has one pod between the two calls; retries and several schedulers want a few more.
_LIMIT: Final = 16
# 5,000 names are 0.4 MB with their answer.
_LIMIT_BYTES: Final = 2**26


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer of prioritize and its bytes, true for one pod and one View; held weakly, as all that a View holds."""

    pod: PodInfo
    view: weakref.ref[View]
    answer: PrioritizeAnswer
    body: bytes

    def answers(self, pod: PodInfo, view: View) -> bool:
        """Tell whether this is the answer for a pod in a View; one UID may stand for two pods in hand-made bodies."""
        return self.view() is view and (self.pod is pod or self.pod == pod)

    @property
    def size_bytes(self) -> int:
        """Return what it costs to keep, roughly."""
        return len(self.body) + self.answer.scores.nbytes


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of one pod's next question.

    Attributes:
        names_json: NodeNames of filter's answer as Go writes them.
        rows: the row of each of these names in `table`.
        prepared: the answer, if it could be prepared.
    """

    names_json: bytes
    rows: Rows
    table: weakref.ref[NodeTable]
    prepared: Prepared | None = None

    @property
    def size_bytes(self) -> int:
        """Return what it costs to keep, roughly."""
        return len(self.names_json) + self.rows.nbytes + (self.prepared.size_bytes if self.prepared else 0)


class HandOff:
    """The last filter answers by pod UID, bounded in number and in bytes. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: Recent[str, Line] = Recent(_LIMIT, _LIMIT_BYTES)

    def put(self, uid: str, line: Line) -> None:
        """Note a pod's line, in place of its former one; the oldest lines make room, and too long a one is dropped."""
        with self._lock:
            self._lines.put(uid, line, line.size_bytes)

    def find(self, uid: str, names_json: bytes, table: NodeTable) -> Line | None:
        """Return the pod's line if it is about these names and this table."""
        line = self._lines.get(uid)
        if line is None or line.table() is not table or line.names_json != names_json:
            return None
        return line
