from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.dump.yamlvalues import load_values

TEXTS = st.text(st.sampled_from("ab:0-.+eE#'\"~ \n{}[]&*!|>%@`\t,?=<é") | st.characters(codec="utf-8"), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(TEXTS, v, max_size=4), max_leaves=20)


@given(VALUES, st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"', "|"]))
def test_every_value_is_read_as_pyyaml_reads_it(value, flow, style):
    text = yaml.safe_dump(value, default_flow_style=flow, default_style=style, allow_unicode=True)
    assert list(load_values(text.encode())) == [yaml.load(text, Loader=yaml.CSafeLoader)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\n- 1\n...\n---\n",
        "[yes, No, on, ~, null, Null, '', 0x1F, 0o17, 017, 1_000, 1:30, .5, 1e3, 1.5e+3, .inf, -.INF]",
        "a: &x {b: 1}\nc: *x\nd: [*x, *x]",
        "base: &b {a: 1, b: 2}\none: {<<: *b, b: 3}\ntwo: {b: 3, <<: [{a: 9}, *b]}\nthree: {'<<': *b}",
        "!!str 5",
        "a: !!str 5\nb: !!int '7'\nc: ! 7\nd: !!seq [1]\ne: !!map {a: b}",
        "? a\n: b\n? c\n",
        "1: one\ntrue: two\nnull: three",
        "a: |\n  x\n  y\nb: >-\n  x\n  y\n",
        "{a: 1, a: 2}",
    ],
)
def test_every_feature_is_read_as_pyyaml_reads_it(text):
    assert list(load_values(text.encode())) == list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def test_an_alias_is_the_same_object():
    ((first, second),) = load_values(b"[&x {a: 1}, *x]")
    assert first is second
    (loop,) = load_values(b"&x [*x]")
    assert loop[0] is loop


def test_dates_and_a_lone_equals_sign_stay_text():
    assert list(load_values(b"[2026-01-01, 2026-01-01T00:00:00Z, =]")) == [["2026-01-01", "2026-01-01T00:00:00Z", "="]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: *x", "found undefined alias 'x'"),
        ("&x a\n---\n*x", "found undefined alias 'x'"),  # anchors end with their document
        ("? [a]\n: b", "found unhashable key"),
        ("<<: 7", "expected a mapping for merging"),
        ("!!python/object:os.system x", "could not determine a constructor"),
        ("!!set {a, b}", "could not determine a constructor"),
        ("a: [1\nb: 2", "did not find expected"),
        ("!!int x", "'x' is no int"),
        ("a: !!bool x", "'x' is no bool"),
        ("!!float []", "could not determine a constructor"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(yaml.MarkedYAMLError, match=words) as caught:
        list(load_values(text.encode()))
    assert caught.value.problem_mark is not None


@pytest.mark.parametrize(
    "number",
    ["9" * 5000, "0x" + "f" * 5000, "0b" + "1" * 20_000, "0" + "7" * 5000, "1" + ":59" * 3000, "1" * 400 + ".0"],
)
def test_a_number_that_is_too_long_to_be_one_stays_text(number):
    assert list(load_values(f"[{number}, -{number}]".encode())) == [[number, f"-{number}"]]
    with pytest.raises(yaml.MarkedYAMLError, match="a number of"):
        list(load_values(f"!!int {number}".encode()))


ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize("text", [ALIASES, MERGES], ids=["aliases", "merges"])
def test_aliases_stand_for_no_more_than_a_dump_can_mean(text):
    with pytest.raises(yaml.MarkedYAMLError, match="aliases stand for more than 1,000,000 values"):
        list(load_values(text.encode()))


def test_a_template_may_be_used_for_every_node():
    text = "t: &t {labels: {a: b, c: d}, taints: []}\nitems:\n" + "- *t\n" * 10_000
    ((document),) = load_values(text.encode())
    assert len(document["items"]) == 10_000
