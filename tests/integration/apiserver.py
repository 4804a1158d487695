"""A small stand-in for kube-apiserver, for what a real one cannot be made to do: to fail on demand.

Lists in pages, watches with bookmarks, bindings; and on demand refusals, expired versions, connections that drop or
hang, lines in pieces, slow pages. What is right about a real cluster is tested against a real one (tests/e2e).
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from tests.integration.apihandler import TOKEN, Handler, Refusal, Request, World, put, tell

TLS: Final = Path(__file__).parent / "tls"


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break or whose handshake fails."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class ApiServer:
    """The stand-in: `put` and `delete` are what a cluster's users do, the other methods are what goes wrong."""

    def __init__(self, certificate: str = "") -> None:
        """Speak plain HTTP, or TLS with a certificate (and its key) of tests/integration/tls."""
        self.world = World()
        self._http = _Server(("127.0.0.1", 0), type("OurHandler", (Handler,), {"world": self.world}))
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.world.changed:
            self.world.closing = True
            self.world.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self._http.server_port

    def kubeconfig(
        self,
        folder: Path,
        *,
        token: str = TOKEN,
        server: str = "",
        ca: str = "",
        user: Mapping[str, Any] | None = None,
        **cluster: object,
    ) -> Path:
        """Write a kubeconfig with two contexts: `good` (the current one) and `other`.

        `ca` is a file of tests/integration/tls, `user` other credentials than `token`, `cluster` more of that section,
        with `_` for `-`.
        """
        users = [{"name": "us", "user": {"token": token} if user is None else dict(user)}]
        where: dict[str, object] = {
            "server": server or self.url,
            **{key.replace("_", "-"): value for key, value in cluster.items()},
        }
        if ca:
            where["certificate-authority"] = str(TLS / ca)
        clusters = [{"name": "here", "cluster": where}]
        contexts = [{"name": name, "context": {"cluster": "here", "user": "us"}} for name in ("good", "other")]
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump({"clusters": clusters, "users": users, "contexts": contexts, "current-context": "good"})
        )
        return path

    # -- what users do ---------------------------------------------------------------------------------------------

    def put(self, *manifests: Mapping[str, Any]) -> None:
        """Create or replace objects; a pod that finishes leaves the watches, which ask for unfinished ones."""
        with self.world.changed:
            for manifest in manifests:
                put(self.world, manifest)
            self.world.changed.notify_all()

    def delete(self, kind: str, name: str, *, strip: bool = False) -> None:
        """Delete an object; `strip` leaves nothing but its identity in the event."""
        with self.world.changed:
            found = self.world.objects[kind].pop(name)
            self.world.version += 1
            found["metadata"]["resourceVersion"] = str(self.world.version)
            if strip:
                kept = {
                    k: found["metadata"][k]
                    for k in ("name", "namespace", "uid", "resourceVersion")
                    if k in found["metadata"]
                }
                found = {"metadata": kept}
            tell(self.world, kind, "DELETED", found)
            self.world.changed.notify_all()

    # -- what goes wrong -------------------------------------------------------------------------------------------

    def refuse(self, verb: str, kind: str, status: int, message: str = "refused on demand", *, times: int = 1) -> None:
        """Refuse the next requests of a verb."""
        with self.world.changed:
            self.world.refusals[verb, kind] = Refusal(status, message, times)

    def allow(self) -> None:
        """Take back what is to be refused."""
        with self.world.changed:
            self.world.refusals.clear()

    def compact(self) -> None:
        """Forget the history: watches from before get 410."""
        with self.world.changed:
            self.world.version += 1
            for kind, history in self.world.history.items():
                history.clear()
                self.world.oldest[kind] = self.world.version

    def drop(self) -> None:
        """Cut all open watches in the middle."""
        with self.world.changed:
            self.world.epoch += 1
            self.world.changed.notify_all()

    def go_deaf(self, *, deaf: bool = True) -> None:
        """Keep watches open and tell nothing on them: half-open connections."""
        with self.world.changed:
            self.world.deaf = deaf
            self.world.changed.notify_all()

    def inject(self, kind: str, line: bytes) -> None:
        """Send any line on the watches of a kind."""
        with self.world.changed:
            self.world.version += 1
            self.world.history[kind].append((self.world.version, line))
            self.world.changed.notify_all()

    def bookmark(self, kind: str) -> None:
        """Tell the version alone."""
        with self.world.changed:
            self.world.version += 1
            meta = {"metadata": {"resourceVersion": str(self.world.version)}}
            tell(self.world, kind, "BOOKMARK", meta)
            self.world.changed.notify_all()

    def error_event(self, kind: str, code: int = 410) -> None:
        """Tell an error on the watches, as for a version that is gone."""
        status = {"kind": "Status", "message": "too old resource version", "reason": "Expired", "code": code}
        self.inject(kind, json.dumps({"type": "ERROR", "object": status}).encode())

    # -- what was asked --------------------------------------------------------------------------------------------

    def asked(self, verb: str, kind: str) -> list[Request]:
        with self.world.changed:
            return [r for r in self.world.requests if (r.verb, r.kind) == (verb, kind)]

    def await_watches(self) -> None:
        """Wait until both kinds are watched."""
        eventually(lambda: all(self.world.open_watches[kind] for kind in ("nodes", "pods")))


def eventually(condition: Callable[[], object], within: float = 15.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
