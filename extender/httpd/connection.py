"""One client's connection: what it has sent and is still owed. Plain state; `reception` moves it.

    HANDSHAKE -> IDLE -> HEAD -> BODY -> BUSY -> OWED -> IDLE, or LEAVING

A handshake comes with TLS only. HEAD begins with the first byte of a request. BUSY: a thread makes the answer. OWED:
what the client has not taken of it at once. LEAVING: no request follows, but what still comes is read for a moment, or
the answer might be lost by a reset.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from extender.httpd.arrivals import Arrival, Arrivals
from extender.httpd.channel import Channel

# A head and a body up to this size go out together: one system call, one TLS record.
_TOGETHER_BYTES: Final = 2**16
_FAILURE: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 32\r\n\r\n500 internal error, see the log\n"
)


class Phase(Enum):
    """What a connection is doing."""

    HANDSHAKE = "handshake"
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    BUSY = "busy"
    OWED = "owed"
    LEAVING = "leaving"
    GONE = "gone"


RECEIVING: Final = frozenset({Phase.IDLE, Phase.HEAD, Phase.BODY})
WITHOUT_REQUEST: Final = frozenset({Phase.HANDSHAKE, Phase.IDLE, Phase.HEAD})


class Outlet:
    """What gunicorn writes an answer to, from a thread. It never waits: what the client does not take is kept.

    Attributes:
        rest: what is still to be sent.
        sent: how many bytes have been.
    """

    def __init__(self, channel: Channel) -> None:
        """Send one answer over a channel."""
        self._channel = channel
        self._head = b""
        self._begun = False
        self.sent = 0
        self.rest: deque[memoryview] = deque()

    @property
    def size(self) -> int:
        """Return how many bytes have been given to be sent."""
        return self.sent + sum(map(len, self.rest))

    def sendall(self, data: bytes) -> None:
        """Send; the first piece is a head and waits for the second.

        Raises:
            OSError: when the client is lost.
        """
        if not self._begun:
            self._begun, self._head = True, data
            return
        if self._head and len(data) <= _TOGETHER_BYTES:
            data, self._head = self._head + data, b""
        self.flush()
        self._write(data)

    def flush(self) -> None:
        """Send what waits for more.

        Raises:
            OSError: when the client is lost.
        """
        head, self._head = self._head, b""
        if head:
            self._write(head)

    def fail(self) -> None:
        """Answer with a 500 unless something has been sent.

        Raises:
            OSError: when the client is lost.
        """
        if self._head or not self._begun:
            self._head = b""
            self._write(_FAILURE)

    def push(self) -> bool:
        """Send more of the rest; tell whether nothing is left.

        Raises:
            OSError: when the client is lost.
        """
        while self.rest:
            first = self.rest[0]
            sent = self._channel.write(first)
            self.sent += sent
            if sent < len(first):
                self.rest[0] = first[sent:]
                return False
            self.rest.popleft()
        return True

    def shutdown(self, _how: int) -> NoReturn:
        """Refuse: gunicorn would close what it could not finish, and wait for the client.

        Raises:
            OSError: always; the reception ends the connection.
        """
        raise OSError("closed elsewhere")

    def close(self) -> None:
        """Do nothing, likewise."""

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        if not self.rest:
            sent = self._channel.write(view)
            self.sent += sent
            view = view[sent:]
        if view:
            self.rest.append(view)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to be answered, and where the answer goes; named as gunicorn wants it. A thread works on it.

    Attributes:
        client, server: addresses as sockets give them.
    """

    arrival: Arrival
    sock: Outlet
    client: object
    server: object


@dataclass(slots=True, eq=False)
class Connection:
    """One client.

    Attributes:
        outlet: where the present answer goes, or the last one went.
        client, server: addresses as sockets give them.
        since: when the phase began, in seconds of the steady clock.
        deadline: when the phase is over, likewise.
        milestone: bytes that had moved when the deadline was last put off.
        weight: bytes that are held for it and count.
        watched: the events that the poller waits for, 0 for none.
        keep: another request may follow the present one.
        ended: the client has said that it sends nothing more.
    """

    channel: Channel
    arrivals: Arrivals
    outlet: Outlet
    client: object
    server: object
    phase: Phase = Phase.IDLE
    since: float = 0.0
    deadline: float = 0.0
    milestone: int = 0
    weight: int = 0
    watched: int = 0
    keep: bool = True
    ended: bool = False
