"""One control plane for all tests of a process; each test gets it empty. Without its programs the tests are skipped."""

from __future__ import annotations

from functools import cache

import pytest

from controlplane import build, releases
from controlplane.cluster import Cluster
from controlplane.plane import Plane


@pytest.fixture(scope="session")
def plane(tmp_path_factory):
    with Plane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def cluster(plane):
    cluster = Cluster(plane.api)
    yield cluster
    cluster.clear()


@cache
def missing() -> str:
    """Return which programs are missing and how to get them, "" for none."""
    try:
        for release in releases.RELEASES:
            build.programs(release)
    except build.MissingProgramError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item):
    # Here and not in the fixture: raised in one place, all skips are one line of the summary.
    if "plane" in item.fixturenames and missing():
        pytest.skip(missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    plane = getattr(item, "funcargs", {}).get("plane")
    if report.failed and plane is not None:
        report.sections.append(("logs of the control plane", plane.tails()))
    return report
