"""Runs gunicorn inside `gpu-extender serve`: one worker process with threads, its listeners and TLS.

    SIGTERM -> readiness off, no new connections -> running requests end, kept-alive ones are told to close -> exit

One worker, because each would have a cache of its own; connections are kept alive for longer than the Go client keeps
them idle, or it would meet a closing one (docs/background.md, "Protocol").
"""

from __future__ import annotations

import ctypes
import socket
import ssl
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from extender.errors import InputError
from extender.settings import Server, Tls, split_address

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# mallopt(3). Bodies of tens of megabytes come and go: memory is kept and used again instead of being given back and
# page-faulted in anew (docs/background.md, "Cost": half the time of full-node calls), and all threads share one arena.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_KEEP_BYTES: Final = 2**30
_IDLE_SECONDS: Final = 5.0
_SWITCH_SECONDS: Final = 0.0005
_WORKER_TIMEOUT_SECONDS: Final = 120
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where the worker's heartbeat never waits for a disk


def tune_malloc() -> None:
    """Let the C library keep big buffers; without effect where it is not glibc."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_M_MMAP_THRESHOLD, _KEEP_BYTES), (_M_TRIM_THRESHOLD, _KEEP_BYTES), (_M_ARENA_MAX, 1)):
            mallopt(option, value)


def tune_threads() -> None:
    """Let threads take turns ten times as often as by default (5 ms).

    Beside a thread that has much to do in Python, as one that reads a list of pods has, each request waits for several
    turns: it leaves the interpreter and comes back when it is read, when it is answered, and between the two.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


class IdleTrimmer:
    """Gives memory back when no big body has come for a while: kept for the next one, but not for ever."""

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Trim after so many seconds without a big body."""
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def note(self) -> None:
        """Note a big body: begin to wait anew."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, _trim)
            self._timer.daemon = True
            self._timer.start()


def _trim() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def gunicorn_settings(server: Server) -> dict[str, Any]:
    """Return gunicorn's settings for the `server` section, listeners and TLS left out."""
    settings: dict[str, Any] = {
        "workers": 1,
        "threads": server.threads,
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
    }
    if _SHARED_MEMORY.is_dir():
        settings["worker_tmp_dir"] = str(_SHARED_MEMORY)
    return settings


class PlainLogger(Logger):
    """gunicorn's own messages go where all others go; there is no access log, metrics count requests."""

    def setup(self, cfg: GunicornConfig) -> None:
        """Leave handlers and levels to the root logger."""
        self.cfg = cfg
        self.error_log.propagate = True


class Worker(ThreadWorker):
    """Turns readiness off before it stops."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self.app.drain()
        super().handle_exit(sig, frame)  # type: ignore[no-untyped-call]


# -- listeners and TLS ---------------------------------------------------------------------------------------------


def open_listener(address: str, field: str) -> socket.socket:
    """Bind `host:port`; `field` is where the configuration says so.

    Raises:
        InputError: when that cannot be done.
    """
    host, port = split_address(address)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
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


class Separable(Protocol):
    """A WSGI application that can serve two listeners."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        ...

    def separate(self, host: str, port: int) -> None:
        """Serve operators on the listener bound to this address only."""
        ...


class Lifecycle(Protocol):
    """What happens beside the requests; all of it in the process that answers them."""

    def start(self) -> None:
        """Begin: the process is about to take requests."""
        ...

    def drain(self) -> None:
        """Get no new requests: we were asked to stop."""
        ...

    def stop(self) -> None:
        """End: the last request is answered."""
        ...


class Application(BaseApplication):
    """The service as gunicorn wants it."""

    def __init__(self, wsgi: Separable, lifecycle: Lifecycle, server: Server) -> None:
        """Open the listeners.

        Raises:
            InputError: when an address or a certificate cannot be used.
        """
        self._wsgi = wsgi
        self._server = server
        self._lifecycle = lifecycle
        self.drain = lifecycle.drain
        self._context = tls_context(server.tls)
        listeners = [open_listener(server.listen, "server.listen")]
        if server.operators_listen is not None:
            listeners.append(open_listener(server.operators_listen, "server.operators_listen"))
        self._addresses: list[tuple[str, int]] = [listener.getsockname()[:2] for listener in listeners]
        self._descriptors = [listener.detach() for listener in listeners]
        if server.operators_listen is not None:
            wsgi.separate(*self._addresses[1])
        super().__init__()  # type: ignore[no-untyped-call]

    def load_config(self) -> None:
        """Give gunicorn its settings."""
        hooks = {
            "bind": [f"fd://{descriptor}" for descriptor in self._descriptors],
            "when_ready": self._announce,
            "post_worker_init": lambda _worker: self._lifecycle.start(),
            "worker_exit": lambda _arbiter, _worker: self._lifecycle.stop(),
        }
        for name, value in (gunicorn_settings(self._server) | hooks | self._tls_settings()).items():
            self.cfg.set(name, value)  # type: ignore[union-attr]

    def load(self) -> Separable:
        """Return the WSGI application."""
        return self._wsgi

    def _tls_settings(self) -> dict[str, Any]:
        if self._context is None:
            return {}
        context = TlsByListener(self._context, self._addresses[1][1] if len(self._addresses) > 1 else None)
        return {
            "certfile": str(self._server.tls.cert_file),
            "keyfile": str(self._server.tls.key_file),
            "do_handshake_on_connect": True,
            "ssl_context": lambda _config, _default: context,
        }

    def _announce(self, _: Arbiter) -> None:
        """Print where we listen (port 0 has become a real one); a connection is queued from now on."""
        scheme = "http" if self._context is None else "https"
        for name, kind, (host, port) in zip(
            ("listening", "operators"), (scheme, "http"), self._addresses, strict=False
        ):
            print(f"{name} on {kind}://{f'[{host}]' if ':' in host else host}:{port}", flush=True)  # noqa: T201


def run(wsgi: Separable, lifecycle: Lifecycle, server: Server) -> None:
    """Serve until a signal ends it.

    Raises:
        InputError: when an address or a certificate cannot be used.
    """
    Application(wsgi, lifecycle, server).run()  # type: ignore[no-untyped-call]
