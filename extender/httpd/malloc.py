"""The C library's memory: big buffers are kept for the next ones, and given back when none has come for a while."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from typing import Final

# mallopt(3). Bodies of tens of megabytes come and go: memory is kept and used again instead of being given back and
# page-faulted in anew (docs/background.md, "Cost": half the time of full-node calls), and all threads share one arena.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_KEEP_BYTES: Final = 2**30
_IDLE_SECONDS: Final = 5.0


def tune() -> None:
    """Let the C library keep big buffers; without effect where it is not glibc."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_M_MMAP_THRESHOLD, _KEEP_BYTES), (_M_TRIM_THRESHOLD, _KEEP_BYTES), (_M_ARENA_MAX, 1)):
            mallopt(option, value)


class IdleTrimmer:
    """Gives memory back when no big body has come for a while: kept for the next one, but not for ever."""

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Trim after so many seconds without a big body."""
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def note(self) -> None:
        """Note that a big body is done with: begin to wait anew."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, _trim)
            self._timer.daemon = True
            self._timer.start()


def _trim() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
