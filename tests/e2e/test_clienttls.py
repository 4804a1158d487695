"""The tests' own TLS sockets: closed for certain, or a warning fails a test that has nothing to do with it."""

import gc
import selectors
import socket

import pytest

from controlplane.clienttls import client_context
from controlplane.processes import LOOPBACK


def test_a_reset_before_the_handshake_leaves_nothing_open():
    with socket.create_server((LOOPBACK, 0)) as server:
        client = socket.create_connection(server.getsockname())
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ)
        assert selector.select(10), "the reset arrives"
    # The warning about a socket left open would fail this test, or the next.
    with pytest.raises(ConnectionResetError):
        client_context().wrap_socket(client, server_hostname=LOOPBACK)
    gc.collect()
