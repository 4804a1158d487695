"""TLS of the tests' own clients, which leaves no socket open whenever a server dies."""

from __future__ import annotations

import ssl
from typing import Any


class ClosedSocket(ssl.SSLSocket):
    """Closes itself when the connection was reset before the handshake.

    `SSLContext.wrap_socket` reads a byte to find that out, and Python before 3.12.2 then raises without closing the
    socket that it has just taken over: python/cpython#113280. An API server killed in that moment is enough.
    """

    def recv(self, *args: Any) -> bytes:
        """Receive, as the base class does."""
        try:
            return super().recv(*args)
        except OSError:
            if self.version() is None:  # no handshake yet
                self.close()
            raise


def client_context() -> ssl.SSLContext:
    """Return a context that checks the server's certificate and name; the caller adds the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = ClosedSocket
    return context
