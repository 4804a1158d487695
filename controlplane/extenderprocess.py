"""The extender as a real process, and what its metrics say."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any, Final
from urllib.parse import urlsplit

from controlplane.metrics import sum_of
from controlplane.processes import LOOPBACK, Process, family
from extender.planning import SOLVE

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
_LISTENING: Final = re.compile(r"^listening on (\S+)$", re.MULTILINE)


class ListeningProcess(Process):
    """A Python program of ours that says where it listens, with a worker process of its own."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> None:
        """Run `python -m` with the command and wait until it listens."""
        here = {"PYTHONPATH": str(_REPOSITORY), **env}
        super().__init__(name, [sys.executable, "-m", *command], folder, here)
        try:
            found = self.wait_ready(lambda: _LISTENING.search(self.text()))
        except BaseException:
            self.kill()
            raise
        assert found is not None
        self.url = found[1]

    def signal(self, number: Signals) -> None:
        """Send a signal to master and worker: the worker alone would go on, the master alone would replace it."""
        for pid in family(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End both at once; left alone, a worker outlives its master for some seconds."""
        if self._process.poll() is None:
            self.signal(SIGKILL)
        super().kill()


class ExtenderProcess(ListeningProcess):
    """`gpu-extender serve` on a port of its own."""

    def __init__(
        self, folder: Path, *source: str | Path, name: str = "extender", port: int = 0, **settings: str
    ) -> None:
        """Start it and wait until it listens.

        `source` is where the cluster is: `--kubeconfig FILE`, or `--cluster FILE`; `settings` are configuration by
        environment, `verbs__counts="scheduler"`; one that takes the place of another has its port and a name of its
        own.
        """
        env = {f"GPU_EXTENDER_{key.upper()}": value for key, value in settings.items()}
        super().__init__(name, ["extender", "serve", *source, "--listen", f"{LOOPBACK}:{port}"], folder, env)

    def solver(self) -> int | None:
        """Return the process id of the child that solves, None while there is none (Linux)."""
        threads = (path for pid in family(self.pid) for path in Path(f"/proc/{pid}/task").glob("*/children"))
        children = {pid for path in threads for pid in path.read_text(encoding="ascii").split()}
        return next((int(pid) for pid in children if SOLVE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()), None)

    def wait_synced(self, seconds: float = 30.0) -> None:
        """Wait until it says that it is ready."""
        self.wait_ready(lambda: self.get("/readyz")[0] == http.HTTPStatus.OK, seconds)

    def get(self, path: str) -> tuple[int, str]:
        """GET a page: status and text."""
        return self._asked("GET", path)

    def post(self, verb: str, body: object) -> Any:
        """Ask a verb as kube-scheduler does and return the decoded answer."""
        return json.loads(self._asked("POST", f"/scheduler/{verb}", json.dumps(body))[1])

    def _asked(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        target = urlsplit(self.url)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=10)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of that name that have these labels (the prefix may be left out)."""
        full = name if name.startswith("gpu_extender_") else f"gpu_extender_{name}"
        return sum_of(self.get("/metrics")[1], full, **labels)

    def asked(self, verb: str) -> int:
        """Return how often a verb was answered with 200."""
        return int(self.metric("requests_total", verb=verb, code="200"))
