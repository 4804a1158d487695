"""Runs the `console` blocks of a Markdown page and compares what is printed with what the page shows.

    ```console
    $ command                     run by sh in a folder that has `docs` and `policy` of the repository
    what it prints                compared word by word: how lines are broken does not matter
    ...                           stands for anything, also inside a line
    ~1390                         a number near it: what depends on how two processes keep pace
    ```

`serve` runs on until the page ends; where the page says `localhost:8888`, its real port is asked. When only numbers
have changed (a policy was improved, say), have them written anew and read the difference:

    python -m tests.consolepage README.md
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PORT: Final = "8888"
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LISTENING: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_LAST_LINE: Final = "metrics: "  # of what `serve` says when it starts
_SECONDS: Final = 60


@dataclass(frozen=True)
class Step:
    """One command of a page, and what the page shows below it."""

    command: str
    shown: str


def steps_of(page: Path) -> list[Step]:
    """Return the steps of all blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [step for block in _BLOCK.findall(text) for step in _steps(block)]


def _steps(block: str) -> Iterator[Step]:
    assert block.startswith("$ "), f"a console block begins with a command: {block[:60]!r}"
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield Step(command, shown)


def differs(shown: str, printed: str) -> bool:
    """Tell whether the words printed are not those shown; `...` stands for any text, `~` before a number for about."""
    pieces = [r"\s+".join(map(_pattern, piece.split())) for piece in re.split(r"\.\.\.", shown)]
    found = re.fullmatch(r"\s*" + r".*?".join(f"{piece}\\s*" for piece in pieces), printed, re.DOTALL)
    if found is None:
        return True
    numbers = zip(map(int, _ABOUT.findall(shown)), map(int, found.groups()), strict=True)
    return any(abs(about - number) > max(_NEAR, _NEAR_SHARE * about) for about, number in numbers)


def _pattern(word: str) -> str:
    return r"(\d+)" if _ABOUT.fullmatch(word) else re.escape(word)


_ABOUT: Final = re.compile(r"(?<!\S)~(\d+)(?!\S)")
# On a machine that is busy with other tests, plans come later.
_NEAR: Final = 40
_NEAR_SHARE: Final = 0.03
_PARTS: Final = re.compile(r"(?P<about>~\d+)|(?P<any>\.\.\.)|(?P<number>\d+)|(?P<blank>\s+)|(?P<text>[^\d\s.~]+|[.~])")


def renewed(shown: str, printed: str) -> str:
    """Return what a page shows with the numbers of what is printed.

    Raises:
        AssertionError: when more than numbers differs.
    """
    parts = [(str(part.lastgroup), part[0]) for part in _PARTS.finditer(shown)]
    patterns = {"about": r"(\d+)", "any": ".*?", "number": r"(\d+)", "blank": r"\s+"}
    pattern = "".join(patterns.get(kind, re.escape(text)) for kind, text in parts)
    found = re.fullmatch(rf"\s*{pattern}\s*", printed, re.DOTALL)
    assert found is not None, f"more than numbers differs\n--- shown\n{shown}\n--- printed\n{printed}"
    numbers = iter(found.groups())
    new: list[str] = []
    for kind, text in parts:
        if kind not in {"about", "number"}:
            new.append(text)
            continue
        number = ("~" if kind == "about" else "") + next(numbers)
        if new and new[-1].endswith("  "):
            # In a column: the last digits stay below one another.
            blanks = max(1, len(new[-1]) + len(text) - len(number))
            new[-1:] = [new[-1][:1] + " " * (blanks - 1), number]
        else:
            new.append(number)
    return "".join(new)


MAKE: Final = {"make demo": "gpu-extender demo"}
"""What the targets of the Makefile run, once the virtual environment is there."""


@dataclass
class Terminal:
    """Where the commands of one page run."""

    folder: Path
    env: Mapping[str, str]
    port: str = PORT
    services: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, command: str) -> str:
        """Run a command and return what it prints.

        Raises:
            AssertionError: when it fails.
        """
        command = MAKE.get(command, command).replace(f"localhost:{PORT}", f"127.0.0.1:{self.port}")
        return self._serve(command) if command.startswith("gpu-extender serve") else self._run(command)

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {command}\nended with {done.returncode}\n{done.stdout}"
        return done.stdout

    def _serve(self, command: str) -> str:
        words = [*shlex.split(command), "--listen", "127.0.0.1:0"]
        service = subprocess.Popen(
            words, cwd=self.folder, env=self.env, executable=shutil.which(words[0], path=self.env["PATH"]),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.services.append(service)
        said = ""
        for line in service.stdout or ():
            said += line
            if line.startswith(_LAST_LINE) and (found := _LISTENING.search(said)):
                self.port = found[1]
                return said.replace(f":{self.port}", f":{PORT}")
        raise AssertionError(f"$ {command}\nended before it listened")


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    """Open a terminal in an empty folder; what it started is ended with it."""
    for name in ("docs", "policy"):
        (folder / name).symlink_to(ROOT / name)
    programs = folder / ".bin"
    programs.mkdir()
    for name, words in (("gpu-extender", "-m extender"), ("python3", "")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPU_EXTENDER_")}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    opened = Terminal(folder, kept | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"})
    try:
        yield opened
    finally:
        for service in opened.services:
            with service:
                service.terminate()


def check_page(page: Path, folder: Path) -> None:
    """Run all commands of a page in order.

    Raises:
        AssertionError: when one fails, or prints what the page does not show.
    """
    steps = steps_of(page)
    if shutil.which("curl") is None and any("curl " in step.command for step in steps):
        pytest.skip("allowed: curl is not installed")
    with terminal(folder) as opened:
        for step in steps:
            printed = opened.run(step.command)
            assert not differs(step.shown, printed), (
                f"{page.name} is out of date; see the head of tests/consolepage.py\n"
                f"$ {step.command}\n--- shown\n{step.shown}\n--- printed\n{printed}"
            )


def renew_page(page: Path) -> None:
    """Write the numbers of a page anew."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, terminal(Path(folder)) as opened:
        for step in steps_of(page):
            shown = renewed(step.shown, opened.run(step.command))
            text = text.replace(f"$ {step.command}\n{step.shown}", f"$ {step.command}\n{shown}")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        renew_page(Path(argument))
