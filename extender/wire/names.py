"""NodeNames as it came, read no further than is needed: rows of known nodes are found without making strings.

Looking 5,000 fresh strings up in a dict takes 0.8 ms, half of a filter call. Here the names are cut out of the body as
fixed-width words, hashed and compared to the table's names by numpy in 0.35 ms:

    ["gpu-7","gpu-12"]  ->  positions of the quotes  ->  W bytes that end at each closing quote, the rest of them zeroed
                        ->  64-bit hash  ->  row of that hash  ->  are all words those of the row's name?

Every byte of the list is accounted for: quotes, commas, and names that are equal to known ones. Anything else (an
unknown node, an escape, white space) makes the look-up give up, and msgspec and a dict do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.errors import RequestError
from extender.packing.framework import Rows
from extender.packing.table import NodeTable

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.intp]

UNKNOWN_ROW: Final = -1
_QUOTE, _COMMA, _OPEN, _CLOSE = b'",[]'
_EMPTY: Final = len(b"[]")
_WORD: Final = 8
_LONGEST: Final = 256
# Slots per name, and how many names may share one: beyond, the hash is not fit for these names.
_SPARSENESS: Final = 4
_DEEPEST: Final = 8
_SEED: Final = 0x9E3779B97F4A7C15
# What a look-up may copy: 130,000 names of the longest sort.
_MOST_BYTES: Final = 2**25
# Twenty times the largest cluster anybody has shown; a name costs us a hundred bytes and more, however short it is.
MOST_NAMES: Final = 10**6


class NameList:
    """A JSON list of names inside a body.

    Attributes:
        names: as strings, by `read`.
        json: the bytes of the list.
    """

    def __init__(self, body: bytes, start: int, end: int, read: Callable[[], list[str]]) -> None:
        """Take `body[start:end]`; `read` returns the names as strings, or raises RequestError.

        Raises:
            RequestError: when there are more than MOST_NAMES.
        """
        # A name has two quotes at least: most lists are too short to be counted.
        if end - start > 2 * MOST_NAMES and body.count(b'"', start, end) > 2 * MOST_NAMES:
            raise RequestError(f"NodeNames: more than {MOST_NAMES} names")
        self._body = body
        self._start = start
        self._end = end
        self._read = read

    @cached_property
    def names(self) -> list[str]:
        """Return the names.

        Raises:
            RequestError: when they are no list of strings.
        """
        return self._read()

    @cached_property
    def json(self) -> bytes:
        """Return the list as it came."""
        return self._body[self._start : self._end]

    def rows(self, table: NodeTable) -> Rows:
        """Return the row of every name, UNKNOWN_ROW for what the table does not hold.

        Raises:
            RequestError: when they are no list of strings.
        """
        index = table.remember("name index", None, lambda: NameIndex(table.names))
        rows = index.find(self._body, self._start, self._end)
        return locate(table, self.names) if rows is None else rows


def locate(table: NodeTable, names: Sequence[str]) -> Rows:
    """Return the row of every name, UNKNOWN_ROW for what the table does not hold."""
    try:
        return np.fromiter(map(table.index.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        rows = (table.index.get(name, UNKNOWN_ROW) for name in names)
        return np.fromiter(rows, dtype=np.intp, count=len(names))


class NameIndex:
    """Finds the rows of names in JSON. Immutable once made; for plain ASCII names only, as those of nodes are."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [name.encode("ascii", "replace") for name in names]
        longest = max(map(len, encoded), default=0)
        self._width = -(-longest // _WORD) * _WORD
        self._usable = 0 < longest <= _LONGEST and all(_plain(name) for name in names)
        if self._usable:
            self._lengths = np.array([len(name) for name in encoded], dtype=np.intp)
            self._words = np.frombuffer(b"".join(n.rjust(self._width, b"\0") for n in encoded), dtype=f"V{self._width}")
            self._masks = _masks(self._width)
            self._lay_out()

    def _lay_out(self) -> None:
        """Make the table of slots: row k of it holds the k-th name of each slot, row 0 of the nodes where none is.

        Names of which too many share a slot make it useless; then there is none.
        """
        columns = self._width // _WORD
        self._factors = np.random.default_rng(_SEED).integers(1, 2**63, columns, dtype=np.uint64) * 2 + 1
        bits = max(1, (_SPARSENESS * len(self._words) - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._hashes = self._hash(self._words.view(np.uint64).reshape(-1, columns))
        slots = self._slots(self._hashes)
        counts = np.bincount(slots, minlength=1 << bits)
        depth = int(counts.max())
        self._usable = depth <= _DEEPEST
        if self._usable:
            order = np.argsort(slots, kind="stable")
            before = np.cumsum(counts) - counts
            self._rows = np.zeros((depth, 1 << bits), dtype=np.intp)
            self._rows[np.arange(len(order)) - before[slots[order]], slots[order]] = order

    def _hash(self, words: Words) -> Words:
        mixed: Words = words @ self._factors
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(_SEED)
        return mixed

    def _slots(self, hashes: Words) -> Positions:
        slots: Positions = (hashes >> self._shift).astype(np.intp)
        return slots

    def find(self, body: bytes, start: int, end: int) -> Rows | None:
        """Return the row of every name of the JSON list `body[start:end]`; None when any of it is not plain."""
        if not self._usable:
            return None
        cut = _cut(np.frombuffer(body, dtype=np.uint8, count=end - start, offset=start))
        if cut is None:
            return None
        opens, closes = cut
        lengths = closes - opens - 1
        if not len(opens):
            return np.zeros(0, dtype=np.intp)
        if lengths.max() > self._width or start + int(closes[0]) < self._width:
            return None
        if len(opens) * self._width > _MOST_BYTES:
            return None
        windows = np.ndarray((len(body) - self._width + 1,), dtype=f"V{self._width}", buffer=body, strides=(1,))
        words = windows[closes + (start - self._width)].view(np.uint64).reshape(len(opens), -1)
        words &= self._masks.take(lengths).view(np.uint64).reshape(words.shape)
        rows = self._look_up(words)
        known = self._words.take(rows).view(np.uint64).reshape(words.shape)
        return rows if bool((known == words).all() and (self._lengths.take(rows) == lengths).all()) else None

    def _look_up(self, words: Words) -> Rows:
        """Return the row of the same hash; any row where there is none."""
        hashes = self._hash(words)
        slots = self._slots(hashes)
        rows: Rows = self._rows[0].take(slots)
        wrong = np.flatnonzero(self._hashes.take(rows) != hashes)
        for deeper in self._rows[1:]:
            if not len(wrong):
                break
            rows[wrong] = deeper.take(slots[wrong])
            wrong = wrong[self._hashes.take(rows[wrong]) != hashes[wrong]]
        return rows


def _plain(name: str) -> bool:
    return bool(name) and name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def _masks(width: int) -> npt.NDArray[np.void]:
    """Return for each length the bytes that keep as many at the end of a window, and zero the others."""
    return np.frombuffer(b"".join((b"\xff" * n).rjust(width, b"\0") for n in range(width + 1)), dtype=f"V{width}")


def _cut(text: npt.NDArray[np.uint8]) -> tuple[Positions, Positions] | None:
    """Return the positions of opening and closing quotes of `["a","b"]`; None when it is not exactly of that form."""
    if len(text) < _EMPTY or text[0] != _OPEN or text[-1] != _CLOSE:
        return None
    quotes = np.flatnonzero(text == _QUOTE)
    opens, closes = quotes[0::2], quotes[1::2]
    if not len(opens) and len(text) == _EMPTY:
        return opens, closes
    if len(opens) != len(closes) or not len(opens) or opens[0] != 1 or closes[-1] != len(text) - 2:
        return None
    commas = closes[:-1] + 1
    if (opens[1:] - commas != 1).any() or (text.take(commas) != _COMMA).any():
        return None
    return opens, closes
