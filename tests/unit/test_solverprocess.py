"""The child process that solves: results, failures, deadlines, deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extender.solverprocess import DeadlineError, SolverError, SolverProcess

PATIENCE = 60.0
Child = SolverProcess[Any, Any]


def solve(job: object) -> object:
    """Do what the job says; runs in the child."""
    if isinstance(job, np.ndarray):
        return job
    match job:
        case ("fail", text):
            raise ValueError(text)
        case ("sleep", float(seconds)):
            time.sleep(seconds)
        case "die":
            os._exit(7)
        case "nice":
            return os.nice(0)
        case "unpicklable":
            return lambda: None
        case _:
            pass
    return job


@pytest.fixture
def child() -> Iterator[Child]:
    """Return a child that is ended afterwards."""
    process: Child = SolverProcess(f"{__name__}:solve", start_seconds=PATIENCE)
    yield process
    process.close()


def test_arrays_go_there_and_back_and_the_child_stays(child: Child) -> None:
    assert child.pid is None  # nobody pays for a child that has nothing to do
    for size in (3, 200_000):
        assert np.array_equal(child.solve(np.arange(size), PATIENCE), np.arange(size))
    assert child.starts == 1


def test_it_gives_way_to_the_requests(child: Child) -> None:
    assert child.solve("nice", PATIENCE) >= 10


def test_a_failure_is_told_in_one_line_and_costs_no_restart(child: Child) -> None:
    with pytest.raises(SolverError, match=r"^ValueError: no such model$"):
        child.solve(("fail", "no such model\nat all"), PATIENCE)
    assert child.solve(1, PATIENCE) == 1
    assert child.starts == 1


def test_what_takes_too_long_is_killed(child: Child) -> None:
    child.solve(1, PATIENCE)
    pid = child.pid
    with pytest.raises(DeadlineError, match=r"no result within 0\.2 s"):
        child.solve(("sleep", 600.0), 0.2)
    assert child.pid is None
    assert not _alive(pid)
    assert child.solve(2, PATIENCE) == 2
    assert child.starts == 2


def test_a_slow_start_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(1)\nsolve = abs\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    process: Child = SolverProcess("slow_to_import:solve", start_seconds=PATIENCE)
    assert process.solve(-1, 0.9) == 1
    process.close()


def test_a_child_that_never_gets_ready_is_given_up() -> None:
    process: Child = SolverProcess(f"{__name__}:solve", start_seconds=0.0)
    with pytest.raises(SolverError, match="not ready within 0 s"):
        process.solve(1, PATIENCE)
    assert process.pid is None
    process.close()


@pytest.mark.parametrize("job", ["die", "unpicklable"])
def test_a_child_that_dies_is_started_again(child: Child, job: str) -> None:
    with pytest.raises(SolverError):
        child.solve(job, PATIENCE)
    assert child.solve(1, PATIENCE) == 1


def test_a_child_killed_between_jobs_is_noticed_by_the_next(child: Child) -> None:
    child.solve(1, PATIENCE)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(SolverError, match="the process ended"):
        child.solve(2, PATIENCE)
    assert child.solve(3, PATIENCE) == 3


def test_a_child_that_is_stopped_is_killed_at_the_deadline_and_can_be_closed(child: Child) -> None:
    child.solve(1, PATIENCE)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DeadlineError):
        child.solve(2, 0.2)
    assert not _alive(pid)
    child.solve(3, PATIENCE)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    child.close()


def test_closing_does_not_wait_for_a_child_that_hangs_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_imported.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    process: Child = SolverProcess("never_imported:solve", start_seconds=PATIENCE)
    faults: list[str] = []

    def solve_in_vain() -> None:
        try:
            process.solve(1, PATIENCE)
        except SolverError as error:
            faults.append(str(error))

    waiting = threading.Thread(target=solve_in_vain)
    waiting.start()
    while process.pid is None:
        time.sleep(0.01)
    process.close()
    waiting.join(PATIENCE / 2)
    assert faults == ["the process ended: EOFError()"]


def test_a_child_that_is_being_started_while_it_is_closed_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process: Child = SolverProcess(f"{__name__}:solve", start_seconds=PATIENCE)
    start, started = subprocess.Popen, []

    def close_meanwhile(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process.close()
        started.append(start(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", close_meanwhile)
    with pytest.raises(SolverError, match="closed"):
        process.solve(("sleep", PATIENCE), PATIENCE)
    assert [child.poll() for child in started] == [-signal.SIGKILL]


def test_the_child_ends_with_its_parent_s_end_of_the_pipe(child: Child) -> None:
    child.solve(1, PATIENCE)
    pid = child.pid
    child.close()
    assert not _alive(pid)
    child.close()


def test_an_entry_that_does_not_exist_is_trouble_not_a_hang() -> None:
    process: Child = SolverProcess("extender.no_such_module:solve", start_seconds=PATIENCE)
    with pytest.raises(SolverError):
        process.solve(1, PATIENCE)
    process.close()


def _alive(pid: int | None) -> bool:
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True
