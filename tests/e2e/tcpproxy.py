"""A TCP proxy that a test can cut: between kube-scheduler and replicas of the extender, or extender and API server."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from itertools import cycle
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from controlplane.processes import LOOPBACK

_CHUNK: Final = 1 << 16


class TcpProxy:
    """Passes bytes on; connections go to the targets in turn."""

    def __init__(self, *targets: str) -> None:
        """Listen at once; targets are URLs on loopback."""
        self._ports = cycle(urlsplit(target).port for target in targets)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_open = True
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.connections = 0
        self._thread = threading.Thread(target=self._accept)
        self._relays: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for relay in self._relays:
            relay.join()

    def cut(self) -> None:
        """Break all connections; new ones are passed on."""
        with self._lock:
            for end in (end for pair in self._pairs for end in pair):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Break all connections, and every new one at once, until `open`."""
        self._is_open = False
        self.cut()

    def open(self) -> None:
        """Pass connections on again."""
        self._is_open = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            try:
                far = socket.create_connection((LOOPBACK, next(self._ports) or 0), timeout=5)
            except OSError:
                near.close()
                continue
            relay = threading.Thread(target=self._relay, args=(near, far))
            with self._lock:
                self._pairs.append((near, far))
            self._relays.append(relay)
            relay.start()
            if not self._is_open:
                self.cut()

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        """Pass on what either end says, until one has ended."""
        with near, far, selectors.DefaultSelector() as selector:
            for end, other in ((near, far), (far, near)):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(end, selectors.EVENT_READ, other)
            with suppress(OSError):
                while all(_passed(key) for key, _ in selector.select()):
                    pass
            with self._lock:
                self._pairs = [pair for pair in self._pairs if pair[0] is not near]


def _passed(key: selectors.SelectorKey) -> bool:
    source, target = key.fileobj, key.data
    assert isinstance(source, socket.socket)
    data = source.recv(_CHUNK)
    target.sendall(data)
    return bool(data)
