"""gunicorn's worker: it accepts, has the reception receive, and runs the application in threads.

    SIGTERM -> readiness off, ports free -> requests that have begun end, kept-alive ones are told to close -> exit

GETs, which probes and Prometheus send, have threads of their own: /healthz answers whatever the verbs do.
"""

from __future__ import annotations

import errno
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, BaseSelector
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from gunicorn.sock import ssl_context
from gunicorn.workers.gthread import ThreadWorker

from extender.httpd.connection import Connection, Exchange
from extender.httpd.reception import Reception
from extender.httpd.rules import Rules

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_ASIDE_THREADS: Final = 2
_ACCEPTS: Final = 64
_LOOK_SECONDS: Final = 0.25
_LINGER_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 1.0
# File descriptors beside those of connections: listeners, the API server, pipes.
_OTHER_FILES: Final = 128
_FEWEST: Final = 64
_ASIDE: Final = frozenset({"GET", "HEAD"})
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_IGNORED: Final = (signal.SIGHUP, signal.SIGUSR2, signal.SIGTTIN, signal.SIGTTOU)


class Served(Protocol):
    """A WSGI application with what happens beside its requests; all of it in the process that answers them."""

    @property
    def rules(self) -> Rules:
        """Return what clients may do."""
        ...

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; reading a body that is not whole raises TransferError."""
        ...

    def start(self) -> None:
        """Begin: the process is about to take requests."""
        ...

    def drain(self) -> None:
        """Get no new requests: we were asked to stop."""
        ...

    def stop(self) -> None:
        """End: the last request is answered."""
        ...

    def cut(self, why: str) -> None:
        """Note that a connection was ended before a request was known."""
        ...


class Worker(ThreadWorker):
    """One process with one poller and some threads."""

    wsgi: Served
    poller: BaseSelector
    tpool: ThreadPoolExecutor

    def init_process(self) -> None:
        """Have what must not be shared with another process, then run."""
        self._aside = ThreadPoolExecutor(_ASIDE_THREADS)
        self._paused_until = 0.0
        self._next_look = 0.0
        super().init_process()  # type: ignore[no-untyped-call]

    def init_signals(self) -> None:
        """Have signals that gunicorn's master may get, and might be sent to all of us, not end this process."""
        super().init_signals()  # type: ignore[no-untyped-call]
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        if self.booted:
            self.wsgi.drain()
        super().handle_exit(sig, frame)  # type: ignore[no-untyped-call]

    # -- the main thread -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until told to stop, or until the master is gone."""
        self._secure = self._tls() if self.cfg.is_ssl else _plain
        connections = _connections(self.cfg.worker_connections)
        self._reception = Reception(self.poller, self.wsgi.rules, connections, self.cfg, self._hand_over, self.wsgi.cut)
        self.poller.register(self.method_queue.fileno(), EVENT_READ, self.method_queue.run_callbacks)
        self.wsgi.start()
        try:
            self.set_accept_enabled(True)  # type: ignore[no-untyped-call]
            while self.alive and self._turn(_LOOK_SECONDS):
                pass
            self._stop()
        finally:
            self.wsgi.stop()

    def accept(self, listener: socket.socket) -> None:
        """Take in who waits at a listener."""
        server = listener.getsockname()
        for _ in range(_ACCEPTS):
            try:
                accepted, client = listener.accept()
            except OSError as error:
                # Out of files: whoever waits would wake us again and again.
                if error.errno in _EXHAUSTED and not self._reception.make_room():
                    self._paused_until = time.monotonic() + _PAUSE_SECONDS
                    self.set_accept_enabled(False)  # type: ignore[no-untyped-call]
                return
            try:
                self._reception.welcome(self._secure(accepted), client, server)
            except OSError:
                accepted.close()  # gone before it was here

    def _turn(self, seconds: float) -> bool:
        """Act on what happens within that time; tell whether the master is still there."""
        self.wait_for_and_dispatch_events(seconds)  # type: ignore[no-untyped-call]
        now = time.monotonic()
        if now < self._next_look:
            return True
        self._next_look = now + _LOOK_SECONDS
        self.notify()  # type: ignore[no-untyped-call]
        self._reception.expire(now)
        if self.alive:
            self.set_accept_enabled(now >= self._paused_until)  # type: ignore[no-untyped-call]
        alive: bool = self.is_parent_alive()  # type: ignore[no-untyped-call]
        return alive

    def _stop(self) -> None:
        """Free the ports, let what has begun end."""
        self.set_accept_enabled(False)  # type: ignore[no-untyped-call]
        for listener in self.sockets:
            listener.close()
        self._reception.hurry(_LINGER_SECONDS)
        end = time.monotonic() + self.cfg.graceful_timeout
        while self._reception and time.monotonic() < end:
            self._turn(_LOOK_SECONDS)
        self._reception.close()
        for pool in (self.tpool, self._aside):
            pool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()

    def _tls(self) -> Callable[[socket.socket], socket.socket]:
        context = ssl_context(self.cfg)
        # A handshake is the reception's business.
        return partial(context.wrap_socket, server_side=True, do_handshake_on_connect=False)

    def _hand_over(self, connection: Connection, exchange: Exchange) -> None:
        pool = self._aside if exchange.arrival.request.method in _ASIDE else self.tpool
        pool.submit(self._serve, connection, exchange)

    # -- other threads -------------------------------------------------------------------------------------------------

    def _serve(self, connection: Connection, exchange: Exchange) -> None:
        keep = self._answer(exchange)
        self.method_queue.defer(partial(self._reception.answered, connection, keep=keep))

    def _answer(self, exchange: Exchange) -> bool:
        """Answer one request; return whether the connection may have another."""
        try:
            request = exchange.arrival.opened()
            keep: bool = self.handle_request(request, exchange)  # type: ignore[no-untyped-call]
            exchange.sock.flush()
        except (StopIteration, OSError):
            return False  # gunicorn has logged it, or the client is gone
        except Exception:
            self.log.exception("bug: a request failed")
            with suppress(OSError):
                exchange.sock.fail()
            return False
        return keep


def _plain(accepted: socket.socket) -> socket.socket:
    return accepted


def _connections(wanted: int) -> int:
    """Have the file descriptors for so many connections; return for how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + _OTHER_FILES
    if soft < files and soft != resource.RLIM_INFINITY:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return max(_FEWEST, min(wanted, soft - _OTHER_FILES))
    return wanted
