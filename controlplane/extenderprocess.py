"""The extender as a real process, and what its metrics say."""

from __future__ import annotations

import http.client
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from controlplane.processes import LOOPBACK, Process

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
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
