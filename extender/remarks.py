"""Warnings by sort: when thousands say the same of other objects, a few stand for all. Pure.

The reports for machines keep every line; this is for people and logs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 5
_MOST: Final = 200
_LONGEST: Final = 600
# The object (`node NAME: `, `pod NS/NAME: `), what is quoted, names with a slash, and numbers.
_PARTICULARS: Final = re.compile(r"""^(?:node|pod) .*?: |'(?:[^'\\]|\\.)*'|"[^"]*"|\S*/\S*|\d+""")


def condensed(lines: Sequence[str]) -> list[str]:
    """Return the first lines of each sort, in their order; the last one says how many more there are.

    Of one sort are lines that differ in the objects they are about, in what they quote, and in numbers.
    """
    sorts = [_PARTICULARS.sub("", line[:_LONGEST]) for line in lines]
    counts: dict[str, int] = {}
    kept: list[str] = []
    last: dict[str, int] = {}
    for line, sort in zip(lines, sorts, strict=True):
        counts[sort] = counts.get(sort, 0) + 1
        if counts[sort] <= _SHOWN:
            last[sort] = len(kept)
            kept.append(line)
    for sort, at in last.items():
        if (more := counts[sort] - _SHOWN) > 0:
            kept[at] += f" (and {more:,} more like this)"
    return kept if len(kept) <= _MOST else [*kept[:_MOST], f"and {len(kept) - _MOST:,} more of other sorts"]
