"""All connections, each in its phase and with its deadline (`rules`). One thread only; nothing here waits.

A client that is late with its head or body is told so (408); any other is cut. So is the least valuable one when there
are too many connections, or when too much is held in memory for unfinished bodies and answers.
"""

from __future__ import annotations

import heapq
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from selectors import EVENT_READ, BaseSelector
from typing import Final

from gunicorn.config import Config

from extender.errors import TransferError
from extender.httpd.arrivals import Arrival, Arrivals
from extender.httpd.bodies import Body
from extender.httpd.channel import Channel
from extender.httpd.connection import RECEIVING, WITHOUT_REQUEST, Connection, Exchange, Outlet, Phase
from extender.httpd.heads import refusal
from extender.httpd.malloc import IdleTrimmer
from extender.httpd.rules import Memory, Rules, enter, put_off, worth

_LOG: Final = logging.getLogger(__name__)
_TURN_BYTES: Final = 2**20
_LEAVE_SECONDS: Final = 2.0
_CUT: Final = {Phase.HANDSHAKE: "handshake", Phase.OWED: "answer"}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Reception:
    """Receives requests, and sees to it that answers are sent."""

    def __init__(
        self,
        poller: BaseSelector,
        rules: Rules,
        most: int,
        config: Config,
        hand_over: Callable[[Connection, Exchange], None],
        cut: Callable[[str], None],
    ) -> None:
        """Begin without connections.

        There may be `most` connections. `hand_over` is given each request, and `answered` is to be called when it is
        answered; `cut` is told why a connection was ended without one.
        """
        self._poller = poller
        self._rules = rules
        self._most = most
        self._config = config
        self._hand_over = hand_over
        self._cut = cut
        self._connections: set[Connection] = set()
        self._memory = Memory(rules.max_body_bytes, IdleTrimmer().note)
        self._steps: dict[Phase, Callable[[Connection], None]] = {
            **dict.fromkeys(RECEIVING, self._receive),
            Phase.HANDSHAKE: self._shake_hands,
            Phase.OWED: self._send,
            Phase.LEAVING: self._see_out,
        }

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._connections)

    # -- what the worker tells -----------------------------------------------------------------------------------------

    def welcome(self, sock: socket.socket, client: object, server: object) -> None:
        """Take an accepted socket in: plain, or TLS before its handshake; addresses as sockets give them."""
        if len(self._connections) >= self._most and not self.make_room():
            self._cut("crowd")
            sock.close()
            return
        channel = Channel(sock)
        arrivals = Arrivals(self._config, client, self._rules.max_body_bytes)
        connection = Connection(channel, arrivals, Outlet(channel), client, server)
        self._connections.add(connection)
        if channel.tls:
            enter(connection, Phase.HANDSHAKE, self._rules.patience_seconds)
        else:
            self._rest(connection)
        self._watch(connection, EVENT_READ)

    def ready(self, connection: Connection, _: object = None) -> None:
        """Go on with a connection: the poller has seen what it waited for."""
        step = self._steps.get(connection.phase)
        if step is not None:  # else: gone, earlier in the same round
            self._safely(step, connection)

    def answered(self, connection: Connection, *, keep: bool) -> None:
        """Go on behind an answer; `keep` tells whether another request may follow."""
        connection.keep = keep
        if connection.phase is Phase.BUSY:  # else: gone, the worker stops
            self._safely(self._settle, connection)

    def expire(self, now: float) -> None:
        """End what has taken too long; `now` in seconds of the steady clock."""
        for connection in [each for each in self._connections if each.deadline <= now]:
            self._safely(self._end_late, connection)

    def _safely(self, step: Callable[[Connection], None], connection: Connection) -> None:
        """Do something that may cost this connection, and no other."""
        try:
            step(connection)
        except ssl.SSLError as error:
            _LOG.debug("TLS with %s: %s", connection.client, error)
            if connection.phase is Phase.HANDSHAKE:
                self._cut("handshake")
            # What went wrong is on its way to the client, and must not be overtaken by a reset.
            self._leave(connection)
        except OSError:
            self._drop(connection)
        except Exception:  # noqa: BLE001 - a bug of ours costs one connection
            _LOG.exception("bug: a connection is given up")
            self._drop(connection)

    def make_room(self) -> bool:
        """End the least valuable connections, a sixteenth of all; tell whether there were any."""
        ranked = (each for each in self._connections if each.phase is not Phase.BUSY)
        few = heapq.nsmallest(max(1, len(self._connections) // 16), ranked, key=worth)
        for connection in few:
            self._cut("crowd")
            self._drop(connection)
        return bool(few)

    def hurry(self, seconds: float) -> None:
        """Let connections end soon that have no request yet: no more are wanted."""
        end = time.monotonic() + seconds
        for connection in self._connections:
            if connection.phase in WITHOUT_REQUEST:
                connection.deadline = min(connection.deadline, end)

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections):
            self._drop(connection)

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _shake_hands(self, connection: Connection) -> None:
        if connection.channel.handshake():
            self._rest(connection)
            self._receive(connection)
        else:
            self._watch(connection, connection.channel.wants)

    def _receive(self, connection: Connection) -> None:
        """Take what has come, but not so much that others have to wait."""
        taken = 0
        while taken < _TURN_BYTES:
            data = connection.channel.read(connection.arrivals.missing)
            if data is None:
                self._watch(connection, connection.channel.wants)
                return
            if not data:
                self._end_of_input(connection)
                return
            taken += len(data)
            self._go_on(connection, connection.arrivals.feed(data))
            if connection.phase not in RECEIVING:
                return
        self._watch(connection, EVENT_READ)

    def _go_on(self, connection: Connection, arrival: Arrival | TransferError | None) -> None:
        """Act on what has arrived, or wait for more of it."""
        if isinstance(arrival, TransferError):
            self._refuse(connection, arrival)
        elif arrival is not None:
            self._take(connection, arrival)
        elif (body := connection.arrivals.body) is not None:
            self._await_body(connection, body)
        elif connection.phase is Phase.IDLE:
            enter(connection, Phase.HEAD, self._rules.patience_seconds)

    def _await_body(self, connection: Connection, body: Body) -> None:
        if connection.phase is not Phase.BODY:
            enter(connection, Phase.BODY, self._rules.patience_seconds)
            if connection.arrivals.asked_to_continue():
                connection.channel.write(_CONTINUE)
        put_off(connection, body.received, self._rules.patience_seconds)
        self._memory.weigh(connection, body.received)
        if self._memory.short(connection):
            self._go_on(connection, connection.arrivals.crowded_out())

    def _take(self, connection: Connection, arrival: Arrival) -> None:
        """Have the application answer."""
        if not isinstance(arrival.body, TransferError):
            self._memory.weigh(connection, arrival.body.received)
        connection.outlet = Outlet(connection.channel)
        enter(connection, Phase.BUSY, math.inf)
        self._watch(connection, 0)
        self._hand_over(connection, Exchange(arrival, connection.outlet, connection.client, connection.server))

    def _end_of_input(self, connection: Connection) -> None:
        connection.ended = True
        arrival = connection.arrivals.cut_off()
        if arrival is None:
            self._drop(connection)
        else:
            self._take(connection, arrival)

    # -- sending -------------------------------------------------------------------------------------------------------

    def _settle(self, connection: Connection) -> None:
        """See what of an answer has not been sent."""
        outlet = connection.outlet
        self._memory.weigh(connection, outlet.size)
        if not outlet.rest:
            self._conclude(connection)
        elif self._memory.short(connection):
            self._cut("crowd")
            self._drop(connection)
        else:
            enter(connection, Phase.OWED, self._rules.patience_seconds)
            connection.milestone = outlet.sent
            self._watch(connection, connection.channel.wants)

    def _send(self, connection: Connection) -> None:
        outlet = connection.outlet
        if outlet.push():
            self._conclude(connection)
            return
        put_off(connection, outlet.sent, self._rules.patience_seconds)
        self._watch(connection, connection.channel.wants)

    def _conclude(self, connection: Connection) -> None:
        """Have the next request, or none."""
        self._memory.weigh(connection, 0)
        if not connection.keep:
            self._leave(connection)
            return
        self._rest(connection)
        self._watch(connection, EVENT_READ)
        if connection.arrivals.begun:
            self._go_on(connection, connection.arrivals.feed())

    def _refuse(self, connection: Connection, error: TransferError) -> None:
        """Answer what is no request."""
        self._cut("head")
        _LOG.debug("%s: %s", connection.client, error)
        connection.channel.write(refusal(error))
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        if connection.ended:
            self._drop(connection)
            return
        enter(connection, Phase.LEAVING, _LEAVE_SECONDS)
        try:
            connection.channel.end()
        except OSError:
            self._drop(connection)
        else:
            self._watch(connection, EVENT_READ)

    def _see_out(self, connection: Connection) -> None:
        if connection.channel.read(_TURN_BYTES) == b"":
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if connection.phase is not Phase.GONE:
            self._watch(connection, 0)
            self._memory.weigh(connection, 0)
            connection.phase = Phase.GONE
            connection.channel.close()
            self._connections.discard(connection)

    # -- phases --------------------------------------------------------------------------------------------------------

    def _rest(self, connection: Connection) -> None:
        enter(connection, Phase.IDLE, self._rules.keep_alive_seconds)

    def _end_late(self, connection: Connection) -> None:
        if connection.phase in {Phase.HEAD, Phase.BODY}:
            self._go_on(connection, connection.arrivals.late())
            return
        if connection.phase in _CUT:
            self._cut(_CUT[connection.phase])
        self._drop(connection)

    def _watch(self, connection: Connection, events: int) -> None:
        """Have the poller wait for `events`, 0 for none."""
        if events == connection.watched:
            return
        sock = connection.channel.socket
        if events:
            put = self._poller.modify if connection.watched else self._poller.register
            put(sock, events, partial(self.ready, connection))
        else:
            self._poller.unregister(sock)
        connection.watched = events
