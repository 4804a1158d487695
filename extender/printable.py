r"""Text from outside, made fit for one line of a terminal, a log or a message. Pure.

A name may hold anything a file can say: an escape sequence that moves the cursor, a line break that forges a line,
half a surrogate pair that no stream takes. What is not printable is written as Python writes it: `\x1b`, `\ud800`.
"""

from __future__ import annotations

import reprlib
from typing import Final

_LONGEST: Final = 80


def printable(text: str) -> str:
    """Return the text with an escape for each character that is no letter, digit, sign or blank."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """Return the text as `printable` would, but with its line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def shown(value: object) -> str:
    """Return a value as a message quotes it: short, whatever it is and however deep."""
    return shortened(printable(_SHORT.repr(value)), 2 * _LONGEST)


def shortened(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, and how many more there were."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text) - longest} more characters)"


class _Short(reprlib.Repr):
    """`repr` of bounded length and depth."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _LONGEST
        self.maxlevel = 2

    def repr_int(self, x: int, level: int) -> str:
        """Return the number, or its size: Python refuses to write thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() <= 4 * _LONGEST else f"a number of {x.bit_length()} bits"


_SHORT: Final = _Short()
