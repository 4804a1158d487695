"""A thin client of the API server: raw JSON over kept connections, many at once, and watches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import urllib3

from controlplane.clienttls import client_context

Manifest = dict[str, Any]

CONNECTIONS: Final = 8
"""Requests under way at a time in `Api.many`; more do not make one API server on two cores faster."""

_KEPT: Final = 4 * CONNECTIONS
"""More than are ever in use at a time, watches, kubelets and `many` from several threads included."""

_MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server has refused; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Speaks for one user."""

    def __init__(self, port: int, token: str, ca_file: Path) -> None:
        """Prepare; nothing is sent yet, and the file is not read."""
        self._pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            port,
            maxsize=_KEPT,
            ssl_context=client_context(),
            ca_certs=str(ca_file),
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            retries=False,
            timeout=urllib3.Timeout(connect=10, read=60),
        )

    @classmethod
    def of(cls, kubeconfig: Path) -> Api:
        """Speak for the user of a kubeconfig that a plane has written."""
        document = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        port = urlsplit(cluster["server"]).port
        assert port is not None
        return cls(port, user["token"], Path(cluster["certificate-authority"]))

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", **query: str
    ) -> Any:
        """Send one request and return the decoded answer (text when it is no JSON).

        Raises:
            ApiError: for any status that is no success.
        """
        payload = None if body is None else json.dumps(body).encode()
        headers = {**self._pool.headers, "Content-Type": content_type}
        answer = self._pool.request(method, _with_query(path, query), body=payload, headers=headers)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(answer.status, _message(answer.data))
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return json.loads(answer.data) if is_json else answer.data.decode()

    def get(self, path: str, **query: str) -> Any:
        """GET."""
        return self.request("GET", path, **query)

    def create(self, path: str, body: Manifest) -> Manifest:
        """POST to a collection."""
        answer: Manifest = self.request("POST", path, body)
        return answer

    def put(self, path: str, body: Manifest) -> Manifest:
        """PUT one object."""
        answer: Manifest = self.request("PUT", path, body)
        return answer

    def patch(self, path: str, body: Manifest, *, strategic: bool = False) -> Manifest:
        """Merge fields into one object."""
        kind = _STRATEGIC_PATCH if strategic else _MERGE_PATCH
        answer: Manifest = self.request("PATCH", path, body, kind)
        return answer

    def delete(self, path: str, grace_seconds: int = 0, **query: str) -> None:
        """DELETE one object, or a collection; what is gone already is no error."""
        try:
            self.request("DELETE", path, {"gracePeriodSeconds": grace_seconds, "kind": "DeleteOptions"}, **query)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def items(self, path: str, **query: str) -> list[Manifest]:
        """Return the objects of a collection."""
        items: list[Manifest] = self.get(path, **query)["items"]
        return items

    def many(self, do: Callable[[Manifest], Manifest], objects: Iterable[Manifest]) -> list[Manifest]:
        """Do something with each object, several at a time; return the answers in order."""
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            return list(threads.map(do, objects))

    def watch(self, path: str, resource_version: str, seconds: int = 300, **query: str) -> Watch:
        """Watch a collection from a version on."""
        query |= {"watch": "true", "resourceVersion": resource_version, "timeoutSeconds": str(seconds)}
        answer = self._pool.request(
            "GET", _with_query(path, query), preload_content=False, timeout=urllib3.Timeout(connect=10, read=None)
        )
        if answer.status != HTTPStatus.OK:
            try:
                raise ApiError(answer.status, _message(answer.read()))
            finally:
                answer.close()
        return Watch(answer)


class Watch:
    """The events of one watch; `stop` may be called from another thread."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[tuple[str, Manifest]]:
        """Yield (ADDED | MODIFIED | DELETED | ..., object) until the watch ends."""
        rest = b""
        try:
            for chunk in self._answer.stream(None):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError):
            return
        finally:
            self._answer.close()

    def stop(self) -> None:
        """End the watch."""
        with suppress(ValueError, RuntimeError, OSError):  # it has ended already
            self._answer.shutdown()


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _message(data: bytes) -> str:
    try:
        message: str = json.loads(data)["message"]
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")
    return message
