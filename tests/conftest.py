"""Rules for the whole test run: how Hypothesis behaves, and what continuous integration does not let pass."""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import settings

IN_CI: Final = bool(os.environ.get("GPU_EXTENDER_CI"))
ALLOWED_PREFIX: Final = "allowed:"

# No deadline: the tests share few cores with each other, so the time of one example says nothing.
settings.register_profile("local", deadline=None)
# The same commit gets the same verdict; new examples are looked for at a desk.
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "local")


class SkipGuard:
    """Turn a run with skipped tests into a failed one, unless the reason starts with `allowed:`.

    Under pytest-xdist it works in the controller, which receives the reports of all workers.
    """

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that was skipped (an expected failure is not a skip)."""
        if not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that was skipped as a whole."""
        self._note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session."""
        if self.skipped and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what was skipped and why that is a failure here."""
        if not self.skipped:
            return
        terminalreporter.section("skipped, and GPU_EXTENDER_CI is set", sep="=", red=True)
        for test, reason in sorted(self.skipped.items()):
            terminalreporter.line(f"{test}: {reason}")
        terminalreporter.line(
            f"{len(self.skipped)} skipped: each must run here, or give a reason that starts with {ALLOWED_PREFIX!r}.",
            red=True,
        )

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = _skip_reason(report)
        if reason is not None and not reason.startswith(ALLOWED_PREFIX):
            self.skipped[report.nodeid] = reason


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """Return why the test was skipped, None if it was not."""
    if not report.skipped:
        return None
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    """Watch for skipped tests, once per run: in the controller, not in the workers of pytest-xdist."""
    if IN_CI and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipGuard(), "skip-guard")
