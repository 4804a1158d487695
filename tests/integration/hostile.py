"""Clients that stall, by what they leave undone."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tests.integration.harness import Service

POST: Final = b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

BEGUN: Final[Mapping[str, bytes]] = {
    "nothing sent": b"",
    "half a head": POST[:-20],
    "no body": POST + b"Content-Length: 100\r\n\r\n",
    "half a body": POST + b'Content-Length: 100\r\n\r\n{"Pod":',
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "no word to continue": POST + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
}
"""What a client has sent when it stops."""


def connected(service: Service, context: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection, behind the handshake if there is one."""
    plain = service.socket()
    return plain if context is None else context.wrap_socket(plain, server_hostname=service.host)


@contextmanager
def stalled(count: int, connect: Callable[[], socket.socket], sent: bytes) -> Iterator[list[socket.socket]]:
    """Keep so many connections that have sent so much and wait."""
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(connect())
            connections[-1].sendall(sent)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the other side ends."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)
