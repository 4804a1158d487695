"""Answers -> bodies, in the exact casing of Go's field names, compact, integers only.

What makes kube-scheduler discard an answer, and what it takes for "no node", is in docs/background.md, "Protocol": a
filter answer always has its list, a prioritize answer is a bare array, a preempt answer never holds null or an empty
list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from extender.packing.framework import Rows
from extender.wire.slots import Piece, SlotTable, quoted
from extender.wire.values import Failure, FilterAnswer, Form, PrioritizeAnswer, Question, Victims

_NO_MAPS: Final = b'"FailedNodes":{},"FailedAndUnresolvableNodes":{}'


def encode_filter(question: Question, answer: FilterAnswer) -> bytes:
    """Encode an ExtenderFilterResult in the form of its question."""
    if answer.error:
        return encode_filter_error(question.form, answer.error)
    failed = [_reasons(question, answer, failure) for failure in answer.failures]
    hopeless = [text for text, failure in zip(failed, answer.failures, strict=True) if failure.unresolvable]
    # Joined once: an answer can be as large as the question.
    return b"".join(
        (
            *_kept(question, answer),
            b',"FailedNodes":{', *_between_commas(failed),
            b'},"FailedAndUnresolvableNodes":{', *_between_commas(hopeless), b'},"Error":""}',
        )
    )  # fmt: skip


def encode_filter_error(form: Form, error: str) -> bytes:
    """Encode a filter answer that is an error; the form asked for, should it be looked at, is an empty list."""
    listed = b'"NodeNames":[]' if form is Form.NAMES else b'"Nodes":{"metadata":{},"items":[]}'
    return b'{%b,%b,"Error":%b}' % (listed, _NO_MAPS, quoted(error))


def _kept(question: Question, answer: FilterAnswer) -> Iterator[Piece]:
    """Yield the opening brace and the member with the nodes that stay."""
    if question.form is Form.NODES:
        # The scheduler goes on with the Node objects it gets back: they must be its own, byte for byte.
        yield b'{"Nodes":{"metadata":{},"items":['
        yield from _between_commas([question.items[at] for at in answer.kept.tolist()])
        yield b"]}"
    elif not answer.failures:
        yield b'{"NodeNames":'
        yield question.listed.json
    else:
        yield b'{"NodeNames":['
        yield _names(question, answer)
        yield b"]"


def _names(question: Question, answer: FilterAnswer) -> Piece:
    slots, rows = _slots_of(answer, answer.kept)
    if slots is not None:
        return slots.names(rows)
    return _join(quoted(question.names[at]) for at in answer.kept.tolist())


def foreseen_names(question: Question, answer: FilterAnswer) -> bytes:
    """Return NodeNames as Go will write it when it asks prioritize about what filter has kept; "" if that is unsure."""
    if answer.error or question.form is Form.NODES or answer.rows is None:
        return b""
    if not answer.failures:
        return question.listed.json
    slots, rows = _slots_of(answer, answer.kept)
    return b"" if slots is None else slots.compact_list(rows)


def _reasons(question: Question, answer: FilterAnswer, failure: Failure) -> Piece:
    reason = quoted(failure.reason)
    slots, rows = _slots_of(answer, failure.positions)
    if slots is not None:
        return slots.reasons(rows, reason)
    return _join(b"%b:%b" % (quoted(question.names[at]), reason) for at in failure.positions.tolist())


def encode_prioritize(question: Question, answer: PrioritizeAnswer) -> bytes:
    """Encode a HostPriorityList: one entry per candidate that is listed, in the order asked."""
    known = _all_known(answer.rows)
    if known and (slots := SlotTable.of(answer.table)).usable:
        return b"".join((b"[", slots.scores(answer.rows, answer.scores), b"]"))
    names = [answer.table.names[row] for row in answer.rows.tolist()] if known else question.names
    pairs = zip(names, answer.scores.tolist(), strict=True)
    return b"[%b]" % _join(b'{"Host":%b,"Score":%d}' % (quoted(name), score) for name, score in pairs)


def encode_preempt(candidates: Mapping[str, Victims]) -> bytes:
    """Encode an ExtenderPreemptionResult; candidates without victims must have been dropped."""
    return _json({"NodeNameToMetaVictims": {name: _meta_victims(victims) for name, victims in candidates.items()}})


def _meta_victims(victims: Victims) -> dict[str, Any]:
    return {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.pdb_violations}


def encode_error(error: str) -> bytes:
    """Encode an object with nothing but `Error`: the answer of bind ("" for bound), and of every refused body."""
    return _json({"Error": error})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _between_commas(pieces: Sequence[Piece]) -> Iterator[Piece]:
    for at, piece in enumerate(pieces):
        if at:
            yield b","
        yield piece


def _join(pieces: Iterable[bytes]) -> bytes:
    return b",".join(pieces)


def _slots_of(answer: FilterAnswer, positions: Rows) -> tuple[SlotTable | None, Rows]:
    """Return the slots that hold every one of some candidates, and their rows; None when not all have a slot."""
    if answer.table is None or answer.rows is None:
        return None, positions
    rows = answer.rows[positions]
    slots = SlotTable.of(answer.table) if _all_known(rows) else None
    return (slots if slots is not None and slots.usable else None), rows


def _all_known(rows: Rows) -> bool:
    return not len(rows) or int(np.min(rows)) >= 0
