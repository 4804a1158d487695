"""A recorder that may stand between kube-scheduler and the extender."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import urlsplit

from controlplane.processes import LOOPBACK


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
