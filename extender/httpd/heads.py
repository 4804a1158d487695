"""Heads: where one ends, what gunicorn makes of it, and the answer to what is none. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from gunicorn.config import Config
from gunicorn.http import errors
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from extender.errors import TransferError

HEAD_BYTES: Final = 2**16
"""The longest head. kube-scheduler's has about 200 bytes."""

_SHOWN: Final = 160
_STATUS: Final[Mapping[type[Exception], HTTPStatus]] = MappingProxyType(
    {
        errors.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
        errors.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        errors.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED,
        errors.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
    }
)


def head_end(data: bytearray, looked: int = 0) -> int | None:
    """Return where the head ends in what has come so far, None when more must come.

    `looked` bytes have been looked at before. What can become no head any more, such as a TLS handshake on a plain
    port, ends where it stands.

    Raises:
        TransferError: when it is too long.
    """
    end = data.find(b"\r\n\r\n", max(0, looked - 3))
    if (len(data) if end < 0 else end) > HEAD_BYTES:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise TransferError(f"the head is over {HEAD_BYTES} bytes", status)
    if end >= 0:
        return end + 4
    begins = data[:1].isupper() or data[:1] == b"\r"
    if not begins or data.count(b"\n", looked) != data.count(b"\r\n", max(0, looked - 1)):
        return len(data)
    return None


def read_head(data: bytes, config: Config, client: object, number: int) -> Request:
    """Return the request with that head, the connection's `number`-th; its body is still to come.

    Raises:
        TransferError: when gunicorn does not accept it.
    """
    try:
        return Request(config, IterUnreader((data,)), client, number)
    except (errors.ParseException, errors.NoMoreData, StopIteration) as error:
        status = _STATUS.get(type(error), HTTPStatus.BAD_REQUEST)
        raise TransferError(_one_line(error) or "the request is empty", status) from error


def refusal(error: TransferError) -> bytes:
    """Return the answer to what is no request: one line of text."""
    status = HTTPStatus(error.status)
    text = f"{status:d} {error}\n".encode()
    head = (
        f"HTTP/1.1 {status:d} {status.phrase}\r\nConnection: close\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def _one_line(error: Exception) -> str:
    text = "no HTTP request" if isinstance(error, errors.NoMoreData) else str(error)
    return " ".join(text.split())[:_SHOWN]
