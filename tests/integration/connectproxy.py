"""A proxy for HTTPS as companies have one: CONNECT, and then bytes in both directions."""

from __future__ import annotations

import selectors
import socket
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_CHUNK = 1 << 16


class _Handler(BaseHTTPRequestHandler):
    asked: list[str]
    user: str

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        self.close_connection = True
        if self.user and self.headers.get("Proxy-Authorization") != f"Basic {b64encode(self.user.encode()).decode()}":
            self.send_error(407)
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as far:
            self.send_response_only(200)
            self.end_headers()
            _relay(self.connection, far)


def _relay(near: socket.socket, far: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(near, selectors.EVENT_READ, far)
        selector.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in selector.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                try:
                    data = source.recv(_CHUNK)
                    target.sendall(data)
                except OSError:
                    return
                if not data:
                    return


class ConnectProxy:
    """Listens on loopback; `asked` are the targets, as host:port. A `user` is name:password."""

    def __init__(self, user: str = "") -> None:
        self.asked: list[str] = []
        handler = type("OurHandler", (_Handler,), {"asked": self.asked, "user": user})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> ConnectProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
