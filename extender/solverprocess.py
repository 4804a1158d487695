"""A long-lived child process that solves: niced, with a hard deadline, killed and started again on trouble.

CP-SAT lets go of the interpreter lock while it solves, but building a model does not, and its library costs 90 MB and a
third of a second to import (docs/background.md, "Cost"): beside the requests it would be felt, in a process of its own
it is not. Jobs and results are pickled through a socket pair that nobody else can open.

    solve(job) --pickle--> [child: entry(job)] --pickle--> result        a timer kills the child at the deadline

The deadline counts from when the child is ready: how long its imports take says nothing about a job.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")

_LOG: Final = logging.getLogger(__name__)
_NICENESS: Final = 10
_END_SECONDS: Final = 2.0
_CLOSED: Final = "closed"
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_CHILD: Final = f"import sys; from {__name__} import main; main(*sys.argv[1:])"  # not -m: pickle needs our real name
# One core, as told to the solver; the libraries under numpy have pools of their own.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class SolverError(Exception):
    """The child gave no result: late, dead, or it said why. `str()` is one line."""


class DeadlineError(SolverError):
    """The job took longer than it may, and so would the same job again."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What the child sends instead of a result."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]


class SolverProcess(Generic[J, R]):
    """Runs `entry` ("module:function" of one argument) in a child process; for one calling thread.

    The child is started by `start` or the first job, ends with `close` or with this process, and takes no signal from a
    terminal.
    """

    def __init__(self, entry: str, *, start_seconds: float) -> None:
        """Prepare; nothing is started yet. A child that is not ready after `start_seconds` is given up."""
        self._entry = entry
        self._start_seconds = start_seconds
        self._child: _Child | None = None
        self._closed = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Return the process ID of the child, None while there is none."""
        return None if self._child is None else self._child.process.pid

    def start(self) -> None:
        """Start the child unless there is one.

        Raises:
            SolverError: when it is not ready in time.
        """
        self._running()

    def solve(self, job: J, deadline_seconds: float) -> R:
        """Return what the entry returns for a job; the deadline counts from when the child is ready.

        Raises:
            DeadlineError: when there is no result in time.
            SolverError: when the child is not ready in time, or has failed; it is started again by the next job unless
                it only said that this job cannot be done.
        """
        child = self._running()
        late = threading.Event()

        def end() -> None:
            late.set()
            child.process.kill()

        timer = threading.Timer(deadline_seconds, end)
        timer.daemon = True
        timer.start()
        try:
            child.connection.send(job)
            result: R | _Failed = child.connection.recv()
        except Exception as error:
            self._drop()
            if late.is_set():
                raise DeadlineError(f"no result within {deadline_seconds:g} s") from error
            raise SolverError(f"the process ended: {error!r}") from error
        finally:
            timer.cancel()
        if late.is_set():
            self._drop()
        if isinstance(result, _Failed):
            raise SolverError(result.reason)
        return result

    def close(self) -> None:
        """End the child, for good; harmless when there is none. May be called while another thread solves."""
        self._closed = True
        child = self._child
        if child is not None:
            child.process.kill()  # a thread that waits for its answer meets the end of the pipe, and lets go of both
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(_END_SECONDS)

    def _running(self) -> _Child:
        if self._closed:
            raise SolverError(_CLOSED)
        return self._started() if self._child is None else self._child

    def _started(self) -> _Child:
        ours, theirs = Pipe()
        command = [sys.executable, "-c", _CHILD, self._entry, str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                start_new_session=True,  # Ctrl-C at a terminal is for the parent, which ends the child
            )
        self.starts += 1
        child = self._child = _Child(process, ours)
        if self._closed:  # meanwhile: nobody else ends this one
            self._drop()
            raise SolverError(_CLOSED)
        try:
            ready = ours.poll(self._start_seconds) and ours.recv()
        except (EOFError, OSError) as error:
            self._drop()
            raise SolverError(f"the process ended: {error!r}") from error
        if not ready:
            self._drop()
            raise SolverError(f"not ready within {self._start_seconds:g} s")
        return child

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.connection.close()
        child.process.kill()
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(_END_SECONDS)


def main(entry: str, descriptor: str) -> None:
    """Solve jobs until the other end is closed: with its process, if not before."""
    with suppress(OSError, AttributeError):
        # A process that is stopped, or busy, when its parent is killed would not see the end of the pipe.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(_NICENESS)
    module, _, name = entry.partition(":")
    solve: Callable[[object], object] = getattr(importlib.import_module(module), name)
    with Connection(int(descriptor)) as connection:
        with suppress(BrokenPipeError):
            connection.send(True)  # noqa: FBT003 - ready
        while True:
            try:
                job = connection.recv()
            except (EOFError, OSError):
                return
            with suppress(BrokenPipeError):
                connection.send(_result(solve, job))


def _result(solve: Callable[[object], object], job: object) -> object:
    try:
        return solve(job)
    except Exception as error:  # noqa: BLE001 - told to the parent, which counts it; the next job may be fine
        _LOG.exception("the solver failed")
        return _Failed(f"{type(error).__name__}: {error}".splitlines()[0])
