"""The extender as a real process, and a recorder that may stand between kube-scheduler and it."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from signal import SIGKILL, Signals
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.processes import LOOPBACK, Process

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_LISTENING: Final = re.compile(r"^listening on (\S+)$", re.MULTILINE)


class ExtenderProcess(Process):
    """`gpu-extender serve` on a port of its own."""

    def __init__(
        self, folder: Path, *source: str | Path, name: str = "extender", port: int = 0, **settings: str
    ) -> None:
        """Start it and wait until it listens.

        `source` is where the cluster is: `--kubeconfig FILE`, or `--cluster FILE`; `settings` are configuration by
        environment, `verbs__counts="scheduler"`; one that
        takes the place of another has its port and a name of its own.
        """
        env = {f"GPU_EXTENDER_{key.upper()}": value for key, value in settings.items()}
        env["PYTHONPATH"] = str(_REPOSITORY)
        command = [sys.executable, "-m", "extender", "serve", *source, "--listen", f"{LOOPBACK}:{port}"]
        super().__init__(name, command, folder, env)
        try:
            found = self.wait_ready(lambda: _LISTENING.search(self.text()))
        except BaseException:
            self.kill()
            raise
        assert found is not None
        self.url = found[1]

    def signal(self, number: Signals) -> None:
        """Send a signal to master and worker: the worker alone would go on, the master alone would replace it."""
        for pid in (self.pid, *_children(self.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End both at once; left alone, a worker outlives its master for some seconds."""
        if self._process.poll() is None:
            self.signal(SIGKILL)
        super().kill()

    def wait_synced(self, seconds: float = 30.0) -> None:
        """Wait until it says that it is ready."""
        self.wait_ready(lambda: self.get("/readyz")[0] == http.HTTPStatus.OK, seconds)

    def get(self, path: str) -> tuple[int, str]:
        """GET a page: status and text."""
        target = urlsplit(self.url)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of that name that have these labels (the prefix may be left out)."""
        full = name if name.startswith("gpu_extender_") else f"gpu_extender_{name}"
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = (sample for family in families for sample in family.samples if sample.name == full)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def asked(self, verb: str) -> int:
        """Return how often a verb was answered with 200."""
        return int(self.metric("requests_total", verb=verb, code="200"))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


# ---------------------------------------------------------------- recorder


@dataclass(frozen=True)
class Call:
    """One verb as it went over the wire."""

    verb: str
    question: dict[str, Any]
    status: int
    answer: Any

    @property
    def pod(self) -> str:
        """Return the uid of the pod in question."""
        uid: str = self.question["Pod"]["metadata"]["uid"] if "Pod" in self.question else self.question["PodUID"]
        return uid

    @property
    def nodes(self) -> list[str]:
        """Return the names in question."""
        names: list[str] = self.question["NodeNames"]
        return names

    def scores(self) -> Mapping[str, int]:
        """Return a prioritize answer by node."""
        return {entry["Host"]: entry["Score"] for entry in self.answer}

    def best(self) -> str:
        """Return the only node that got 10."""
        (best,) = [name for name, score in self.scores().items() if score == 10]
        return best


@dataclass
class Recorder:
    """Passes calls on and keeps them, in order.

    `before_answer` is called with each call before kube-scheduler gets the answer: what it does happens in between.
    """

    url: str
    calls: list[Call] = field(default_factory=list)
    before_answer: Callable[[Call], object] = lambda _: None

    def of(self, verb: str, pod: str | None = None) -> list[Call]:
        """Return the calls of a verb, about one pod (uid) or any."""
        return [call for call in self.calls if call.verb == verb and pod in {None, call.pod}]

    def best(self, pod: str) -> str | None:
        """Return the node that got 10 when it was last asked about a pod; None when prioritize never was."""
        calls = self.of("prioritize", pod)
        return calls[-1].best() if calls else None


@contextmanager
def recording(*upstreams: str) -> Iterator[Recorder]:
    """Stand before an extender at `http://host:port`, or before several: each call goes to any of them."""
    dice = Random(1)
    targets = [urlsplit(upstream) for upstream in upstreams]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet, or Nagle costs 40 ms a call
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.upstreams = [http.client.HTTPConnection(to.hostname or "", to.port, timeout=30) for to in targets]

        def finish(self) -> None:
            for upstream in self.upstreams:
                upstream.close()
            super().finish()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            upstream = dice.choice(self.upstreams)
            try:
                upstream.request("POST", self.path, body, {"Content-Type": "application/json"})
                answer = upstream.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException):
                upstream.close()
                self.close_connection = True  # as if we were the extender: the caller sees the connection break
                return
            verb = self.path.rpartition("/")[2]
            call = Call(verb, json.loads(body), answer.status, json.loads(data))
            recorder.calls.append(call)
            recorder.before_answer(call)
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    recorder = Recorder(f"http://{LOOPBACK}:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
