"""One verb from bytes to bytes: read, decide on one View, book, write, count. Nothing raised leaves here.

body -> wire -> Question -> verbs -> answer -> wire -> body        on one View, without a lock
                              |
                              +-> tentative ledger (scores only), hand-off (speed only), metrics
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from extender import verbs, wire
from extender.cache import Cache, View
from extender.errors import ClusterError, RequestError
from extender.handoff import HandOff, Line, Prepared
from extender.journal import BindJournal
from extender.metrics import Metrics
from extender.packing.framework import Rows
from extender.patience import Patience
from extender.verbs import VerbSettings
from extender.wire import BindQuestion, FilterAnswer, Form, PrioritizeAnswer, Question, Reader

_LOG: Final = logging.getLogger(__name__)

Answer = tuple[bytes, Callable[[], None]]
"""A body, and what is left to do once it has been sent."""


class Binder(Protocol):
    """Binds a pod to a node."""

    def bind(self, question: BindQuestion) -> str:
        """Bind; return "" or why not, in one line.

        Raises:
            ClusterError: when the cluster cannot be asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmbeddedBinder:
    """Binds in the cache itself: the cluster is a file. What is bound is written down in a journal, if there is one."""

    cache: Cache
    journal: BindJournal | None = None

    def bind(self, question: BindQuestion) -> str:
        """Bind at once.

        Raises:
            ClusterError: when it cannot be written down.
        """
        record = _nothing if self.journal is None else self.journal.append
        try:
            return self.cache.bind(
                question.pod_uid, question.pod_namespace, question.pod_name, question.node, record=record
            )
        except OSError as error:
            raise ClusterError(f"the binding cannot be written down: {error.strerror or error}") from error


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP status and a JSON body. `finish` is to be called once the answer has been sent: it costs no latency."""

    status: int
    body: bytes
    finish: Callable[[], None] = _nothing


class VerbService:
    """Answers the verbs; may be called from any thread."""

    def __init__(
        self,
        cache: Cache,
        reader: Reader,
        settings: VerbSettings,
        metrics: Metrics,
        binder: Binder | None = None,
        *,
        refusal_wait_seconds: float = 0.0,
    ) -> None:
        """Put the parts together; without a binder the bind verb is not offered."""
        self._cache = cache
        self._reader = reader
        self._settings = settings
        self._metrics = metrics
        self._binder = binder
        self._handoff = HandOff()
        self._patience = Patience(cache, refusal_wait_seconds, metrics)
        self._answers: dict[str, Callable[[bytes], Answer]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        if binder is not None:
            self._answers["bind"] = self._bind

    @property
    def offered(self) -> Collection[str]:
        """Return the verbs that are answered."""
        return self._answers.keys()

    def answer(self, verb: str, body: bytes) -> Reply:
        """Answer one of the `offered` verbs."""
        started = time.perf_counter()
        try:
            answer, then = self._answers[verb](body)
            status = HTTPStatus.OK
        except RequestError as error:
            status, answer, then = self._refusal(verb, error)
        except ClusterError as error:
            status, answer, then = HTTPStatus.SERVICE_UNAVAILABLE, wire.encode_error(str(error)), _nothing
        except Exception:  # noqa: BLE001 - a bug of ours costs one request, one traceback and one count
            status, answer, then = self._bug(verb)
        seconds = time.perf_counter() - started
        return Reply(status, answer, partial(self._finish, verb, int(status), seconds, then))

    def _finish(self, verb: str, status: int, seconds: float, then: Callable[[], None]) -> None:
        self._metrics.answered(verb, status, seconds, time.time())
        try:
            then()
        except Exception:  # noqa: BLE001 - the answer has been sent
            self._bug(verb)

    def _bug(self, verb: str) -> tuple[HTTPStatus, bytes, Callable[[], None]]:
        _LOG.exception("bug: %s failed", verb)
        self._metrics.bug(verb)
        return HTTPStatus.INTERNAL_SERVER_ERROR, wire.encode_error("internal error, see the log"), _nothing

    def refuse(self, verb: str, status: int, error: str) -> Reply:
        """Answer a request that cannot be read as a body at all (too large, wrong method)."""
        self._metrics.refused(verb, status)
        return Reply(status, wire.encode_error(error))

    def _refusal(self, verb: str, error: RequestError) -> tuple[HTTPStatus, bytes, Callable[[], None]]:
        """Answer a body that cannot be used: 400, but 200 where only that makes kube-scheduler show the text."""
        _LOG.warning("%s: %s", verb, error)
        incomplete = isinstance(error, wire.IncompleteError)
        then = partial(self._metrics.answered_error, verb) if incomplete else _nothing
        if incomplete and verb == "filter":
            return HTTPStatus.OK, wire.encode_filter_error(Form.NAMES, str(error)), then
        status = HTTPStatus.OK if incomplete and verb == "bind" else HTTPStatus.BAD_REQUEST
        return status, wire.encode_error(str(error)), then

    # -- filter ----------------------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> Answer:
        question = self._reader.question(body)
        self._cache.expire(time.monotonic())
        answer = self._patience.decided(partial(self._decide, question))
        if self._binder is not None:
            # Before the answer goes out: a bind may follow at once.
            self._cache.remember(question.pod)
        return wire.encode_filter(question, answer), partial(self._after_filter, question, answer)

    def _decide(self, question: Question, view: View) -> FilterAnswer:
        return verbs.filter_candidates(view, question, self._settings)

    def _after_filter(self, question: Question, answer: FilterAnswer) -> None:
        node = verbs.filter_booking(question, answer)
        if node is not None:
            self._cache.assume(question.pod, node, time.monotonic())
        elif (
            (names_json := wire.foreseen_names(question, answer))
            and answer.rows is not None
            and answer.table is not None
        ):
            rows = answer.rows[answer.kept]
            prepared = self._prepare(question, rows) if len(rows) else None
            self._handoff.put(question.pod.uid, Line(names_json, rows, weakref.ref(answer.table), prepared))
        self._count_filter(answer)

    def _prepare(self, question: Question, rows: Rows) -> Prepared | None:
        """Work out what prioritize will be asked next, while kube-scheduler reads what filter has answered."""
        self._cache.expire(time.monotonic())
        view = self._cache.view
        answer = verbs.prioritize_candidates(view, question, self._settings, rows)
        return Prepared(question.pod, weakref.ref(view), answer, wire.encode_prioritize(question, answer))

    def _count_filter(self, answer: FilterAnswer) -> None:
        if answer.error:
            self._metrics.answered_error("filter")
            return
        rejected = Counter({failure.cause: 0 for failure in answer.failures})
        for failure in answer.failures:
            rejected[failure.cause] += len(failure.positions)
        for cause, nodes in rejected.items():
            self._metrics.rejected(cause, nodes)
        self._metrics.considered("filter", len(answer.kept) + rejected.total())

    # -- prioritize ------------------------------------------------------------------------------------------------

    def _prioritize(self, body: bytes) -> Answer:
        question = self._reader.question(body)
        self._cache.expire(time.monotonic())
        view = self._cache.view
        if not view.synced:
            # Scores have no `Error` to carry this; anything but 200 is counted by kube-scheduler as no opinion.
            raise ClusterError(verbs.NOT_SYNCED)
        line = None
        if question.form is Form.NAMES:
            line = self._handoff.find(question.pod.uid, question.listed.json, view.snapshot.table)
        if line is not None and line.prepared is not None and line.prepared.answers(question.pod, view):
            answer, encoded = line.prepared.answer, line.prepared.body
        else:
            answer = verbs.prioritize_candidates(view, question, self._settings, None if line is None else line.rows)
            encoded = wire.encode_prioritize(question, answer)
        return encoded, partial(self._after_prioritize, question, answer, known=line is not None)

    def _after_prioritize(self, question: Question, answer: PrioritizeAnswer, *, known: bool) -> None:
        if answer.best is not None:
            self._cache.assume(question.pod, answer.best, time.monotonic())
        if question.form is Form.NAMES:
            self._metrics.handed_off(hit=known)
        self._metrics.considered("prioritize", len(answer.scores) + answer.left_out)

    # -- preempt and bind ------------------------------------------------------------------------------------------

    def _preempt(self, body: bytes) -> Answer:
        question = self._reader.preempt(body)
        return wire.encode_preempt(verbs.preempt_candidates(self._cache.view, question, self._settings)), _nothing

    def _bind(self, body: bytes) -> Answer:
        question = self._reader.bind(body)
        try:
            fault = self._binder.bind(question) if self._binder is not None else "bind is not offered"
        except ClusterError as error:
            fault = str(error)
        if not fault:
            return wire.encode_error(""), _nothing
        _LOG.warning("bind %s/%s to %s: %s", question.pod_namespace, question.pod_name, question.node, fault)
        return wire.encode_error(fault), partial(self._metrics.answered_error, "bind")
