"""What each verb decides: (view, question, settings) -> answer. Pure: no JSON, no Flask, no clock, nothing changed.

A refusal is a reason per candidate; trouble of the cluster is an `error` in the answer. Asked twice, a verb answers
twice the same (kube-scheduler does ask twice: docs/background.md, "Protocol"). The node a pod will surely get, which
belongs into the tentative ledger, is `filter_booking` or the `best` of prioritize; booking it is the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from extender.cache import View
from extender.packing.fit import NOT_KNOWN, Cause, Reason, Verdicts, filter_nodes, fitting, has_room, static_verdicts
from extender.packing.framework import MAX_SCORE, Policy, Rows, Scores, best_row, run_score
from extender.packing.holds import HELD
from extender.packing.resources import PODS, minus
from extender.packing.snapshot import Snapshot
from extender.packing.table import Codes, NodeTable
from extender.packing.types import PodInfo
from extender.packing.victims import eviction_helps, victims_on
from extender.wire import (
    UNKNOWN_ROW,
    Failure,
    FilterAnswer,
    Form,
    PreemptQuestion,
    PrioritizeAnswer,
    Question,
    Victims,
    locate,
)

NOT_SYNCED: Final = "the cluster's nodes and pods are not known yet"
_IN_TREE: Final = frozenset({Cause.UNSCHEDULABLE, Cause.TAINT, Cause.AFFINITY})


@dataclass(frozen=True, slots=True)
class VerbSettings:
    """How the verbs behave (`verbs.*` and `scoring.*` of the configuration).

    Attributes:
        policy: scores the candidates that fit.
        trust_scheduler: what kube-scheduler offers has room, whatever we count (`counts: scheduler`).
        pass_through_pods_without_gpus: score such pods 0 everywhere.
        ranked_up_to: with more candidates than this, prioritize names the best alone.
    """

    policy: Policy
    trust_scheduler: bool = False
    pass_through_pods_without_gpus: bool = False
    ranked_up_to: int = 2**31

    def keeps(self, reason: Reason) -> bool:
        """Tell whether a candidate with this verdict stays in filter's answer."""
        return reason.cause is Cause.NONE or (self.trust_scheduler and reason.cause is Cause.RESOURCES)

    def contradicts(self, reason: Reason) -> bool:
        """Tell whether kube-scheduler, which judges the same by a watch of its own, offers the node."""
        return self.trust_scheduler and reason.cause in _IN_TREE


def see_candidates(view: View, question: Question) -> tuple[View, Rows]:
    """Return the rows of the candidates, in a view that knows as many of them as can be known.

    Whole Node objects of nodes that the watch has not shown yet come with the question itself.
    """
    if question.form is Form.NAMES:
        return view, question.listed.rows(view.snapshot.table)
    rows = locate(view.snapshot.table, question.names)
    unknown = np.flatnonzero(rows == UNKNOWN_ROW)
    if not len(unknown):
        return view, rows
    view = view.with_nodes([question.node(at) for at in unknown.tolist()])
    return view, locate(view.snapshot.table, question.names)


# -- filter --------------------------------------------------------------------------------------------------------


def filter_candidates(view: View, question: Question, settings: VerbSettings) -> FilterAnswer:
    """Decide which candidates may run the pod; a pod without GPUs is left alone."""
    if not question.pod.gpu.count:
        # Without managedResources every pod is sent: none of these shall wait for us.
        return FilterAnswer(np.arange(_candidates(question), dtype=np.intp))
    if not view.synced:
        return FilterAnswer.failed(NOT_SYNCED)
    view, rows = see_candidates(view, question)
    known = not len(rows) or int(rows.min()) > UNKNOWN_ROW
    plain = known and not settings.trust_scheduler and not view.holds.lines
    if plain and fitting(view.snapshot, question.pod, rows).all():
        return FilterAnswer(np.arange(len(rows), dtype=np.intp), (), rows, view.snapshot.table)
    reasons, codes = _judged(view, question.pod, rows, settings)
    stays = np.array([settings.keeps(reason) for reason in reasons], dtype=np.bool_)[codes]
    kept = np.flatnonzero(stays)
    if not len(kept):
        contradicted = [at for at in np.unique(codes).tolist() if settings.contradicts(reasons[at])]
        if contradicted:
            text = ", ".join(reasons[at].text for at in contradicted)
            contradictions = int(np.isin(codes, contradicted).sum())
            return FilterAnswer.failed(_out_of_date(contradictions, len(rows), text), unsure=True)
        held = int(np.count_nonzero(codes == len(reasons) - 1))
        if (not known or held) and not _preemption_helps(view.snapshot, question.pod, rows, reasons, codes):
            return FilterAnswer.failed(_only_time_helps(rows, held), unsure=not known)
    failures = tuple(
        _failure(reasons[code], np.flatnonzero(codes == code)) for code in np.unique(codes[~stays]).tolist()
    )
    return FilterAnswer(kept, failures, rows, view.snapshot.table, unsure=bool(failures) and not len(kept))


def filter_booking(question: Question, answer: FilterAnswer) -> str | None:
    """Return the node that kube-scheduler has no choice but to take: it does not ask prioritize about one node."""
    if answer.error or answer.table is None or len(answer.kept) != 1:
        return None
    return question.names[int(answer.kept[0])]


def _failure(reason: Reason, positions: Rows) -> Failure:
    return Failure(reason.cause.name.lower(), reason.text, not reason.resolvable, positions)


def _candidates(question: Question) -> int:
    return len(question.items) if question.form is Form.NODES else len(question.names)


def _judged(view: View, pod: PodInfo, rows: Rows, settings: VerbSettings) -> tuple[tuple[Reason, ...], Codes]:
    """Return the possible reasons, those for unknown and for held nodes last, and which of them each candidate has."""
    snapshot = view.snapshot
    verdicts = _verdicts(snapshot, pod, settings)
    # UNKNOWN_ROW reads the last entry.
    codes = np.append(verdicts.codes, np.int32(len(verdicts.reasons)))[rows]
    if view.holds.lines:
        # What would be kept but for the promise: a promise is never given as the reason where another is true.
        free_to_take = np.array([settings.keeps(reason) for reason in (*verdicts.reasons, NOT_KNOWN)])[codes]
        codes[free_to_take & view.holds.blocked(snapshot, pod, rows)] = len(verdicts.reasons) + 1
    return (*verdicts.reasons, NOT_KNOWN, HELD), codes


def _verdicts(snapshot: Snapshot, pod: PodInfo, settings: VerbSettings) -> Verdicts:
    """Judge every node; by what is not an amount alone, where kube-scheduler's count is trusted."""
    if settings.trust_scheduler:
        return static_verdicts(snapshot.table, pod.constraints, pod.gpu)
    return filter_nodes(snapshot, pod)


def _preemption_helps(snapshot: Snapshot, pod: PodInfo, rows: Rows, reasons: tuple[Reason, ...], codes: Codes) -> bool:
    """Tell whether pods could be evicted for this one from a candidate that we refuse because it is full.

    kube-scheduler tries that after FailedNodes and never after an Error. What it did not offer does not count: where
    holds alone refuse what it did offer, only time has to pass (docs/holds.md).
    """
    full = np.array([reason.cause is Cause.RESOURCES and reason.resolvable for reason in reasons], dtype=np.bool_)
    return pod.may_preempt and eviction_helps(snapshot, pod, rows[full[codes]].tolist())


def _only_time_helps(rows: Rows, held: int) -> str:
    # As FailedNodes the pod would sleep up to five minutes: for the scheduler nothing changes when our watch catches
    # up or a hold runs out. An Error is tried again within ten seconds (docs/background.md, "Control plane").
    unknown = int(np.count_nonzero(rows == UNKNOWN_ROW))
    causes = [f"{unknown} of {len(rows)} are not known yet"] if unknown else []
    causes += [f"{held} of {len(rows)} are held for a larger pod that waits"] if held else []
    return f"no candidate is left, and {' and '.join(causes)}"


def _out_of_date(contradicted: int, candidates: int, text: str) -> str:
    # A node that has just been uncordoned: the scheduler asks at once, and its watch was faster than ours.
    return f"no candidate is left, and {contradicted} of {candidates} are offered although we still read: {text}"


# -- prioritize ----------------------------------------------------------------------------------------------------


def prioritize_candidates(
    view: View, question: Question, settings: VerbSettings, rows: Rows | None = None
) -> PrioritizeAnswer:
    """Score the candidates: the best that fits 10, the others that fit 0..9, what does not fit or is unknown 0.

    Nodes that are full once bookings count are scored 0 as well, unless no other is left: the scheduler offers them,
    so a booking must have been wrong. Of more candidates than `ranked_up_to` the best alone is listed: kube-scheduler
    takes those without an entry for 0, and where our weight decides nothing but the 10 counts.

    `rows` are the candidates' rows, when they are known already from the filter call before.
    """
    if rows is None:
        view, rows = see_candidates(view, question)
    ranked = len(rows) <= settings.ranked_up_to
    nothing = _all_zero(rows, view.snapshot.table) if ranked else _only(None, view.snapshot.table, len(rows))
    pod = question.pod
    if not view.synced or (settings.pass_through_pods_without_gpus and not pod.gpu.count):
        return nothing
    candidates = _distinct(rows[rows > UNKNOWN_ROW], len(view.snapshot))
    candidates = candidates[fitting(view.snapshot, pod, candidates)]
    if not len(candidates):
        return nothing
    snapshot = view.for_scoring(pod.uid)
    candidates = _not_booked(snapshot, pod, candidates)
    if not ranked:
        return _only(best_row(settings.policy, snapshot, pod, candidates), snapshot.table, len(rows))
    by_row = np.zeros(len(snapshot) + 1, dtype=np.int64)  # UNKNOWN_ROW reads the last entry
    by_row[candidates] = run_score(settings.policy, snapshot, pod, candidates)
    return replace(nothing, scores=_once(by_row[rows], rows), best=snapshot.table.names[int(by_row.argmax())])


def _all_zero(rows: Rows, table: NodeTable) -> PrioritizeAnswer:
    return PrioritizeAnswer(np.zeros(len(rows), dtype=np.int64), rows, table)


def _only(row: int | None, table: NodeTable, candidates: int) -> PrioritizeAnswer:
    """List the best of so many candidates, or nobody."""
    rows = np.array([] if row is None else [row], dtype=np.intp)
    scores = np.full(len(rows), MAX_SCORE, dtype=np.int64)
    best = None if row is None else table.names[row]
    return PrioritizeAnswer(scores, rows, table, best, left_out=candidates - len(rows))


def _not_booked(snapshot: Snapshot, pod: PodInfo, rows: Rows) -> Rows:
    """Return the rows that have room once bookings count; all of them where none has."""
    if snapshot.booked is None:
        return rows
    # Every booking takes a place among the pods: only where one is taken can it be short.
    at = np.flatnonzero(snapshot.booked[snapshot.table.axis.index[PODS]].take(rows))
    left = minus(snapshot.free[:, rows[at]], snapshot.booked[:, rows[at]])
    has = np.ones(len(rows), dtype=np.bool_)
    has[at] = has_room(snapshot.table, left, pod, np.arange(len(at)))
    return rows[has] if has.any() else rows


def _distinct(rows: Rows, size: int) -> Rows:
    seen = np.zeros(size, dtype=np.bool_)
    seen[rows] = True
    return np.flatnonzero(seen)


def _once(scores: Scores, rows: Rows) -> Scores:
    """Give a node that is asked about twice its score once: kube-scheduler adds both up."""
    if np.bincount(rows + 1)[1:].max() == 1:
        return scores
    _, first = np.unique(rows, return_index=True)
    again = np.ones(len(rows), dtype=np.bool_)
    again[first] = False
    return np.where(again, 0, scores)


# -- preempt -------------------------------------------------------------------------------------------------------


def preempt_candidates(view: View, question: PreemptQuestion, settings: VerbSettings) -> Mapping[str, Victims]:
    """Return the candidates on which evicting the victims can really help, in the order asked.

    kube-scheduler's dry run has tried in-tree filters only: without this verb pods are evicted from nodes that our
    filter then refuses (docs/background.md, "Protocol").
    """
    pod = question.pod
    if not view.synced or not pod.may_preempt:
        return {}
    verdicts = _verdicts(view.snapshot, pod, settings)
    found = {
        name: _worth_evicting(view.snapshot, pod, name, victims)
        for name, victims in question.candidates.items()
        if _can_ever_run(view.snapshot.table, verdicts, name, settings)
    }
    return {name: victims for name, victims in found.items() if victims is not None}


def _can_ever_run(table: NodeTable, verdicts: Verdicts, name: str, settings: VerbSettings) -> bool:
    row = table.index.get(name)
    if row is None:
        return True  # the scheduler knows this node and we do not: its word counts
    reason = verdicts.reason(row)
    return settings.keeps(reason) or (reason.cause is Cause.RESOURCES and reason.resolvable)


def _worth_evicting(snapshot: Snapshot, pod: PodInfo, name: str, victims: Victims) -> Victims | None:
    """Return the victims for one node; None to drop it.

    Candidates may come without victims, because in-tree filters see no shortage where we do (kubernetes#135486);
    the scheduler refuses to get them back so.
    """
    if victims.uids:
        known = {held.uid: held.priority for held in snapshot.pods_on(name)} | dict(victims.priorities)
        return None if any(known.get(uid, pod.priority - 1) >= pod.priority for uid in victims.uids) else victims
    row = snapshot.table.index.get(name)
    chosen = None if row is None else victims_on(snapshot, pod, row)
    return replace(victims, uids=tuple(victim.uid for victim in chosen)) if chosen else None
