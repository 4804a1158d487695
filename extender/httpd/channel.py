"""A client's socket, with TLS or without, that never blocks: it does what can be done now and says what to wait for."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

# One TLS record has 16 KiB at most. Reading as much at a time leaves nothing in the TLS layer that the poller, which
# looks at the socket, would not know of.
READ_BYTES: Final = 2**18
_MOST_BYTES: Final = 2**20


class Channel:
    """A socket. Everything raises OSError (TLS errors are such) when the client is lost.

    Attributes:
        wants: what the poller should wait for after a call that could not do all.
    """

    __slots__ = ("socket", "wants")

    def __init__(self, sock: socket.socket) -> None:
        """Talk over a connected socket, an SSLSocket before its handshake or a plain one."""
        sock.settimeout(0)
        self.socket = sock
        self.wants = EVENT_READ

    @property
    def tls(self) -> bool:
        """Tell whether a handshake comes before everything else."""
        return isinstance(self.socket, ssl.SSLSocket)

    def handshake(self) -> bool:
        """Go on with the TLS handshake; tell whether it is done."""
        if not isinstance(self.socket, ssl.SSLSocket):
            return True
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            self.wants = EVENT_READ
        except ssl.SSLWantWriteError:
            self.wants = EVENT_WRITE
        else:
            return True
        return False

    def read(self, missing: int = 0) -> bytes | None:
        """Return what is there: None for nothing yet, b"" when the client has ended.

        `missing` is how much would be of use; more than that may come.
        """
        try:
            return self.socket.recv(min(max(missing, READ_BYTES), _MOST_BYTES))
        except (BlockingIOError, ssl.SSLWantReadError):
            self.wants = EVENT_READ
        except ssl.SSLWantWriteError:
            self.wants = EVENT_WRITE
        return None

    def write(self, data: bytes | memoryview) -> int:
        """Send as much as goes; return how much that was."""
        view = memoryview(data)
        sent = 0
        try:
            while sent < len(view):
                sent += self.socket.send(view[sent : sent + _MOST_BYTES])
        except (BlockingIOError, ssl.SSLWantWriteError):
            self.wants = EVENT_WRITE
        except ssl.SSLWantReadError:
            self.wants = EVENT_READ
        return sent

    def end(self) -> None:
        """Tell the client that nothing more will come; what it still sends can be read (RFC 9112 section 9.6)."""
        if isinstance(self.socket, ssl.SSLSocket):
            with suppress(OSError, ValueError):
                self.socket.unwrap()
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close at once."""
        with suppress(OSError):
            self.socket.close()
