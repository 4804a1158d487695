"""Binds of an embedded cluster outlive a worker, signals that replace processes are ignored, ports are freed."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest

from tests.integration.apiserver import eventually
from tests.integration.harness import cluster, filter_args, node_object, pod_object, running

pytestmark = pytest.mark.integration

CLUSTER = cluster(node_object("a", 1), node_object("b", 2), pod_object("waiting", 1))


def bind(service, name, node):
    question = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-{name}", "Node": node}
    return service.ask("bind", question).value["Error"]


def replaced(service, worker):
    eventually(lambda: service.workers() != {worker} and service.get("/readyz").status == 200)


def test_a_gpu_is_not_promised_twice_when_a_worker_dies():
    with running(CLUSTER) as service:
        service.ask("filter", filter_args(pod_object("fresh"), "a", "b"))
        assert bind(service, "waiting", "a") == ""
        assert bind(service, "fresh", "b") == ""
        for _ in range(2):
            (worker,) = service.workers()
            os.kill(int(worker), signal.SIGKILL)
            replaced(service, worker)
            assert service.ask("filter", filter_args(pod_object("late"), "a", "b")).value["NodeNames"] == ["b"]
            assert "Insufficient" in bind(service, "late", "a")
            assert bind(service, "waiting", "a") == "", "repeated"
        assert bind(service, "late", "b") == ""
        assert len(service.logged("bindings are kept")) == 2


def test_signals_that_replace_processes_are_ignored_by_all_of_them():
    with running(CLUSTER) as service:
        assert bind(service, "waiting", "a") == ""
        (worker,) = workers = service.workers()
        for number in (signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
            os.kill(int(worker), number)
            service.process.send_signal(number)
            (line,) = service.logged(f"{number.name} is ignored")
            assert "Traceback" not in line
        time.sleep(1.2)  # a turn of the master
        assert service.workers() == workers
        assert "Insufficient" in bind_unknown(service)
        assert service.stop() == 0


def bind_unknown(service):
    service.ask("filter", filter_args(pod_object("late"), "a", "b"))
    return bind(service, "late", "a")


def test_a_killed_master_leaves_nothing_on_the_port():
    with running(CLUSTER) as service:
        kept, half = service.client(), service.socket()
        assert kept.get("/readyz").status == 200
        half.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        service.process.kill()
        service.process.wait()
        eventually(lambda: can_be_bound(service.host, service.port), within=3)
        kept.close()
        half.close()


def can_be_bound(host, port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
