"""The service with its planner: a real child process beside real HTTP."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.apiobjects import GPU, a_node, a_pod
from tests.integration.harness import Service, running

NODES = [{**a_node(f"n{at}"), "status": {"capacity": {GPU: "8", "pods": "110"}}} for at in range(3)]
CLUSTER = {"items": [*NODES, a_pod("r", 2, "n0", "Running"), a_pod("w", 4)]}
PLANNED = {"GPU_EXTENDER_SCORING__POLICY": "planned"}
PATIENCE = 30.0


def metric(service: Service, name: str) -> float:
    found = re.search(rf"^gpu_extender_{re.escape(name)} (\S+)$", service.get("/metrics").body.decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def planned(service: Service) -> float:
    return metric(service, "plan_duration_seconds_count")


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def children(pid: str | int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def ask(service: Service, name: str) -> list[str]:
    body = {"Pod": {**a_pod(name, 4), "metadata": {"name": name, "uid": name}}, "NodeNames": ["n0", "n1", "n2"]}
    kept: list[str] = service.ask("filter", body).value["NodeNames"]
    return kept


def test_it_plans_answers_without_the_child_and_plans_again() -> None:
    with running(CLUSTER, env=PLANNED) as service:
        eventually(lambda: planned(service) >= 1, "a plan is published")
        (worker,) = service.workers()
        (child,) = children(worker)
        assert "extender.packing.solvers:solve" in Path(f"/proc/{child}/cmdline").read_text()
        assert "ortools" not in Path(f"/proc/{worker}/maps").read_text(), "serving is without the solver libraries"
        os.kill(child, signal.SIGKILL)
        assert ask(service, "p") == ["n0", "n1", "n2"]
        bound = {"PodName": "w", "PodNamespace": "ml", "PodUID": "ml/w", "Node": "n1"}
        assert service.ask("bind", bound).value["Error"] == ""
        eventually(lambda: metric(service, 'plan_failures_total{why="solver"}') == 1, "the death is counted")
        eventually(lambda: metric(service, "quota_duration_seconds_count") >= 2, "it plans again")
        assert metric(service, 'internal_errors_total{verb="filter"}') == 0
        (again,) = children(worker)
        assert service.stop() == 0
        eventually(lambda: not Path(f"/proc/{again}").exists(), "the child ends with the service")


def test_the_child_ends_with_a_service_that_is_killed() -> None:
    with running(CLUSTER, env=PLANNED) as service:
        eventually(lambda: planned(service) >= 1, "a plan is published")
        (worker,) = service.workers()
        (child,) = children(worker)
        os.kill(int(worker), signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{child}").exists(), "the child ends with its worker")


def test_switched_off_there_is_no_child() -> None:
    with running(CLUSTER, env={**PLANNED, "GPU_EXTENDER_PLANNING__ENABLED": "false"}) as service:
        assert ask(service, "p") == ["n0", "n1", "n2"]
        (worker,) = service.workers()
        assert children(worker) == []
        assert "plan_" not in service.get("/metrics").body.decode()
