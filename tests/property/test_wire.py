"""Names found by words and hashes are those a dict finds; answers from slots are those json would write."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.packing.table import NodeTable
from extender.wire import NameList, locate
from extender.wire.names import NameIndex
from extender.wire.slots import SlotTable
from tests.builders import node

alphabet = st.sampled_from('ab0-. é"\\\u2028\x00')
plain_names = st.text(st.sampled_from("ab0-. "), min_size=1, max_size=40)
any_names = plain_names | st.text(alphabet, max_size=10) | st.sampled_from(("x" * 255, "x" * 256, "x" * 300))
known_names = st.lists(plain_names, min_size=1, max_size=30, unique=True) | st.lists(
    any_names, max_size=10, unique=True
)


@given(known=known_names, extra=st.lists(any_names, max_size=3), data=st.data())
def test_rows_are_those_a_dict_finds(known, extra, data):
    table = NodeTable.of(node(name).build() for name in known)
    asked = (
        data.draw(st.permutations([*known, *extra])) if data.draw(st.booleans()) else data.draw(st.permutations(known))
    )
    before = b'{"Pod":{}' + b" " * data.draw(st.sampled_from((0, 300))) + b',"NodeNames":'
    listed = json.dumps(asked, separators=(",", ":")).encode()
    found = NameList(before + listed + b"}", len(before), len(before) + len(listed), lambda: asked).rows(table)
    assert found.tolist() == locate(table, asked).tolist()


@given(
    known=st.lists(plain_names, min_size=1, max_size=30, unique=True),
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
)
def test_a_list_with_any_byte_changed_is_not_taken_for_the_same(known, at, byte):
    pad = b" " * 300
    listed = json.dumps(known, separators=(",", ":")).encode()
    changed = listed[: at % len(listed)] + bytes([byte]) + listed[at % len(listed) + 1 :]
    index = NameIndex(known)
    assert index.find(pad + listed, 300, 300 + len(listed)) is not None
    rows = index.find(pad + changed, 300, 300 + len(changed))
    if rows is not None:
        assert json.loads(changed) == [known[row] for row in rows.tolist()]


class Colliding(NameIndex):
    """An index for whose hash all names are one."""

    def _hash(self, words):
        return np.zeros(len(words), dtype=np.uint64)


@given(count=st.integers(1, 30))
def test_names_of_one_hash_are_found_or_left_to_the_dict(count):
    names = [f"n{number}" for number in range(count)]
    listed = b" " * 8 + json.dumps(names, separators=(",", ":")).encode()
    rows = Colliding(names).find(listed, 8, len(listed))
    assert rows is None or rows.tolist() == list(range(count))
    assert (rows is None) == (count > 1)


@given(known=st.lists(any_names, min_size=1, max_size=20, unique=True), data=st.data())
def test_slots_write_what_json_would(known, data):
    slots = SlotTable(known)
    assert slots.usable == all(len(json.dumps(name)) <= 256 for name in known)
    if not slots.usable:
        return
    rows = np.array(data.draw(st.lists(st.integers(0, len(known) - 1))), dtype=np.intp)
    scores = np.array([row % 11 for row in rows.tolist()], dtype=np.int64)
    names = [known[row] for row in rows.tolist()]
    assert json.loads(b"[%b]" % bytes(slots.names(rows))) == names
    assert slots.compact_list(rows) == json.dumps(names, separators=(",", ":")).replace(" ", r"\u0020").encode()
    assert json.loads(b"{%b}" % bytes(slots.reasons(rows, b'"why"'))) == dict.fromkeys(names, "why")
    entries = json.loads(b"[%b]" % bytes(slots.scores(rows, scores)))
    assert entries == [{"Host": name, "Score": score} for name, score in zip(names, scores.tolist(), strict=True)]
