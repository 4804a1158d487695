"""Programs that live as long as a test: output into a file, waited for with a deadline, killed at the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

LOOPBACK: Final = "127.0.0.1"
_TAIL_LINES: Final = 25
_POLL_SECONDS: Final = 0.05

# In /proc/<pid>/stat, counted from behind the name; the system's ticks follow.
_USER_TICKS: Final = 11
_KIB: Final = 1024

T = TypeVar("T")


class ProcessError(AssertionError):
    """A program has ended by itself, or is not ready in time; the text ends with the last lines of its log."""


def wait_for(condition: Callable[[], T], what: str, seconds: float = 30.0, poll_seconds: float = _POLL_SECONDS) -> T:
    """Ask until the answer is true and return it; fail when the time is over, with the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {answer!r}")
        time.sleep(poll_seconds)
    return answer


class Process:
    """One running program."""

    def __init__(
        self, name: str, command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start it; output goes to `<name>.log` in the folder."""
        self.name = name
        self.log = folder / f"{name}.log"
        environment = {**os.environ, **(env or {})}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_dies_with_us(), *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time that it and its children have used so far (Linux)."""
        return sum(map(cpu_seconds, family(self.pid)))

    def memory_bytes(self, line: str = "VmRSS") -> list[int]:
        """Return what /proc says of it and each of its children: resident now, or at most ever (`VmHWM`) (Linux)."""
        pages = (Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in family(self.pid))
        return [int(page.partition(f"{line}:")[2].split()[0]) * _KIB for page in pages]

    def wait_ready(self, ready: Callable[[], T], seconds: float = 60.0) -> T:
        """Ask until the program is ready and return the answer.

        Raises:
            ProcessError: when it ends before, or the time is over.
        """

        def asked() -> T:
            code = self._process.poll()
            if code is not None:
                raise ProcessError(f"{self.name} has ended with {code}:\n{self.tail()}")
            return ready()

        try:
            return wait_for(asked, f"{self.name} is ready", seconds)
        except ProcessError:
            raise
        except AssertionError as error:
            raise ProcessError(f"{error}\n{self.tail()}") from error

    def wait_end(self, seconds: float = 30.0) -> int:
        """Wait until it ends by itself and return the exit code."""
        return self._process.wait(seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGTERM to end, SIGSTOP and SIGCONT to hang for a while."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once: an API server with open watches takes half a minute to end politely."""
        self._process.kill()
        self._process.wait()

    def text(self) -> str:
        """Return all it has written."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines it has written, and where the rest is."""
        return "\n".join([*self.text().splitlines()[-lines:], f"({self.log})"])


def family(pid: int) -> list[int]:
    """Return a process and all that descend from it (Linux)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(found for child in children for found in family(int(child)))]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that one process has used so far, its children left out (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[_USER_TICKS]) + int(fields[_USER_TICKS + 1])) / os.sysconf("SC_CLK_TCK")


def _dies_with_us() -> list[str]:
    """Return the prefix of a command that ends when this process is gone, however that came about."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


class Ports:
    """Free ports on loopback that nobody else is given, until closed.

    A bound socket that does not listen keeps the kernel from handing out its port, and a server that sets
    SO_REUSEADDR, as Go's do, may listen there all the same.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self) -> int:
        """Return another free port."""
        held = socket.socket()
        self._sockets.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        port: int = held.getsockname()[1]
        return port

    def close(self) -> None:
        """Give all ports back."""
        while self._sockets:
            self._sockets.pop().close()
