"""The command line run in this process: what it prints, and its exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from unittest import mock

from extender.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def errors(self) -> list[str]:
        """Return the lines that say what is wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def run(*arguments: object, stdin: bytes = b"", env: Mapping[str, str] | None = None, encoding: str = "utf-8") -> Done:
    """Run a command on streams of an encoding."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin), encoding=encoding),
        "stdout": io.TextIOWrapper(out, encoding=encoding),
        "stderr": io.TextIOWrapper(err, encoding=encoding, errors="backslashreplace", write_through=True),
    }
    with contextlib.ExitStack() as stack:
        for name, stream in streams.items():
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(mock.patch.object(sys, "argv", ["gpu-extender", *map(str, arguments)]))
        stack.enter_context(mock.patch.dict(os.environ, env or {}))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        streams["stdout"].flush()
    return Done(code, out.getvalue(), err.getvalue().decode(encoding))
