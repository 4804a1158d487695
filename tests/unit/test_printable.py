"""Nothing that a file says moves a cursor, forges a line or stops a stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.printable import printable, printable_lines, shortened, shown

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-0001", "gpu-0001"),
        ("n\u00f6de [/x]", "n\u00f6de [/x]"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nerror: forged\r", r"a\nerror: forged\r"),
        ("\ud800", r"\ud800"),
        ("\x9b31m", r"\x9b31m"),  # the same sequence in 8 bits
        ("abc\u202ecba", r"abc\u202ecba"),  # right to left
    ],
)
def test_what_is_not_printable_is_an_escape(text, expected):
    assert printable(text) == expected


@given(ANY_TEXT)
def test_the_result_is_one_line_that_every_stream_takes(text):
    assert printable(text).isprintable()
    assert printable(text).encode().decode() == printable(text)
    assert printable_lines(text).count("\n") == text.count("\n")


@given(st.recursive(ANY_TEXT | st.integers() | st.none(), lambda v: st.lists(v) | st.dictionaries(ANY_TEXT, v)))
def test_a_value_is_shown_in_one_short_line(value):
    assert shown(value).isprintable()
    assert len(shown(value)) < 250


def test_what_python_would_not_write_is_shown():
    assert shown(1 << 100_000) == "a number of 100001 bits"
    bomb: list[Any] = ["x"] * 10
    for _ in range(20):
        bomb = [bomb] * 10
    assert len(shown(bomb)) < 250
    assert shown("y" * 10**6).startswith("'yyy")


def test_a_long_text_says_what_is_missing():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdef", 3) == "abc... (3 more characters)"
