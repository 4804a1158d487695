"""Bodies, of a stated length or in chunks (RFC 9112 section 7.1): bytes are fed in as they arrive. Pure."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, Protocol

from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.message import Request

from extender.errors import TransferError

_LINE_BYTES: Final = 256
_TRAILER_BYTES: Final = 4096
_SHOWN: Final = 160
# Pieces below this are put together as they come: a client that sends byte by byte must not cost an object a byte.
_PIECE_BYTES: Final = 2**14
# chunk-size [ chunk-ext ]; extensions are skipped. 15 digits are more than any limit.
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")


class Body(Protocol):
    """A body on its way."""

    @property
    def received(self) -> int:
        """Return the bytes that have come and are kept."""
        ...

    @property
    def whole(self) -> bool:
        """Tell whether all has come."""
        ...

    @property
    def missing(self) -> int:
        """Return how many bytes may still be read without reading past the end; 0 when nobody knows."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take what has come, return what lies behind the end.

        Raises:
            TransferError: when it cannot be a body.
        """
        ...

    def value(self) -> bytes:
        """Return what has come."""
        ...

    def state(self) -> str:
        """Say how much has come, in words."""
        ...


def body_of(request: Request) -> Body:
    """Return the body that a request announces."""
    reader = None if request.body is None else request.body.reader
    if isinstance(reader, ChunkedReader):
        return ChunkedBody()
    return SizedBody(reader.length if isinstance(reader, LengthReader) else 0)


class _Pieces:
    """Bytes that come in pieces, of any size, put together once."""

    def __init__(self) -> None:
        self.received = 0
        self._pieces: list[bytes | bytearray] = []
        self._tail = bytearray()

    def add(self, data: bytes | memoryview) -> None:
        self.received += len(data)
        if len(data) >= _PIECE_BYTES or not self._pieces:
            self._close_tail()
            self._pieces.append(bytes(data))
            return
        self._tail += data
        if len(self._tail) >= _PIECE_BYTES:
            self._close_tail()

    def joined(self) -> bytes:
        self._close_tail()
        return b"".join(self._pieces)

    def _close_tail(self) -> None:
        if self._tail:
            self._pieces.append(self._tail)
            self._tail = bytearray()


class SizedBody:
    """A body of a known length."""

    def __init__(self, length: int) -> None:
        """Expect `length` bytes."""
        self.length = length
        self._pieces = _Pieces()

    @property
    def received(self) -> int:
        """Return the bytes that have come."""
        return self._pieces.received

    @property
    def whole(self) -> bool:
        """Tell whether all has come."""
        return self._pieces.received >= self.length

    @property
    def missing(self) -> int:
        """Return how many bytes are still to come."""
        return self.length - self._pieces.received

    def feed(self, data: bytes) -> bytes:
        """Take what has come, return what lies behind the end."""
        missing = self.missing
        if len(data) <= missing:
            self._pieces.add(data)
            return b""
        if missing:
            self._pieces.add(data[:missing])
        return data[missing:]

    def value(self) -> bytes:
        """Return what has come."""
        return self._pieces.joined()

    def state(self) -> str:
        """Say how much has come, in words."""
        return f"{self.received} of {self.length} bytes"


class _Expect(Enum):
    """What a line within chunks must be."""

    SIZE = "the size of a chunk"
    END = "the line end behind a chunk"
    TRAILER = "a trailer, or the empty line behind the last one"


class ChunkedBody:
    """A body in chunks, decoded as it comes."""

    def __init__(self) -> None:
        self.whole = False
        self._content = bytearray()
        self._line = bytearray()
        self._left = 0  # content of the present chunk that is still to come
        self._expect = _Expect.SIZE
        self._trailer_bytes = 0

    @property
    def received(self) -> int:
        """Return the bytes that have come, without the framing."""
        return len(self._content)

    @property
    def missing(self) -> int:
        """Return 0: the length is not known."""
        return 0

    def feed(self, data: bytes) -> bytes:
        """Take what has come, return what lies behind the end.

        Raises:
            TransferError: when the chunks are malformed.
        """
        at = 0
        while at < len(data) and not self.whole:
            at = self._take_content(data, at) if self._left else self._take_line(data, at)
        return data[at:]

    def value(self) -> bytes:
        """Return what has come."""
        return bytes(self._content)

    def state(self) -> str:
        """Say how much has come, in words."""
        return f"{self.received} bytes, and not the last chunk"

    def _take_content(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self._left)
        self._content += memoryview(data)[at:end]
        self._left -= end - at
        return end

    def _take_line(self, data: bytes, at: int) -> int:
        """Take a line or a part of one; return where to go on."""
        stop = data.find(b"\n", at) + 1
        self._line += data[at : min(stop or len(data), at + _LINE_BYTES + 1)]
        if len(self._line) > _LINE_BYTES:
            raise self._malformed()
        if stop:
            if not self._line.endswith(b"\r\n"):
                raise self._malformed()
            self._end_line(bytes(self._line[:-2]))
            self._line.clear()
        return stop or len(data)

    def _end_line(self, line: bytes) -> None:
        if self._expect is _Expect.TRAILER:
            self._trailer_bytes += len(line)
            self.whole = not line
            if self._trailer_bytes > _TRAILER_BYTES:
                raise self._malformed()
        elif self._expect is _Expect.END:
            if line:
                raise self._malformed()
            self._expect = _Expect.SIZE
        else:
            match = _CHUNK_LINE.fullmatch(line)
            if match is None:
                raise self._malformed()
            self._left = int(match[1], 16)
            self._expect = _Expect.END if self._left else _Expect.TRAILER

    def _malformed(self) -> TransferError:
        shown = bytes(self._line[:_SHOWN]).decode("latin-1")
        return TransferError(f"the body's chunks are malformed: {shown!r} is not {self._expect.value}")
