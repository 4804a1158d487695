"""How the stand-in of tests/integration/apiserver.py answers: its world, and one connection."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

TOKEN: Final = "secret-token"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
_PATH = re.compile(
    r"^/api/v1/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<kind>nodes|pods)(?:/(?P<name>[^/]+))?(?P<sub>/binding)?$"
)


@dataclass(frozen=True)
class Request:
    """A request as it came; `verb` is list, watch, get or bind."""

    verb: str
    kind: str
    query: Mapping[str, str]
    body: Any = None


@dataclass
class Refusal:
    """What the next requests of a verb and kind get."""

    status: int
    message: str
    times: int


@dataclass
class World:
    """Objects, their history and what is to go wrong; shared by all connections, under `changed`."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: {"nodes": {}, "pods": {}})
    history: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: {"nodes": [], "pods": []})
    version: int = 1000
    oldest: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "pods": 0})
    changed: threading.Condition = field(default_factory=threading.Condition)
    refusals: dict[tuple[str, str], Refusal] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    epoch: int = 0
    deaf: bool = False
    in_pieces: bool = False
    expired_as_event: bool = False
    page_seconds: float = 0.0
    expire_second_page: int = 0
    bind_outcome: str = "answer"
    closing: bool = False
    token: str = TOKEN
    open_watches: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def tell(world: World, kind: str, event: str, value: Mapping[str, Any]) -> None:
    world.history[kind].append((world.version, json.dumps({"type": event, "object": value}).encode()))


def put(world: World, manifest: Mapping[str, Any]) -> None:
    kind = "nodes" if manifest["kind"] == "Node" else "pods"
    value = json.loads(json.dumps(manifest))
    name = value["metadata"]["name"]
    world.version += 1
    value["metadata"]["resourceVersion"] = str(world.version)
    known = name in world.objects[kind]
    if kind == "pods" and value.get("status", {}).get("phase") in FINISHED:
        world.objects[kind].pop(name, None)
        event = "DELETED"
    else:
        world.objects[kind][name] = value
        event = "MODIFIED" if known else "ADDED"
    if event != "DELETED" or known:
        tell(world, kind, event, value)


class Handler(BaseHTTPRequestHandler):
    """One connection; `world` is set by a subclass per server."""

    world: World
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        match = _PATH.match(split.path)
        if match is None:
            self._answer(404, _status(404, f"there is no {split.path}"))
            return
        verb = "get" if match["name"] else "watch" if "watch" in query else "list"
        if self._refused(Request(verb, match["kind"], query)):
            return
        if verb == "get":
            found = self.world.objects[match["kind"]].get(match["name"])
            self._answer(200 if found else 404, found or _status(404, f'pods "{match["name"]}" not found'))
        elif verb == "list":
            self._list(match["kind"], query)
        else:
            self._watch(match["kind"], query)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match = _PATH.match(urlsplit(self.path).path)
        assert match is not None
        assert match["sub"]
        if self._refused(Request("bind", match["kind"], {}, body)):
            return
        if self.world.bind_outcome == "lost":
            self.close_connection = True
            return
        status, answer = self._bind(match["name"], body)
        if self.world.bind_outcome == "done and lost":
            self.close_connection = True
            return
        self._answer(status, answer)

    def _refused(self, request: Request) -> bool:
        with self.world.changed:
            self.world.requests.append(request)
            refusal = self.world.refusals.get((request.verb, request.kind))
            if refusal is not None:
                refusal.times -= 1
                if refusal.times <= 0:
                    del self.world.refusals[request.verb, request.kind]
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token != self.world.token:
            self._answer(401, _status(401, "Unauthorized"))
            return True
        if refusal is not None:
            self._answer(refusal.status, _status(refusal.status, refusal.message))
        return refusal is not None

    def _answer(self, status: int, value: Any) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _list(self, kind: str, query: Mapping[str, str]) -> None:
        time.sleep(self.world.page_seconds)
        start = int(query.get("continue", "0"))
        with self.world.changed:
            if start and self.world.expire_second_page:
                self.world.expire_second_page -= 1
                expired = True
            else:
                expired = False
            items = list(self.world.objects[kind].values())
            page = items[start : start + int(query["limit"])]
            meta = {"resourceVersion": str(self.world.version)}
            if start + len(page) < len(items):
                meta["continue"] = str(start + len(page))
            value = json.loads(json.dumps({"kind": "List", "metadata": meta, "items": page}))
        if expired:
            self._answer(410, _status(410, "The provided continue parameter is too old", "Expired"))
        else:
            self._answer(200, value)

    def _watch(self, kind: str, query: Mapping[str, str]) -> None:
        with self.world.changed:
            version, epoch = int(query["resourceVersion"]), self.world.epoch
            expired = version < self.world.oldest[kind]
        if expired and not self.world.expired_as_event:
            self._answer(410, _status(410, "too old resource version", "Expired"))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if expired:
            self._line(json.dumps({"type": "ERROR", "object": _status(410, "too old", "Expired")}).encode())
            self._chunk(b"")
            return
        try:
            self.world.open_watches[kind] += 1
            self._tell_until_the_end(kind, version, epoch, time.monotonic() + float(query["timeoutSeconds"]))
        except OSError:
            self.close_connection = True
        finally:
            self.world.open_watches[kind] -= 1

    def _tell_until_the_end(self, kind: str, version: int, epoch: int, end: float) -> None:
        while True:
            with self.world.changed:
                news = [] if self.world.deaf else [(v, line) for v, line in self.world.history[kind] if v > version]
                if not news:
                    self.world.changed.wait(min(0.2, max(0.0, end - time.monotonic())))
                dropped = self.world.epoch != epoch or self.world.closing
            for _, line in news:
                self._line(line)
            version = news[-1][0] if news else version
            if dropped:
                self.close_connection = True
                return
            if time.monotonic() > end:
                self._chunk(b"")
                return

    def _line(self, line: bytes) -> None:
        pieces = [line + b"\n"]
        if self.world.in_pieces:
            pieces = [pieces[0][at : at + 50] for at in range(0, len(pieces[0]), 50)]
        for piece in pieces:
            self._chunk(piece)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _bind(self, name: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Bind as registry/core/pod/storage assignPod does."""
        with self.world.changed:
            pod = self.world.objects["pods"].get(name)
            if pod is None:
                return 404, _status(404, f'pods "{name}" not found')
            text = _conflict(pod, body["metadata"].get("uid"))
            if text:
                text = f'Operation cannot be fulfilled on pods/binding "{name}": {text}'
                return 409, _status(409, text, "Conflict")
            put(self.world, {**pod, "spec": {**pod["spec"], "nodeName": body["target"]["name"]}})
            self.world.changed.notify_all()
            return 201, {"kind": "Status", "status": "Success"}


def _conflict(pod: Mapping[str, Any], uid: str | None) -> str:
    meta, spec = pod["metadata"], pod["spec"]
    if uid and uid != meta["uid"]:
        return f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})"
    if meta.get("deletionTimestamp"):
        return f"pod {meta['name']} is being deleted, cannot be assigned to a host"
    return f'pod {meta["name"]} is already assigned to node "{spec["nodeName"]}"' if spec.get("nodeName") else ""


def _status(code: int, message: str, reason: str = "") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
