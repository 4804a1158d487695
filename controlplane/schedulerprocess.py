"""A kube-scheduler as a process: its health and its metrics."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from controlplane.clienttls import client_context
from controlplane.processes import LOOPBACK, Process


class SchedulerProcess(Process):
    """Listens on loopback with a certificate it has made itself."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, port: int, token: str) -> None:
        """Start it; `token` is of a user who may read its metrics."""
        super().__init__(name, command, folder)
        self._port = port
        self._token = token

    def is_healthy(self) -> bool:
        """Tell whether it runs."""
        try:
            return self._get("/healthz")[0] == HTTPStatus.OK
        except OSError:
            return False

    def metrics(self) -> str:
        """Return the page for Prometheus; it costs the scheduler some milliseconds."""
        status, page = self._get("/metrics")
        assert status == HTTPStatus.OK, page
        return page

    def _get(self, path: str) -> tuple[int, str]:
        anyone = client_context()
        anyone.check_hostname = False
        anyone.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(LOOPBACK, self._port, timeout=10, context=anyone)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()
