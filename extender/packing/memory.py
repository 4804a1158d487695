"""What has been worked out of immutable values, kept while there is room. Nobody can tell it from what is new.

All may be used from several threads: what is worked out twice is the same, and what is forgotten comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Owner = TypeVar("Owner")
State = TypeVar("State")
Change = TypeVar("Change")
Key = tuple[str, object]


class Memory:
    """Values by key, bounded by bytes: users choose the keys, and one key may be as large as a pod."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._known: dict[object, object] = {}

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, key: object, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return ``make()``, made once per key while the memory lasts; ``size`` is about its bytes and the key's."""
        if (found := self._known.get(key)) is not None:
            return found  # type: ignore[return-value]
        made = make()
        self._keep(key, made, size(made))
        return made

    def _keep(self, key: object, value: object, size_bytes: int) -> None:
        if self._used_bytes + size_bytes > self._room_bytes:
            self._known.clear()
            self._used_bytes = 0
        if size_bytes <= self._room_bytes:
            self._known[key] = value
            self._used_bytes += size_bytes


class ByIdentity(Generic[Owner, T]):
    """Values by the very object they belong to: for owners whose hash costs more than all else."""

    def __init__(self) -> None:
        # The owner is kept beside its value, so no other object gets its id.
        self._known: dict[int, tuple[Owner, T]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, owner: Owner, make: Callable[[Owner], T]) -> T:
        """Return ``make(owner)``, made once per owner while the memory lasts."""
        found = self._known.get(id(owner))
        if found is None:
            found = self._known[id(owner)] = (owner, make(owner))
        return found[1]

    def trim(self, owners: int) -> None:
        """Forget everything once most of it belongs to owners that are gone; ``owners`` are there now."""
        if len(self._known) > 2 * owners + 64:
            self._known.clear()


class Lineage(Generic[State, Change]):
    """Values by (kind, key) that follow from one of a line of states, each a change away from the one before.

    What was known of the state before is brought up to date with it, where somebody has said how.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Any, Callable[[Any, State, Change], Any] | None]] = {}

    def recall(
        self, key: Key, make: Callable[[], T], follow: Callable[[T, State, Change], T | None] | None = None
    ) -> T:
        """Return ``make()``, made once.

        ``follow`` tells what the value becomes in the state after a change, None when it has to be made anew. It is
        handed on from state to state, so it must hold none of them.
        """
        found: T
        if (known := self._known.get(key)) is not None:
            found, _ = known
            return found
        return self.put(key, make(), follow)

    def put(self, key: Key, value: T, follow: Callable[[T, State, Change], T | None] | None) -> T:
        """Know a value from now on, whatever was known before, and return it."""
        self._known[key] = (value, follow)
        return value

    def inherit(self, before: Lineage[State, Change], state: State, change: Change) -> None:
        """Take over what can follow a change that has led to ``state``."""
        for key, (value, follow) in before._known.copy().items():  # at once: readers may be adding
            if follow is not None and (now := follow(value, state, change)) is not None:
                self.put(key, now, follow)

    def keep(self, before: Lineage[State, Change], kinds: Collection[str]) -> None:
        """Take over what was known of some kinds before, and holds still."""
        self._known.update(entry for entry in before._known.copy().items() if entry[0][0] in kinds)
