"""What one client sends, cut into requests. Bytes in, requests out; pure."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from gunicorn.config import Config
from gunicorn.http.message import Request

from extender.errors import TransferError
from extender.httpd.bodies import Body, body_of
from extender.httpd.heads import head_end, read_head


class LostBody:
    """The `wsgi.input` of a body that has not come whole: reading it says why."""

    def __init__(self, error: TransferError) -> None:
        """Say on each reading what `error` says."""
        self._text, self._status = str(error), error.status

    def read(self, _size: int = -1, /) -> NoReturn:
        """Say why not.

        Raises:
            TransferError: always.
        """
        raise TransferError(self._text, self._status)

    readline = read

    def __iter__(self) -> Iterator[bytes]:
        """Say why not, likewise."""
        self.read()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request whose body has come, or why it will not come."""

    request: Request
    body: Body | TransferError

    def opened(self) -> Request:
        """Return the request with its body as the application reads it."""
        body = self.body
        self.request.body = LostBody(body) if isinstance(body, TransferError) else io.BytesIO(body.value())
        return self.request


class Arrivals:
    """The requests of one client, one after the other.

    What is on its way ends as an Arrival, or as the reason why it is no request.

    Attributes:
        count: how many heads have come.
    """

    def __init__(self, config: Config, client: object, max_body_bytes: int) -> None:
        """Read heads as gunicorn's `config` says; `client` is the address, for it."""
        self._config = config
        self._client = client
        self._max_body_bytes = max_body_bytes
        self._ahead = bytearray()
        self._looked = 0
        self._present: tuple[Request, Body] | None = None
        self.count = 0

    @property
    def begun(self) -> bool:
        """Tell whether a part of a request has come."""
        return bool(self._ahead) or self._present is not None

    @property
    def missing(self) -> int:
        """Return how many bytes the present body lacks; 0 when that is not known."""
        return 0 if self._present is None else self._present[1].missing

    @property
    def body(self) -> Body | None:
        """Return the body that is on its way, None before its head is there."""
        return None if self._present is None else self._present[1]

    def feed(self, data: bytes = b"") -> Arrival | TransferError | None:
        """Take what has come; return what has ended by that, None when more must come."""
        if self._present is not None:
            return self._feed(*self._present, data)
        self._ahead += data
        try:
            return self._look()
        except TransferError as error:
            return error

    def asked_to_continue(self) -> bool:
        """Tell, once, whether the client waits for a word before it sends the body (RFC 9110 section 10.1.1)."""
        if self._present is None:
            return False
        request = self._present[0]
        asked: bool = request._expected_100_continue  # noqa: SLF001 - there is no other way to know
        request._expected_100_continue = False  # noqa: SLF001 - or gunicorn would say it, too late
        return asked

    def late(self) -> Arrival | TransferError:
        """Return what has begun to come, of which no more is waited for."""
        if self._present is None:
            return TransferError("the head did not come in time", HTTPStatus.REQUEST_TIMEOUT)
        request, body = self._present
        return self._lost(request, f"the body did not come in time, only {body.state()}", HTTPStatus.REQUEST_TIMEOUT)

    def cut_off(self) -> Arrival | None:
        """Return the request whose body will not go on, None when there is none."""
        if self._present is None:
            return None
        request, body = self._present
        return self._lost(request, f"the body ended after {body.state()}", HTTPStatus.BAD_REQUEST)

    def crowded_out(self) -> Arrival | None:
        """Return the request whose body there is no room for, None when there is none."""
        if self._present is None:
            return None
        text = "too many large bodies are on their way"
        return self._lost(self._present[0], text, HTTPStatus.SERVICE_UNAVAILABLE)

    def _look(self) -> Arrival | None:
        """Look for the end of a head."""
        if not self._ahead:
            return None
        end = head_end(self._ahead, self._looked)
        if end is None:
            self._looked = len(self._ahead)
            return None
        head, rest = bytes(self._ahead[:end]), bytes(self._ahead[end:])
        self._ahead.clear()
        self._looked = 0
        self.count += 1
        request = read_head(head, self._config, self._client, self.count)
        self._present = request, body_of(request)
        return self._feed(*self._present, rest)

    def _feed(self, request: Request, body: Body, data: bytes) -> Arrival | None:
        try:
            if body.missing <= self._max_body_bytes:
                self._ahead += body.feed(data)
        except TransferError as error:
            return self._over(request, error)
        if body.missing > self._max_body_bytes or body.received > self._max_body_bytes:
            text = f"the body is over {self._max_body_bytes} bytes (server.max_body_bytes)"
            return self._lost(request, text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return self._over(request, body) if body.whole else None

    def _lost(self, request: Request, text: str, status: HTTPStatus) -> Arrival:
        return self._over(request, TransferError(text, status))

    def _over(self, request: Request, body: Body | TransferError) -> Arrival:
        self.asked_to_continue()
        self._present = None
        if isinstance(body, TransferError):
            # Where the next request begins is not known.
            request.force_close()
        return Arrival(request, body)
