"""What clients may do: how long they may take, how much may be held for them, who goes when there are too many.

A handshake or a head must come within `patience_seconds`; of a body, and of an answer, each MiB within that after the
one before, and all of it within five minutes. A connection may idle for `keep_alive_seconds`, one that has asked
nothing yet, too: Go's client opens spare ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.httpd.connection import Connection, Phase

_STEP_BYTES: Final = 2**20
_TRANSFER_SECONDS: Final = 300.0
# Four of the largest bodies may be on their way at a time. What each connection holds below the second does not count.
_LARGE_BODIES: Final = 4
_FREE_BYTES: Final = 2**18
_BIG_BYTES: Final = 2**22


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of a service.

    Attributes:
        patience_seconds: for a handshake, a head, each MiB of a body or an answer.
        keep_alive_seconds: for a connection without a request.
        max_body_bytes: the largest body.
    """

    patience_seconds: float
    keep_alive_seconds: float
    max_body_bytes: int


def enter(connection: Connection, phase: Phase, seconds: float) -> None:
    """Begin a phase that may take so long."""
    connection.phase = phase
    connection.since = time.monotonic()
    connection.deadline = connection.since + seconds
    connection.milestone = 0


def put_off(connection: Connection, moved: int, seconds: float) -> None:
    """Put the deadline off when another MiB has moved since the phase began or this was done last."""
    if moved - connection.milestone >= _STEP_BYTES:
        connection.milestone = moved
        connection.deadline = min(time.monotonic() + seconds, connection.since + _TRANSFER_SECONDS)


class Memory:
    """What is held for bodies and answers that are on their way."""

    def __init__(self, max_body_bytes: int, freed: Callable[[], None]) -> None:
        """Allow a few of the largest bodies; `freed` is called when a big one is done with."""
        self._limit = _LARGE_BODIES * max_body_bytes
        self._freed = freed
        self._held = 0

    def weigh(self, connection: Connection, held: int) -> None:
        """Note how many bytes are held for a connection now."""
        weight = max(0, held - _FREE_BYTES)
        if weight < _BIG_BYTES <= connection.weight:
            self._freed()
        self._held += weight - connection.weight
        connection.weight = weight

    def short(self, connection: Connection) -> bool:
        """Tell whether this connection holds too much, as there is too little left."""
        return connection.weight > 0 and self._held > self._limit


def worth(connection: Connection) -> tuple[int, float]:
    """Return what a connection is worth when there are too many, the least goes first.

    First those that have never made a request, then the idle ones, then those amid one; the longest waiting first.
    """
    if connection.phase in {Phase.BODY, Phase.OWED}:
        return 2, connection.since
    known = connection.phase is Phase.IDLE and connection.arrivals.count > 0
    return int(known), connection.since
