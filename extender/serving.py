"""Runs gunicorn inside `gpu-extender serve`: one worker process (`httpd`), its listeners and TLS.

One worker, because each would have a cache of its own; connections are kept alive for longer than the Go client keeps
them idle, or it would meet a closing one (docs/background.md, "Protocol"). Signals: SIGTERM and SIGINT end the service;
SIGHUP, SIGUSR2, SIGTTIN and SIGTTOU, with which gunicorn replaces or adds processes, are ignored.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger

from extender.errors import InputError, ListenError
from extender.httpd.worker import Served, Worker
from extender.settings import Server, Tls, split_address

LISTEN: Final = "server.listen"
"""The field of the address that kube-scheduler asks."""

_LOG: Final = logging.getLogger(__name__)
_SWITCH_SECONDS: Final = 0.0005
_WORKER_TIMEOUT_SECONDS: Final = 120
# An idle one costs 2 KB, with TLS 16. kube-scheduler has one or two.
_CONNECTIONS: Final = 2048
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - files there are made without a name, or by tempfile


def tune_threads() -> None:
    """Let threads take turns ten times as often as by default (5 ms).

    Beside a thread that has much to do in Python, as one that reads a list of pods has, each request waits for several
    turns: it leaves the interpreter and comes back when it is read, when it is answered, and between the two.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def gunicorn_settings(server: Server) -> dict[str, Any]:
    """Return gunicorn's settings for the `server` section, listeners and TLS left out."""
    settings: dict[str, Any] = {
        "workers": 1,
        "threads": server.threads,
        "worker_connections": _CONNECTIONS,
        "keepalive": server.keep_alive_seconds,
        "graceful_timeout": server.graceful_timeout_seconds,
        "timeout": _WORKER_TIMEOUT_SECONDS,
        # A restart would lose the cache.
        "max_requests": 0,
        "preload_app": True,
        "proc_name": "gpu-extender",
        "control_socket_disable": True,
        "logger_class": PlainLogger,
        "worker_class": Worker,
        # No proxy stands before us: a client does not get to say SCRIPT_NAME, or that it came by TLS.
        "forwarded_allow_ips": "",
        "forwarder_headers": "",
    }
    if (folder := memory_folder()) is not None:
        settings["worker_tmp_dir"] = str(folder)
    return settings


def memory_folder() -> Path | None:
    """Return a folder for small files of ours that never wait for a disk, None where there is none."""
    return _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None


class PlainLogger(Logger):
    """gunicorn's own messages go where all others go; there is no access log, metrics count requests."""

    def setup(self, cfg: GunicornConfig) -> None:
        """Leave handlers and levels to the root logger."""
        self.cfg = cfg
        self.error_log.propagate = True


class Master(Arbiter):
    """gunicorn's master process, of which one worker and its state are the whole point: it does not trade them in."""

    def handle_hup(self) -> None:
        """Ignore SIGHUP, which would start another worker."""
        self._ignore("SIGHUP")

    def handle_ttin(self) -> None:
        """Ignore SIGTTIN, which would add a worker with a cache of its own."""
        self._ignore("SIGTTIN")

    def handle_ttou(self) -> None:
        """Ignore SIGTTOU, which would remove the worker."""
        self._ignore("SIGTTOU")

    def handle_usr2(self) -> None:
        """Ignore SIGUSR2, which would start a second master beside this one."""
        self._ignore("SIGUSR2")

    def _ignore(self, name: str) -> None:
        _LOG.warning("%s is ignored: one process holds the state; stop the service and start it to have it anew", name)


# -- listeners and TLS ---------------------------------------------------------------------------------------------


def open_listener(address: str, field: str) -> socket.socket:
    """Bind `host:port`; `field` is where the configuration says so.

    Raises:
        ListenError: when another program listens there.
        InputError: when this machine has no such address, or does not let us have it.
    """
    host, port = split_address(address)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"{field} {address}: another program listens there already; stop it, or choose another address"
                + (" (--listen HOST:PORT)" if field == LISTEN else "")
            ) from error
        raise InputError(f"{field} {address}: {error.strerror or error}") from error
    return listener


def tls_context(tls: Tls) -> ssl.SSLContext | None:
    """Return the context for the scheduler's listener, None for plain HTTP.

    Raises:
        InputError: when the files cannot be used.
    """
    if tls.cert_file is None:
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.client_ca_file)
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        raise InputError(f"server.tls: {error.strerror or error} ({error.filename or tls.cert_file})") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsByListener:
    """Stands for an SSL context: TLS on the scheduler's listener, none on the operators'.

    Probes and Prometheus have no client certificate; gunicorn knows TLS for all listeners or for none.
    """

    def __init__(self, context: ssl.SSLContext, plain_port: int | None) -> None:
        """Wrap with `context`, but for connections to `plain_port`."""
        self._context = context
        self._plain_port = plain_port

    def wrap_socket(self, sock: socket.socket, **options: Any) -> socket.socket:  # noqa: ANN401 - as ssl.SSLContext
        """Return the socket to talk over."""
        if sock.getsockname()[1] == self._plain_port:
            return sock
        return self._context.wrap_socket(sock, **options)


class Listening(Served, Protocol):
    """A service that can be asked on two listeners."""

    def separate(self, host: str, port: int) -> None:
        """Serve operators on the listener bound to this address only."""
        ...

    def announce(self, url: str, operators_url: str) -> Iterable[str]:
        """Return lines that say what is served and where."""
        ...


class Application(BaseApplication):
    """The service as gunicorn wants it."""

    def __init__(self, service: Listening, server: Server) -> None:
        """Open the listeners.

        Raises:
            InputError: when an address or a certificate cannot be used.
        ListenError: when another program listens on an address.
        """
        self._service = service
        self._server = server
        self._context = tls_context(server.tls)
        listeners = [open_listener(server.listen, LISTEN)]
        if server.operators_listen is not None:
            listeners.append(open_listener(server.operators_listen, "server.operators_listen"))
        self._addresses: list[tuple[str, int]] = [listener.getsockname()[:2] for listener in listeners]
        self._descriptors = [listener.detach() for listener in listeners]
        if server.operators_listen is not None:
            service.separate(*self._addresses[1])
        super().__init__()  # type: ignore[no-untyped-call]

    def load_config(self) -> None:
        """Give gunicorn its settings."""
        hooks = {
            "bind": [f"fd://{descriptor}" for descriptor in self._descriptors],
            "when_ready": self._announce,
        }
        for name, value in (gunicorn_settings(self._server) | hooks | self._tls_settings()).items():
            self.cfg.set(name, value)  # type: ignore[union-attr]

    def load(self) -> Listening:
        """Return the WSGI application."""
        return self._service

    def run(self) -> None:
        """Serve until a signal ends it."""
        Master(self).run()  # type: ignore[no-untyped-call]

    def _tls_settings(self) -> dict[str, Any]:
        if self._context is None:
            return {}
        context = TlsByListener(self._context, self._addresses[1][1] if len(self._addresses) > 1 else None)
        return {
            "certfile": str(self._server.tls.cert_file),
            "keyfile": str(self._server.tls.key_file),
            "ssl_context": lambda _config, _default: context,
        }

    def _announce(self, _: Arbiter) -> None:
        """Print where we listen (port 0 has become a real one) and what for; a connection is queued from now on."""
        scheme = "http" if self._context is None else "https"
        urls = [
            f"{kind}://{f'[{host}]' if ':' in host else host}:{port}"
            for kind, (host, port) in zip((scheme, "http"), self._addresses, strict=False)
        ]
        where = [f"{name} on {url}" for name, url in zip(("listening", "operators"), urls, strict=False)]
        print("\n".join([*where, *self._service.announce(urls[0], urls[-1])]), flush=True)  # noqa: T201


def run(service: Listening, server: Server) -> None:
    """Serve until a signal ends it.

    Raises:
        InputError: when an address or a certificate cannot be used.
        ListenError: when another program listens on an address.
    """
    Application(service, server).run()
