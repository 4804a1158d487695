"""Standard output and standard error of the commands, whatever is written and whoever reads.

Nothing that a file says reaches a terminal but as plain text (`extender.printable`), rich's markup included. A reader
that has seen enough (`head`) ends the writing and nothing else: the exit code is the answer's. Trouble with standard
error is nobody's business: there is no place left to tell of it.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import click
from rich.console import Console, RenderableType

from extender.errors import OutputError
from extender.layout import hanging
from extender.printable import printable, shortened
from extender.remarks import condensed

PIPE_COLUMNS: Final = 220
_LONGEST_LINE: Final = 4000
# Narrower, as COLUMNS may say, nothing can be read; of no width at all nothing would be printed.
_NARROWEST: Final = 20
_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e\n]+")


def prepare() -> None:
    """Let every character through to the streams: as an escape, where the encoding has none."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


# ---------------------------------------------------------------- standard error


def complain(error: object) -> None:
    """Say in one line what ended the command."""
    _say("error", str(error), "red")


def note(line: str) -> None:
    """Say a remark."""
    _say("note", line, "cyan")


def warn(warnings: Sequence[str]) -> None:
    """Say warnings, those of one sort in a few lines."""
    for line in condensed(warnings):
        _say("warning", line, "yellow")


def _say(kind: str, line: str, colour: str) -> None:
    text = shortened(printable(line), _LONGEST_LINE)
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            _Plain(file=sys.stderr).print(hanging(f"{kind}: ", text, colour))
        else:  # one line for who searches a log
            click.echo(f"{kind}: {text}", err=True)


def complain_of_usage(error: click.ClickException) -> None:
    """Say what is wrong with the command line itself, as click does."""
    lines = [f"Error: {printable(error.format_message())}"]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        lines = [context.get_usage(), f"Try '{context.command_path} -h' for help.", "", *lines]
    with contextlib.suppress(OSError, ValueError):
        click.echo("\n".join(lines), err=True)


# ---------------------------------------------------------------- standard output


def write(text: str) -> None:
    """Write to standard output at once.

    Raises:
        OutputError: when it cannot be written, unless it is because nobody reads any more.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        silence()
        raise OutputError(f"standard output: {error.strerror or error}") from error


def silence() -> None:
    """Let the rest go nowhere: Python would complain once more when it closes the stream."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def until_nobody_reads() -> Iterator[None]:
    """End the command quietly when its reader leaves in the middle of it."""
    try:
        yield
    except BrokenPipeError:
        silence()
        raise SystemExit(0) from None


def print_json(value: object) -> None:
    """Print JSON for machines, which people can read as well; what is not printable is an escape of JSON."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = json.dumps(value, indent=1, ensure_ascii=codecs.lookup(encoding).name != "utf-8")
    write(f"{_NOT_PLAIN.sub(_escaped, text)}\n")


def _escaped(run: re.Match[str]) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in run[0])


class _Plain(Console):
    """A console that takes text for text: no markup, no emoji, no colours of its own."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - rich's
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if self.width < _NARROWEST:  # noqa: PLR1730 - a width that is set no longer follows the terminal
            self.width = _NARROWEST

    def on_broken_pipe(self) -> None:
        """Leave it to `until_nobody_reads`; rich would end the program with 1."""
        raise BrokenPipeError


def console() -> Console:
    """Return a console on standard output, for what moves while it is shown."""
    return _Plain()


def columns() -> int:
    """Return how wide a page may be: the terminal, or for a pipe so wide that cells are not broken, or COLUMNS."""
    return _Plain().width if _on_terminal() or "COLUMNS" in os.environ else PIPE_COLUMNS


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def show(page: RenderableType) -> None:
    """Print to the terminal or a pipe."""
    to_terminal, paper = _on_terminal(), io.StringIO()
    _Plain(file=paper, force_terminal=to_terminal, width=columns()).print(page, crop=False)
    text = paper.getvalue()
    write(text if to_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def finish(
    report: Mapping[str, Any], output: str, rendered: Callable[[Any], RenderableType], *, ok: bool = True
) -> NoReturn:
    """Print a report and end with 0 or 1."""
    if output == "json":
        print_json(report)
    else:
        show(rendered(plain(report)))
    raise SystemExit(0 if ok else 1)


def plain(value: Any) -> Any:  # noqa: ANN401 - any part of a report
    """Return a report in which every text is printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
