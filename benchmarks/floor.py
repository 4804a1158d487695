"""The HTTP floor: the service's own gunicorn and settings around a WSGI application that only reads and answers.

python -m benchmarks.floor              answers as many blanks as the header `X-Answer-Bytes` asks for
python -m benchmarks.floor --agree      the least an extender can say: filter keeps all, prioritize scores nobody
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from extender import serving
from extender.httpd import malloc
from extender.httpd.rules import Rules
from extender.settings import Server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

CPU_SECONDS: Final = "X-Cpu-Seconds"
_NAMES: Final = b'"NodeNames":'


@lru_cache(maxsize=64)
def blanks(size: int) -> bytes:
    """Return an answer, prepared once."""
    return b" " * size


class Floor:
    """Bare WSGI."""

    rules = Rules(patience_seconds=10, keep_alive_seconds=95, max_body_bytes=2**28)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Read the body, send the prepared answer, and say what CPU time the process has had."""
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        answer = blanks(int(environ.get("HTTP_X_ANSWER_BYTES") or 2))
        heads = [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))]
        start_response("200 OK", [*heads, (CPU_SECONDS, repr(time.process_time()))])
        return [answer]

    def separate(self, host: str, port: int) -> None:
        """Have one listener only."""

    def announce(self, *_urls: str) -> Iterable[str]:
        """Have nothing to say."""
        return ()

    def cut(self, why: str) -> None:
        """Count nothing."""

    def start(self) -> None:
        """Have nothing to begin."""

    def drain(self) -> None:
        """Have nothing to wait for."""

    def stop(self) -> None:
        """Have nothing to end."""


class Agreement(Floor):
    """An extender without an opinion, for node names only."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Give NodeNames back as they came (Go writes that key last), or no scores."""
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        answer = [b"[]"]
        if environ["PATH_INFO"].endswith("/filter"):
            names = body[body.index(_NAMES) + len(_NAMES) : body.rindex(b"}")]
            answer = [b'{"NodeNames":', names, b',"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}']
        length = str(sum(map(len, answer)))
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", length)])
        return [b"".join(answer)]


if __name__ == "__main__":
    malloc.tune()
    serving.run(Agreement() if "--agree" in sys.argv[1:] else Floor(), Server(listen="127.0.0.1:0"))
