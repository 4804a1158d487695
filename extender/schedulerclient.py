"""Speaks to an extender over HTTP as kube-scheduler does: one kept-alive connection, names only, Go's key casing.

Used by the simulator, the demo and the tests. A client of the protocol: it knows nothing of the service's insides.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from extender.errors import ClusterError
from extender.packing.framework import Rows, Scores
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

Manifest = Mapping[str, Any]
_TIMEOUT_SECONDS = 10.0


class ExtenderClient:
    """One connection to an extender's verbs."""

    def __init__(self, url: str) -> None:
        """Prepare a client of ``http://host:port/prefix``; nothing is sent yet."""
        parts = urlsplit(url)
        self._prefix = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)

    def call(self, verb: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the verb decides the shape
        """POST one verb and return the decoded answer.

        Raises:
            ClusterError: for a lost connection, a status other than 200, or an answer with ``Error``.
        """
        payload = json.dumps(body).encode()
        try:
            self._connection.request("POST", f"{self._prefix}/{verb}", payload, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ClusterError(f"{verb}: the extender does not answer: {error}") from error
        if answer.status != http.client.OK:
            raise ClusterError(f"{verb}: the extender answered {answer.status}: {text[:200]!r}")
        value = json.loads(text)
        if isinstance(value, dict) and value.get("Error"):
            raise ClusterError(f"{verb}: {value['Error']}")
        return value

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class HttpExtender:
    """The simulated scheduler's extender over HTTP; ``manifests`` holds the Pod objects by uid."""

    def __init__(self, url: str, manifests: Mapping[str, Manifest]) -> None:
        self._client = ExtenderClient(url)
        self._manifests = manifests

    def _args(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> dict[str, Any]:
        names = [snapshot.table.names[row] for row in rows]
        return {"Pod": self._manifests[pod.uid], "Nodes": None, "NodeNames": names}

    def filter(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
        """Ask filter and return the rows it keeps."""
        answer = self._client.call("filter", self._args(snapshot, pod, rows))
        return np.array([snapshot.table.index[name] for name in answer["NodeNames"]], dtype=np.intp)

    def prioritize(self, snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Scores:
        """Ask prioritize and return a score per row."""
        answer = self._client.call("prioritize", self._args(snapshot, pod, rows))
        scores = {entry["Host"]: entry["Score"] for entry in answer}
        return np.array([scores.get(snapshot.table.names[row], 0) for row in rows], dtype=np.int64)

    def bind(self, pod: PodInfo, node_name: str) -> None:
        """Tell the embedded cluster where the pod goes."""
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
        self._client.call("bind", body)

    def preempt(self, pod: PodInfo, victims: Mapping[str, list[str]]) -> list[str]:
        """Ask preempt about candidate nodes (node -> victim uids); return the nodes it leaves."""
        candidates = {n: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for n, uids in victims.items()}
        body = {"Pod": self._manifests[pod.uid], "NodeNameToVictims": None, "NodeNameToMetaVictims": candidates}
        return sorted(self._client.call("preempt", body)["NodeNameToMetaVictims"])

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
