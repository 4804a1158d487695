"""Starts the real service, as people start it, and speaks HTTP to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
JSON: Final = {"Content-Type": "application/json"}
START_SECONDS: Final = 30.0
_LISTENING = re.compile(r"(listening|operators) on (https?)://\[?([^\]]+?)\]?:(\d+)$")


@dataclass(frozen=True)
class Answer:
    """One HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


class Client:
    """One kept-alive connection."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        if context is None:
            self.connection = http.client.HTTPConnection(host, port, timeout=60)
        else:
            self.connection = http.client.HTTPSConnection(host, port, timeout=60, context=context)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] = JSON,
        **options: Any,
    ) -> Answer:
        self.connection.request(method, path, body, dict(headers), **options)
        response = self.connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())

    def post(self, verb: str, value: Any) -> Answer:
        """POST a verb; text and bytes go as they are, anything else as JSON."""
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", f"/scheduler/{verb}", raw)

    def get(self, path: str) -> Answer:
        return self.send("GET", path, headers={})

    def close(self) -> None:
        self.connection.close()


@dataclass
class Service:
    """A running service: its process and where it listens."""

    process: subprocess.Popen[str]
    addresses: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.addresses["listening"][1]

    @property
    def port(self) -> int:
        return self.addresses["listening"][2]

    def client(self, context: ssl.SSLContext | None = None, *, listener: str = "listening") -> Client:
        _, host, port = self.addresses[listener]
        return Client(host, port, context)

    def socket(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=20)

    def ask(self, verb: str, value: Any) -> Answer:
        """POST a verb on a connection of its own."""
        client = self.client()
        try:
            return client.post(verb, value)
        finally:
            client.close()

    def get(self, path: str, *, listener: str = "listening") -> Answer:
        """GET a path on a connection of its own."""
        client = self.client(listener=listener)
        try:
            return client.get(path)
        finally:
            client.close()

    def workers(self) -> set[str]:
        """Return the ids of the worker processes; the address is printed before there is one."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := set(children.read_text().split())):
            time.sleep(0.01)
        return found

    def logged(self, text: str, *, within: float = 5.0) -> list[str]:
        """Return the lines of the log that hold a text, waiting for the first one."""
        deadline = time.monotonic() + within
        while not (found := [line for line in list(self.log) if text in line]) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def stop(self, how: signal.Signals = signal.SIGTERM, *, within: float = 20.0) -> int:
        """End the service and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(within)


@contextmanager
def running(
    cluster: Mapping[str, Any] | Path, *, env: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
) -> Iterator[Service]:
    """Serve a cluster (an object or a file) on free ports, with bind on."""
    with tempfile.TemporaryDirectory() as folder:
        path = cluster if isinstance(cluster, Path) else Path(folder) / "cluster.json"
        if not isinstance(cluster, Path):
            path.write_text(json.dumps(cluster))
        with started("--cluster", str(path), *arguments, env=env) as service:
            yield service


@contextmanager
def started(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Run `serve` with any arguments on free ports, with bind on."""
    command = [sys.executable, "-m", "extender", "serve", "--listen", "127.0.0.1:0", *arguments]
    settings = {"GPU_EXTENDER_VERBS__BIND": "true", **(env or {})}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **settings}
    )
    service = Service(process)
    reader = threading.Thread(target=_collect, args=(process, service.log), daemon=True)
    reader.start()
    try:
        _await_start(service, 2 if "GPU_EXTENDER_SERVER__OPERATORS_LISTEN" in settings else 1)
        yield service
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


def _collect(process: subprocess.Popen[str], log: list[str]) -> None:
    assert process.stderr is not None
    with process.stderr as lines:
        log.extend(line.rstrip("\n") for line in lines)


def _await_start(service: Service, listeners: int) -> None:
    assert service.process.stdout is not None
    for line in service.process.stdout:
        if (match := _LISTENING.match(line.strip())) is not None:
            service.addresses[match[1]] = (match[2], match[3], int(match[4]))
        if len(service.addresses) == listeners:
            return
    raise AssertionError(f"the service did not start: {service.log}")


# -- objects -------------------------------------------------------------------------------------------------------


def node_object(name: str, gpus: int = 8, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a Node as the API server writes it."""
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", **(labels or {})}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_object(name: str, gpus: int = 1, node: str = "", **spec: Any) -> dict[str, Any]:
    """Return a Pod; bound and running when `node` is given."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "resources": resources}],
            **spec,
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def cluster(*objects: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def filter_args(pod: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}
