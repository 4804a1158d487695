from __future__ import annotations

import pytest

from extender.packing.fit import filter_nodes
from extender.packing.selectors import (
    NAME_FIELD,
    NodeConstraints,
    Operator,
    Requirement,
    Taint,
    Term,
    Toleration,
    parse_int64,
    valid_label_value,
)
from extender.packing.snapshot import Snapshot
from tests.builders import node, pod, term

MEMORY = "nvidia.com/gpu.memory"


@pytest.mark.parametrize(
    ("operator", "values", "value", "matches"),
    [
        ("In", ["a", "b"], "b", True),
        ("In", ["a"], "A", False),  # label values are case-sensitive
        ("In", ["a"], None, False),
        ("In", [""], "", True),
        ("NotIn", ["a"], "b", True),
        ("NotIn", ["a"], "a", False),
        ("NotIn", ["a"], None, True),  # an absent label is not in the list
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], None, True),
        ("DoesNotExist", [], "", False),
        ("Gt", ["40000"], "40001", True),
        ("Gt", ["40000"], "40000", False),
        ("Gt", ["40000"], "081559", True),  # leading zeros are decimal
        ("Gt", ["40000"], "40GB", False),
        ("Gt", ["40000"], None, False),
        ("Gt", ["0"], "9223372036854775808", False),  # 2^63 does not parse
        ("Lt", ["24000"], "-5", True),
        ("Lt", ["24000"], "24000", False),
        ("Lt", ["24000"], "", False),
    ],
)
def test_operators(operator, values, value, matches):
    labels = {} if value is None else {MEMORY: value}
    assert term(MEMORY, operator, *values).matches("n", labels) == matches
    # the vectorised Filter agrees
    one = node("n") if value is None else node("n").label(MEMORY, value)
    fits = filter_nodes(Snapshot.of([one.build()]), pod("p").require(term(MEMORY, operator, *values)).build()).fits
    assert fits.tolist() == [matches]


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", []),
        ("NotIn", []),
        ("Exists", ["a"]),
        ("DoesNotExist", ["a"]),
        ("Gt", []),
        ("Gt", ["1", "2"]),
        ("Gt", ["1.5"]),
        ("Lt", ["-5"]),  # an integer, but no label value: labels.NewRequirement refuses it
        ("NotIn", ["Tesla K80"]),
        ("In", ["Tesla-K80", "Tesla K80"]),  # one bad value spoils the line
        ("Equals", ["a"]),
    ],
)
def test_a_line_the_scheduler_cannot_read_matches_nothing(operator, values):
    assert not term("key", operator, *values).matches("n", {})
    assert not term("key", operator, *values).matches("n", {"key": "a"})


@pytest.mark.parametrize("key", ["", "/a", "a/", "A.b/c", "-a", "a" * 64, "a b", "a/b/c"])
def test_a_key_that_cannot_be_a_label_matches_nothing(key):
    assert not term(key, "DoesNotExist").matches("n", {})


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["n1"], True),
        ("In", ["n2"], False),
        ("NotIn", ["n2"], True),
        ("NotIn", ["n1"], False),
        ("In", ["n1", "n2"], False),  # exactly one value is allowed here
        ("Exists", [], False),
        ("Gt", ["1"], False),
    ],
)
def test_fields_know_the_name_of_the_node_and_two_operators(operator, values, matches):
    by_name = Term(fields=(Requirement(NAME_FIELD, Operator(operator), tuple(values)),))
    assert by_name.matches("n1", {}) == matches
    fits = filter_nodes(Snapshot.of([node("n1").build()]), pod("p").require(by_name).build()).fits
    assert fits.tolist() == [matches]


def test_a_long_node_name_is_no_label_value_and_still_a_name():
    name = "gpu." * 30 + "example"
    assert Term(fields=(Requirement(NAME_FIELD, Operator.IN, (name,)),)).matches(name, {})


def test_other_fields_match_nothing():
    assert not Term(fields=(Requirement("metadata.uid", Operator.NOT_IN, ("x",)),)).matches("n", {})


def test_a_label_may_be_called_like_the_field():
    labelled = term(NAME_FIELD, "In", "x")
    nodes = [node("a").label(NAME_FIELD, "x").build(), node("x").build()]
    assert filter_nodes(Snapshot.of(nodes), pod("p").require(labelled).build()).fits.tolist() == [True, False]


def test_lines_of_a_term_must_all_match_and_one_term_is_enough():
    both = Term((Requirement("a", Operator.EXISTS), Requirement("b", Operator.EXISTS)))
    assert both.matches("n", {"a": "", "b": ""})
    assert not both.matches("n", {"a": ""})
    either = NodeConstraints(affinity=(both, term("c", "Exists")))
    assert either.selects("n", {"c": "1"})
    assert not either.selects("n", {"a": "1"})


def test_an_empty_term_and_an_empty_list_of_terms_match_nothing():
    assert not Term().matches("n", {})
    assert not NodeConstraints(affinity=()).selects("n", {})
    assert NodeConstraints(affinity=None).selects("n", {})


def test_the_selector_compares_whole_values_and_knows_no_grammar():
    constraints = NodeConstraints(selector=(("gpu", "Tesla M40"),))
    assert constraints.selects("n", {"gpu": "Tesla M40"})
    assert not constraints.selects("n", {"gpu": "Tesla-M40"})
    assert not constraints.selects("n", {})


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("k", value="v", effect="NoSchedule"), True),
        (Toleration("k", value="v"), True),
        (Toleration("k", value="w"), False),
        (Toleration("k"), False),
        (Toleration("k", exists=True), True),
        (Toleration("other", exists=True), False),
        (Toleration(exists=True), True),
        (Toleration(exists=True, effect="NoExecute"), False),
        (Toleration(value="v"), False),
    ],
)
def test_tolerations(toleration, tolerated):
    taint = Taint("k", "v", "NoSchedule")
    assert toleration.tolerates(taint) == tolerated
    kept_off = NodeConstraints(tolerations=(toleration,)).untolerated((taint,))
    assert kept_off == (None if tolerated else taint)


def test_only_two_effects_keep_pods_away():
    taints = (Taint("a", effect="PreferNoSchedule"), Taint("b", effect="Whatever"), Taint("c", effect="NoExecute"))
    assert NodeConstraints().untolerated(taints) == taints[2]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("+5", 5), ("-5", -5), ("007", 7), ("", None), ("5 ", None), ("1e3", None), ("0x1", None), ("٣", None)],
)
def test_integers_are_read_as_go_reads_them(text, number):
    assert parse_int64(text) == number


@pytest.mark.parametrize(
    ("text", "valid"),
    [("", True), ("Tesla-M40", True), ("a_b.c-d", True), ("a" * 63, True), ("a" * 64, False)]
    + [(text, False) for text in ("Tesla M40", "-a", "a-", ".a", "ä", "a/b")],
)
def test_label_values(text, valid):
    assert valid_label_value(text) == valid
