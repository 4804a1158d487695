"""What a word that nobody knows was probably meant to be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

_LONGEST: Final = 64


def closest(word: str, known: Collection[str], alike: float = 0.6) -> str | None:
    """Return the known word most like this one, upper and lower case being the same; None when none is alike.

    `alike` is from 0 to 1, the share of letters in common (`difflib.SequenceMatcher.ratio`).
    """
    folded = {name.lower(): name for name in known} if len(word) <= _LONGEST else {}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=alike)
    return folded[close[0]] if close else None


def nearest(word: str, known: Collection[str]) -> str:
    """Return `; did you mean X?` for the known word most like this one, or nothing when none is alike."""
    found = closest(word, known)
    return f"; did you mean {found}?" if found else ""
