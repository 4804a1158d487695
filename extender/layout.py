"""Where lines break: hanging indents, and lines instead of a table where the terminal is too narrow for its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def hanging(head: str, text: str | Text, style: str = "") -> Table:
    """Return a text behind a head; where it is broken, it goes on below its own first letter."""
    lines = Table.grid(padding=0)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row(Text(head, style=style), Text(text, style=style) if isinstance(text, str) else text)
    return lines


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and what is said of it: on one line if there is room, else what is said below the name, indented."""

    name: Text
    text: Text

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield it as the width allows."""
        line = Text("  ").join([self.name, self.text])
        if line.cell_len <= options.max_width:
            yield line
        else:
            yield self.name
            yield hanging("  ", self.text)


@dataclass(frozen=True, slots=True)
class IfItFits:
    """A table where the width has room for its longest words side by side, else something narrower."""

    table: Table
    narrower: Callable[[], RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one of the two."""
        least = Measurement.get(console, options.update(width=10_000), self.table).minimum
        yield self.table if least <= options.max_width else self.narrower()
