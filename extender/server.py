"""HTTP around the verbs and the operators' endpoints. No decisions: a request is routed, checked and handed on.

    POST <any prefix>/{filter,prioritize,preempt,bind}     GET /healthz /readyz /metrics /

`VerbPaths` stands before Flask: it strips the prefix and answers the plain case (a POST of known length) itself, which
saves a tenth of a millisecond per call (docs/background.md, "Cost"). Everything else takes Flask's way to the same
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from werkzeug.exceptions import (
    Forbidden,
    HTTPException,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
)

from extender.errors import TransferError
from extender.service import Reply, VerbService
from extender.wire import VERBS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
# The second is what curl and urllib call any body unless told otherwise.
_BODY_TYPES: Final = frozenset({"", _JSON, "application/x-www-form-urlencoded"})
_HINT: Final = """gpu-extender: a scheduler extender that packs pods onto exclusive GPUs

POST <prefix>/filter, <prefix>/prioritize, <prefix>/preempt (and <prefix>/bind where configured): for kube-scheduler
GET  /healthz    the process is alive
GET  /readyz     the cluster is known and the service takes requests
GET  /metrics    Prometheus; series per node are on /metrics/nodes
"""


class Health(Protocol):
    """Tells whether the service should get requests."""

    def unready(self) -> str:
        """Return why not, "" when it should."""
        ...


@dataclass(frozen=True, slots=True)
class Registries:
    """What Prometheus scrapes: `main` on /metrics, the long one with series per node on /metrics/nodes."""

    main: CollectorRegistry
    nodes: CollectorRegistry


def create_app(verbs: VerbService, health: Health, registries: Registries) -> Flask:
    """Return the Flask application with every route; paths of verbs come without their prefix.

    How large a body may be, and whether it is whole, is known where it is received: reading it raises TransferError.
    """
    app = Flask("gpu-extender", static_folder=None)
    app.url_map.merge_slashes = False
    _add_verbs(app, verbs)
    _add_operators(app, health, registries)
    app.register_error_handler(HTTPException, lambda error: _error(verbs, error))
    return app


def _add_verbs(app: Flask, verbs: VerbService) -> None:
    def answer(verb: str) -> Response:
        if verb not in verbs.offered:
            raise NotFound(f"{verb} is not offered; see verbs.bind in the configuration")
        _check(request.environ)
        try:
            body = request.get_data(cache=False)
        except TransferError as error:
            return _response(verbs.refuse(verb, error.status, str(error)))
        return _response(verbs.answer(verb, body))

    rule = f"/<any({','.join(VERBS)}):verb>"
    app.add_url_rule(rule, "verb", answer, methods=["POST"], provide_automatic_options=False)


def _add_operators(app: Flask, health: Health, registries: Registries) -> None:
    def text(body: str, status: int = HTTPStatus.OK) -> Response:
        return Response(f"{body.rstrip()}\n", status, content_type=_TEXT)

    def readyz() -> Response:
        reason = health.unready()
        return text(reason, HTTPStatus.SERVICE_UNAVAILABLE) if reason else text("ok")

    pages: dict[str, Callable[[], Response]] = {
        "/": lambda: text(_HINT),
        "/healthz": lambda: text("ok"),
        "/readyz": readyz,
        "/metrics": lambda: Response(generate_latest(registries.main), content_type=CONTENT_TYPE_LATEST),
        "/metrics/nodes": lambda: Response(generate_latest(registries.nodes), content_type=CONTENT_TYPE_LATEST),
    }
    for path, view in pages.items():
        app.add_url_rule(path, path, view, methods=["GET"])


def _check(environ: WSGIEnvironment) -> None:
    """Refuse what no scheduler sends.

    Raises:
        HTTPException: for a request of a web page (kube-scheduler has no Origin; a browser in reach of a loopback
            port must not bind pods), another type of body, or a compressed one.
    """
    if "HTTP_ORIGIN" in environ:
        raise Forbidden("requests of web pages are not answered")
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if kind not in _BODY_TYPES:
        raise UnsupportedMediaType(f"the body must be {_JSON}, not {kind[:80]}")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() not in {"", "identity"}:
        raise UnsupportedMediaType("the body must not be compressed")


def _error(verbs: VerbService, error: HTTPException) -> Response:
    """Say in one line what is wrong with a request; as JSON where kube-scheduler might look."""
    code = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    text = error.description or error.name
    verb = request.path.strip("/")
    if isinstance(error, MethodNotAllowed):
        text = f"{request.path} is asked with {'POST' if verb in VERBS else 'GET'}, not {request.method}"
    if verb not in VERBS:
        return Response(f"{code} {' '.join(text.split())}\n", code, error.get_headers(), content_type=_TEXT)
    response = _response(verbs.refuse(verb, code, " ".join(text.split())))
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = "POST"
    return response


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status, content_type=_JSON)
    response.call_on_close(reply.finish)
    return response


class VerbPaths:
    """WSGI in front of Flask: verbs under any prefix, the plain ones answered here."""

    def __init__(self, verbs: VerbService, app: WSGIApplication) -> None:
        """Answer what `verbs` offers, leave the rest to `app`."""
        self._verbs = verbs
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        verb = environ["PATH_INFO"].rstrip("/").rpartition("/")[2]
        if verb not in VERBS:
            return self._app(environ, start_response)
        length = self._plain_length(environ, verb)
        if length is None:
            return self._app({**environ, "PATH_INFO": f"/{verb}"}, start_response)
        try:
            body = environ["wsgi.input"].read(length)
        except TransferError as error:
            return _send(self._verbs.refuse(verb, error.status, str(error)), start_response)
        return _send(self._verbs.answer(verb, body), start_response)

    def _plain_length(self, environ: WSGIEnvironment, verb: str) -> int | None:
        """Return the length of the body; None when there is anything to be looked at more closely."""
        length: str = environ.get("CONTENT_LENGTH", "")
        plain = (
            environ["REQUEST_METHOD"] == "POST"
            and environ.get("CONTENT_TYPE") == _JSON
            and verb in self._verbs.offered
            and "HTTP_ORIGIN" not in environ
            and "HTTP_CONTENT_ENCODING" not in environ
            and "HTTP_TRANSFER_ENCODING" not in environ
            and length.isascii()
            and length.isdigit()
        )
        return int(length) if plain else None


class _Sent:
    """An answer of one piece; the server closes it when it has been sent (PEP 3333)."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        return iter((self._reply.body,))

    def close(self) -> None:
        self._reply.finish()


def _send(reply: Reply, start_response: StartResponse) -> Iterable[bytes]:
    status = f"{reply.status:d} {HTTPStatus(reply.status).phrase}"
    start_response(status, [("Content-Type", _JSON), ("Content-Length", str(len(reply.body)))])
    return _Sent(reply)


class TwoListeners:
    """WSGI in front of all: operators' endpoints on their listener alone, verbs on the other alone."""

    _SHARED: Final = frozenset({"/healthz", "/readyz"})

    def __init__(self, app: WSGIApplication) -> None:
        """Let everything through until `separate` tells the address."""
        self._app = app
        self._operators: tuple[str, str] | None = None

    def separate(self, host: str, port: int) -> None:
        """Serve operators on the listener bound to this address only."""
        self._operators = (host, str(port))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, 404 on the wrong listener."""
        if self._operators is not None and environ["PATH_INFO"] not in self._SHARED:
            there = (environ["SERVER_NAME"], environ["SERVER_PORT"]) == self._operators
            is_verb = environ["PATH_INFO"].rstrip("/").rpartition("/")[2] in VERBS
            if there == is_verb:
                return NotFound("this listener does not serve that path")(environ, start_response)
        return self._app(environ, start_response)
