"""The latest values by key, bounded in number and in bytes: keys and values may be as long as users like.

Not locked: its owner sees to that. A single `get` may come without a lock.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that forgets what was put first; a value larger than all the room is not kept."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Keep a value, in place of the key's former one; the oldest make room."""
        if size_bytes > self._limit_bytes:
            self.pop(key)
            return
        _, before = self._known.get(key, (None, 0))
        self._known[key] = value, size_bytes
        self._known.move_to_end(key)
        self._used_bytes += size_bytes - before
        while len(self._known) > self._limit or self._used_bytes > self._limit_bytes:
            self._used_bytes -= self._known.popitem(last=False)[1][1]

    def get(self, key: K) -> V | None:
        """Return a value, None when it is not known."""
        found = self._known.get(key)
        return None if found is None else found[0]

    def pop(self, key: K) -> None:
        """Forget a value, if it is known."""
        found = self._known.pop(key, None)
        if found is not None:
            self._used_bytes -= found[1]
