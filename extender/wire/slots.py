"""Answers from pre-encoded pieces: one fixed-width slot per node, gathered by row number in one numpy call.

A slot is padded with blanks, which are white space to JSON, so any order and any subset of rows is a valid list. A
blank of a name itself is written as an escape: every blank between the brackets is padding. 5,000 scores take 0.1 ms,
where building and encoding dicts takes 3 (docs/background.md, "Cost").
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from extender.packing.framework import MAX_SCORE, Rows, Scores
from extender.packing.table import NodeTable

Slots = npt.NDArray[Any]
Piece = bytes | memoryview
"""A part of an answer, joined with the others at the very end."""

_HOST: Final = b',{"Host":'
_SCORE: Final = b',"Score":'
_DIGITS: Final = len(str(MAX_SCORE))
# Every slot is as wide as the longest name, so one absurd name would cost its length for each node. Names of Nodes are
# DNS subdomains, of 253 characters at most.
_WIDEST: Final = 256


def quoted(text: str) -> bytes:
    """Encode a string as JSON in ASCII; lone surrogates come back as they came."""
    return encode_basestring_ascii(text).encode()


class SlotTable:
    """The slots of one NodeTable. Immutable; `of` remembers it beside the table it is made from.

    Attributes:
        usable: whether there are slots; not when some name is too long for them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [_without_blanks(name) for name in names]
        width = max(map(len, encoded), default=2)
        self.usable = width <= _WIDEST
        if self.usable:
            self._lay_out(encoded, width)

    def _lay_out(self, encoded: list[bytes], width: int) -> None:
        self._padded = any(len(name) < width for name in encoded)
        self._names = _slots(b"," + name.ljust(width) for name in encoded)
        self._hosts = _slots(_HOST + name.ljust(width) + _SCORE for name in encoded)
        self._scores = _slots(b"%*d}" % (_DIGITS, score) for score in range(MAX_SCORE + 1))

    @classmethod
    def of(cls, table: NodeTable) -> SlotTable:
        """Return the slots of a table."""
        return table.remember("slots", None, lambda: cls(table.names))

    def names(self, rows: Rows) -> Piece:
        """Return `"a","b"`: the names of the rows, to stand between brackets."""
        return _without_comma(self._names.take(rows))

    def compact_list(self, rows: Rows) -> bytes:
        """Return `["a","b"]` without padding: as Go writes the list, but for blanks and other letters than ASCII."""
        listed = bytes(self.names(rows))
        return b"[%b]" % (listed.replace(b" ", b"") if self._padded else listed)

    def reasons(self, rows: Rows, reason: bytes) -> Piece:
        """Return `"a":reason,"b":reason`: entries of a map, to stand between braces; `reason` is encoded already."""
        suffix = b":" + reason
        entries = np.empty(len(rows), dtype=_two_parts(self._names.dtype.itemsize, len(suffix)))
        entries["first"] = self._names.take(rows)
        entries["second"] = np.void(suffix)
        return _without_comma(entries)

    def scores(self, rows: Rows, scores: Scores) -> Piece:
        """Return `{"Host":"a","Score":7},...`: entries of a list, to stand between brackets."""
        entries = np.empty(len(rows), dtype=_two_parts(self._hosts.dtype.itemsize, self._scores.dtype.itemsize))
        entries["first"] = self._hosts.take(rows)
        entries["second"] = self._scores.take(scores)
        return _without_comma(entries)


def _without_blanks(name: str) -> bytes:
    encoded = quoted(name)
    return encoded.replace(b" ", rb"\u0020") if b" " in encoded else encoded


@lru_cache(maxsize=256)  # making a dtype takes longer than copying 500 names
def _two_parts(first: int, second: int) -> np.dtype[np.void]:
    return np.dtype([("first", f"V{first}"), ("second", f"V{second}")])


def _without_comma(entries: Slots) -> Piece:
    """Return the bytes of entries that each begin with a comma, but for the first comma; nothing is copied."""
    return entries.view(np.uint8).data[1:]


def _slots(pieces: Iterable[bytes]) -> Slots:
    """Lay equally long pieces out as one array of opaque items."""
    listed = list(pieces)
    width = len(listed[0]) if listed else 1
    return np.frombuffer(b"".join(listed), dtype=f"V{width}")
