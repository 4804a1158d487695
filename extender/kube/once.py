"""Lines about what objects say, each once per object: a watch shows an object again at every change of it.

Bounded: after some thousand other lines one may come a second time. May be used from any thread.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Final

from extender.kube.convert import Warn
from extender.kube.raw import RawMeta
from extender.recent import Recent

_LIMIT: Final = 2**14
_LIMIT_BYTES: Final = 2**22
# A key with its texts and its place, beside their characters.
_ENTRY_BYTES: Final = 400


class Once:
    """Passes lines on to `warn`, unless the same was said of the same object before."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._said: Recent[tuple[str, str], None] = Recent(_LIMIT, _LIMIT_BYTES)

    def about(self, meta: RawMeta | None) -> Warn:
        """Return what takes lines about one object, told from others of its name by its UID."""
        return partial(self._say, (meta.uid if meta else None) or "")

    def _say(self, uid: str, line: str) -> None:
        key = uid, line
        with self._lock:
            if key in self._said:
                return
            self._said.put(key, None, _ENTRY_BYTES + len(uid) + len(line))
        self._warn(line)
