"""Bytes from and to the API server. TLS, connections and token refresh are the official client's.

Only its configuration and its connection pool are used, never its models: they cost a hundred times as much per object
(docs/background.md, "Cost"). Nothing is retried here: the reflector and kube-scheduler have back-offs of their own.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import msgspec
import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException

from extender.errors import ApiError, ClusterError, UnreachableError
from extender.kube.access import one_line
from extender.kube.raw import RawStatus

__all__ = ["ApiClient", "Configuration", "Stream"]

_LOG: Final = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 2**16
_SHOWN: Final = 400
_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "gpu-extender"}
_STATUS: Final = msgspec.json.Decoder(RawStatus)


class ApiClient:
    """Asks the API server; may be used from any thread. Nothing happens before the first request.

    Every method takes `doing`, which names the request in errors, such as "list pods".
    """

    def __init__(self, access: Callable[[], Configuration], *, timeout_seconds: float = 60.0) -> None:
        """Take credentials from `access`; a silence of `timeout_seconds` ends a request (not a stream)."""
        self._access = access
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._session: tuple[Configuration, urllib3.PoolManager] | None = None

    def get(self, path: str, query: Mapping[str, str], *, doing: str) -> bytes:
        """Return the body of a GET.

        Raises:
            ApiError: when the API server refuses.
            UnreachableError: when it cannot be reached or does not answer in time.
            ClusterError: when there are no credentials to ask with.
        """
        with self._open("GET", path, query, None, self._timeout_seconds, doing) as response:
            return response.read()

    def post(self, path: str, body: bytes, *, doing: str) -> bytes:
        """Return the answer to a POST; the errors are those of `get`. After UnreachableError the outcome is unknown."""
        with self._open("POST", path, {}, body, self._timeout_seconds, doing) as response:
            return response.read()

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], *, silence_seconds: float, doing: str) -> Iterator[Stream]:
        """Open a GET whose answer has no end; a silence of `silence_seconds` is an UnreachableError.

        The errors are those of `get`, while it is read as well.
        """
        with self._open("GET", path, query, None, silence_seconds, doing) as response:
            yield Stream(response)

    @contextmanager
    def _open(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, silence_seconds: float, doing: str
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        configuration, pool = self._connected()
        url = f"{configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
        response: urllib3.BaseHTTPResponse | None = None
        try:
            headers = _HEADERS | self._authorization(configuration)
            response = pool.request(
                method, url, body=body, headers=headers, timeout=timeout, preload_content=False, retries=False
            )
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise self._refusal(response, doing)
            yield response
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if _is_tls(error):
                self._renew()
            raise UnreachableError(
                f"cannot {doing}: {_where(configuration, error)}: {_network_words(error)}"
            ) from error
        finally:
            if response is not None:
                _done_with(response)

    def _connected(self) -> tuple[Configuration, urllib3.PoolManager]:
        with self._lock:
            if self._session is None:
                configuration = self._access()
                if not configuration.verify_ssl:
                    _LOG.warning("%s: its certificate is not verified (insecure-skip-tls-verify)", configuration.host)
                    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
                self._session = configuration, RESTClientObject(configuration).pool_manager
            return self._session

    def _authorization(self, configuration: Configuration) -> dict[str, str]:
        # The hook behind this reads tokens anew when their time is over, or runs a program for it.
        with self._lock:
            try:
                settings = configuration.auth_settings()
            except ConfigException as error:
                raise ClusterError(f"credentials cannot be renewed: {one_line(error)}") from error
        token = settings.get("BearerToken", {}).get("value")
        return {"Authorization": token.strip()} if token else {}

    def _renew(self) -> None:
        """Load credentials anew before the next request: files and certificates are replaced while we run."""
        with self._lock:
            self._session = None

    def _refusal(self, response: urllib3.BaseHTTPResponse, doing: str) -> ApiError:
        status = _status(response.read(_SHOWN * 40))
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._renew()
        words = _REFUSALS.get(response.status, "refused")
        text = " ".join((status.message or response.reason or "").split())[:_SHOWN]
        return ApiError(f"cannot {doing}: {words} ({response.status}): {text}", response.status, status.reason or "")


class Stream:
    """The body of an answer without end."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        """Read from an open response."""
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come, cut anywhere."""
        if getattr(self._response, "chunked", False):
            yield from self._response.stream(_CHUNK_BYTES)
            return
        while chunk := self._response.read1(_CHUNK_BYTES):
            yield chunk

    def shutdown(self) -> None:
        """Wake whoever reads; for another thread, at the end."""
        self._response.shutdown()


_REFUSALS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "the credentials are not accepted",
    HTTPStatus.FORBIDDEN: "forbidden, grant it by RBAC (docs/install.md)",
    HTTPStatus.GONE: "too old",
}


def _done_with(response: urllib3.BaseHTTPResponse) -> None:
    """Give the connection back when the answer was read to its end, close it otherwise."""
    if not response.closed:
        response.close()
    response.release_conn()


def _status(body: bytes) -> RawStatus:
    try:
        return _STATUS.decode(body)
    except msgspec.MsgspecError:
        return RawStatus(message=body.decode("utf-8", "replace"))


def _is_tls(error: BaseException) -> bool:
    return isinstance(error, urllib3.exceptions.SSLError | ssl.SSLError)


def _where(configuration: Configuration, error: BaseException) -> str:
    """Return who could not be reached: the API server, or the proxy on the way."""
    if configuration.proxy is None or not isinstance(error, urllib3.exceptions.ProxyError):
        return configuration.host
    proxy = urllib3.util.parse_url(configuration.proxy)
    # Without user and password.
    return f"{configuration.host}, by the proxy {urllib3.util.Url(proxy.scheme, None, proxy.host, proxy.port)}"


def _network_words(error: BaseException) -> str:
    """Return the innermost reason, which is the one that people know, in one line."""
    prefix = "TLS: " if _is_tls(error) else ""
    inner: BaseException | None = error
    innermost = error
    while inner is not None:
        innermost = inner
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"TLS: {inner.verify_message or inner.reason}"
        if isinstance(inner, ssl.SSLError) and inner.reason:
            # Its number is OpenSSL's, not the system's.
            return f"TLS: {inner.reason.replace('_', ' ').lower()}"
        if isinstance(inner, OSError) and inner.errno:
            return f"{prefix}{os.strerror(inner.errno) if inner.errno > 0 else inner.strerror}"
        inner = inner.__cause__ or inner.__context__
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    return f"{prefix}{one_line(innermost)}"
