"""The HTTP floor: the service's own gunicorn and settings around a WSGI application that only reads and answers.

The answer is as many blanks as the header `X-Answer-Bytes` asks for. Run as `python -m benchmarks.floor`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from extender import serving
from extender.settings import Server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


@lru_cache(maxsize=64)
def blanks(size: int) -> bytes:
    """Return an answer, prepared once."""
    return b" " * size


class Floor:
    """Bare WSGI."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Read the body, send the prepared answer."""
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        answer = blanks(int(environ.get("HTTP_X_ANSWER_BYTES") or 2))
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]

    def separate(self, host: str, port: int) -> None:
        """Have one listener only."""

    def start(self) -> None:
        """Have nothing to begin."""

    def drain(self) -> None:
        """Have nothing to wait for."""

    def stop(self) -> None:
        """Have nothing to end."""


if __name__ == "__main__":
    serving.tune_malloc()
    floor = Floor()
    serving.run(floor, floor, Server(listen="127.0.0.1:0"))
