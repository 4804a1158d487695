"""What filter hands to prioritize is bounded, in number and in bytes."""

from __future__ import annotations

import weakref

import numpy as np

from extender.handoff import HandOff, Line
from extender.packing.table import NodeTable
from tests.builders import node

TABLE = NodeTable.of([node("a").build()])


def line(names_json):
    return Line(names_json, np.zeros(1, dtype=np.intp), weakref.ref(TABLE))


def kept(handoff, names_json, uids):
    return [uid for uid in uids if handoff.find(uid, names_json, TABLE) is not None]


def test_the_last_few_are_kept():
    handoff = HandOff()
    uids = [f"u{number}" for number in range(20)]
    for uid in uids:
        handoff.put(uid, line(b'["a"]'))
    assert kept(handoff, b'["a"]', uids) == uids[4:]


def test_long_lists_make_room_for_each_other_and_too_long_a_one_finds_none():
    handoff = HandOff()
    long, too_long = b"x" * 2**25, b"x" * (2**26 + 1)
    for uid in ("u0", "u1", "u2"):
        handoff.put(uid, line(long))
    assert kept(handoff, long, ("u0", "u1", "u2")) == ["u2"]
    handoff.put("u3", line(too_long))
    assert kept(handoff, too_long, ("u3",)) == []
