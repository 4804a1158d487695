"""Warnings by sort and by object: when thousands say the same, or speak of something else, a few stand for all. Pure.

By sort they are only for people and logs: reports for machines keep every line.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

_SHOWN: Final = 5
_MOST: Final = 200
_LONGEST: Final = 600
# The object (`node NAME: `, `pod NS/NAME: `), what is quoted, names with a slash, and numbers.
_PARTICULARS: Final = re.compile(r"""^(?:node|pod) .*?: |'(?:[^'\\]|\\.)*'|"[^"]*"|\S*/\S*|\d+""")

NO_SUCH_FIELD: Final = "there is no such field"
"""What is said of a misspelt field: its object may be another than it seems, so that matters to every question."""

_KINDS: Final = ("node ", "pod ", "poddisruptionbudget ")


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


def concerning(lines: Iterable[str], objects: Container[str], all_of_them: str) -> list[str]:
    """Return the warnings about these objects or about none, and in one line how many there are about others.

    Misspelt fields are never among those others: without them the object might have been one of these.

    Args:
        lines: warnings as a dump has them; what they are about stands before the first colon.
        objects: such as `node a`, `pod ml/p`.
        all_of_them: the command that shows the others.
    """
    kept: list[str] = []
    others = 0
    for line in lines:
        subject = line.partition(": ")[0]
        if subject.startswith(_KINDS) and subject not in objects and NO_SUCH_FIELD not in line:
            others += 1
        else:
            kept.append(line)
    if others:
        warnings = "1 warning" if others == 1 else f"{others:,} warnings"
        kept.append(f"{warnings} about other nodes and pods; `{all_of_them}` shows all")
    return kept
