"""Tables of docs/benchmarks.md: Markdown, a row a line, and what stands in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; each row has a cell, "" for none, for each title of the head."""
    return "\n".join([_line(head), "|---" * len(head) + "|", *map(_line, rows)])


def spread(middle: float, least: float, most: float) -> str:
    """Return a figure, with the smallest and largest of those that it stands for."""
    return f"{middle:.2f} ({least:.2f} .. {most:.2f})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
