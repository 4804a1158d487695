"""List, then watch, then list again: one kind of object followed for ever.

          +------------------------------ any failure: wait (jittered, doubling), then go on -----------+
          v                                                                                             |
    version known? --no--> list, page by page --> sink(listed) --+                                      |
          | yes                                                  v                                      |
          +----------------------------------------------> watch from there --> sink(each change) ------+
                                                                 |   ended by the server: watch again at once
                                                                 `-- 410, ERROR event: the version is lost

After client-go's tools/cache/reflector.go and kopf's clients/watching.py: the version moves on with every event and
bookmark, nothing but the outer loop waits, and one turn of it (`turn`) can be run by itself.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from extender.changes import Change
from extender.errors import ApiError, ClusterError, UnreachableError
from extender.kube.objects import Event, Kind, Page

_LOG: Final = logging.getLogger(__name__)
T = TypeVar("T")

# With these the API server says that the version itself is of no use (or that it never heard of it).
_VERSION_LOST: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.GONE, HTTPStatus.GATEWAY_TIMEOUT})
# A watch that the server ends sooner, without a word, is a failure: or we would ask without a pause.
_SHORTEST_SECONDS: Final = 1.0
# Enough to reach any back-off that may be configured.
_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class Pace:
    """Sizes and times of a reflector, in seconds; see `cluster.*` of the configuration."""

    page_size: int = 500
    watch_min: float = 300.0
    watch_max: float = 600.0
    silence: float = 120.0
    backoff_first: float = 0.5
    backoff_max: float = 30.0


class Stream(Protocol):
    """An answer without end; `client.Stream` is one."""

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come, cut anywhere."""
        ...

    def shutdown(self) -> None:
        """Wake whoever reads."""
        ...


class Api(Protocol):
    """What a reflector asks; `client.ApiClient` is one and says what is raised."""

    def get(self, path: str, query: Mapping[str, str], *, doing: str) -> bytes:
        """Return the body of a GET."""
        ...

    def stream(
        self, path: str, query: Mapping[str, str], *, silence_seconds: float, doing: str
    ) -> AbstractContextManager[Stream]:
        """Open a GET whose answer has no end."""
        ...


class Observer(Protocol):
    """Counts what happens; `kind` is `nodes` or `pods`."""

    def event(self, kind: str, event_type: str) -> None:
        """Count a watch event, bookmarks too."""

    def listed(self, kind: str) -> None:
        """Count a complete list."""

    def restarted(self, kind: str, why: str) -> None:
        """Count the end of a watch: `timeout` (as asked for), `lost`, `refused`, `expired` or `bug`."""

    def unreadable(self, kind: str, objects: int) -> None:
        """Count objects that could not be read."""


class WatchExpiredError(ClusterError):
    """The watch cannot go on from where it stood: a list has to come first."""


class Reflector(Generic[T]):
    """Follows one kind of object; `run` is the thread's function."""

    def __init__(self, api: Api, kind: Kind[T], sink: Callable[[Change], None], pace: Pace, observer: Observer) -> None:
        self._api = api
        self._kind = kind
        self._sink = sink
        self._pace = pace
        self._observer = observer
        self._random = random.Random()  # noqa: S311 - jitter, no secret
        self._stop = threading.Event()
        self._stream: Stream | None = None
        self._version = ""
        self._failures = 0
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Return why the cluster cannot be followed at the moment, in one line, "" when it can."""
        return self._trouble

    @property
    def version(self) -> str:
        """Return where the watch stands, "" when a list has to come first."""
        return self._version

    def stop(self) -> None:
        """End `run` soon; may be called from any thread."""
        self._stop.set()
        stream = self._stream
        if stream is not None:
            try:
                stream.shutdown()
            except Exception:  # noqa: BLE001 - it has ended by itself in this moment
                _LOG.debug("%s: the watch had ended", self._kind.name)

    def run(self) -> None:
        """Follow the cluster until `stop`."""
        while not self._stop.is_set():
            delay = self.turn()
            if delay:
                self._stop.wait(delay)

    def turn(self) -> float:
        """List if need be, watch until the watch ends; return how many seconds to wait before the next turn."""
        try:
            if not self._version:
                self._list()
            if not self._stop.is_set():
                self._watch()
        except Exception as error:  # noqa: BLE001 - whatever it is, we have to go on following
            return self._failed(error)
        self._failures = 0
        self._observer.restarted(self._kind.name, "timeout")
        return 0.0

    # -- list ------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """Take a whole list; one that expires half-way is begun anew by the next turn (410)."""
        objects: list[T] = []
        body = self._page("")
        while True:
            more = self._kind.more(body)
            ahead = Ahead(partial(self._page, more)) if more else None
            page = self._read(body)
            objects += page.objects
            if ahead is None:
                break
            # A page holds the interpreter for milliseconds: requests go first.
            time.sleep(0)
            if self._stop.is_set():
                return
            body = ahead.body()
        self._sink(self._kind.listed(objects))
        self._observer.listed(self._kind.name)
        self._version = page.version

    def _page(self, more: str) -> bytes:
        query = {"limit": str(self._pace.page_size)}
        query |= {"continue": more} if more else {}
        return self._api.get(self._kind.path, query | self._selected(), doing=self._doing("list"))

    def _read(self, body: bytes) -> Page[T]:
        page = self._kind.page(body)
        if page.unreadable:
            self._observer.unreadable(self._kind.name, page.unreadable)
        return page

    def _selected(self) -> dict[str, str]:
        return {"fieldSelector": self._kind.selector} if self._kind.selector else {}

    def _doing(self, verb: str) -> str:
        return f"{verb} {self._kind.name}"

    # -- watch -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Watch until the server ends it, as it was asked to."""
        started = time.monotonic()
        heard = False
        seconds = int(self._random.uniform(self._pace.watch_min, self._pace.watch_max))
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        } | self._selected()
        with self._api.stream(
            self._kind.path, query, silence_seconds=self._pace.silence, doing=self._doing("watch")
        ) as stream:
            self._stream = stream
            # The API server has accepted: whatever was wrong is over.
            self._trouble = ""
            try:
                for line in lines(stream.chunks()):
                    self._heard(self._kind.event(line))
                    heard = True
            finally:
                self._stream = None
        if not heard and time.monotonic() - started < min(_SHORTEST_SECONDS, self._pace.watch_min):
            raise UnreachableError(f"cannot {self._doing('watch')}: the watch was ended at once")

    def _heard(self, event: Event) -> None:
        self._failures = 0
        self._observer.event(self._kind.name, event.type)
        if event.error is not None:
            said = event.error
            raise WatchExpiredError(f"cannot {self._doing('watch')}: {said.message or said.reason} ({said.code})")
        if event.change is not None:
            self._sink(event.change)
        elif event.type != "BOOKMARK":
            self._observer.unreadable(self._kind.name, 1)
        self._version = event.version or self._version

    # -- failures --------------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> float:
        """Note a failure and return how long to wait: it doubles while nothing comes, and is never twice the same."""
        if self._stop.is_set():
            return 0.0
        why = self._why(error)
        if why == "expired":
            self._version = ""
        self._trouble = str(error) if isinstance(error, ClusterError) else f"cannot follow {self._kind.name}: a bug"
        self._observer.restarted(self._kind.name, why)
        delay: float = min(self._pace.backoff_max, self._pace.backoff_first * 2 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        delay *= self._random.uniform(0.5, 1.0)
        if why == "bug":
            _LOG.exception("bug: following %s failed", self._kind.name, exc_info=error)
        else:
            _LOG.log(self._severity(why), "%s; again in %.1f s", error, delay)
        return delay

    def _severity(self, why: str) -> int:
        # A connection that is lost now and then, or a version that is too old, is a day like any other.
        return logging.INFO if why in {"lost", "expired"} and self._failures == 1 else logging.WARNING

    def _why(self, error: Exception) -> str:
        match error:
            case WatchExpiredError():
                return "expired"
            case ApiError(status=status):
                return "expired" if status in _VERSION_LOST else "refused"
            case ClusterError():
                return "lost"
            case msgspec.MsgspecError():
                # No JSON: a proxy's error page, or bytes lost on the way. What was told there is unknown.
                return "expired"
            case _:
                return "bug"


class Ahead:
    """A page that is asked for while the one before is read: the API server takes as long for it as we do.

    On a thread that ends with the process: an API server that hangs must not keep us from ending.
    """

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        """Begin at once."""
        self._fetch = fetch
        self._answer: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="next page", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.put(self._fetch())
        except Exception as error:  # noqa: BLE001 - raised where the page is waited for
            self._answer.put(error)

    def body(self) -> bytes:
        """Wait for the page; raises what asking for it has raised."""
        answer = self._answer.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream that is cut anywhere; what is left at its end is no line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
