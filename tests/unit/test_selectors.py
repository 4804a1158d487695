from __future__ import annotations

import pytest

from extender.packing.fit import filter_nodes
from extender.packing.labels import Labels
from extender.packing.selectors import (
    NAME_FIELD,
    NodeConstraints,
    Operator,
    Requirement,
    Taint,
    Term,
    Toleration,
    TolerationSet,
    parse_int64,
    valid_label_value,
)
from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from extender.packing.types import NodeInfo
from tests.builders import node, pod, term

MEMORY = "nvidia.com/gpu.memory"


def labels_of(name, labels):
    return Labels.of(NodeTable.of([NodeInfo(name, labels, {}, {})]))


def matches(asked, labels, name="n"):
    """Tell whether a node satisfies a term."""
    return labels_of(name, labels).matching(asked).tolist() == [True]


def selects(constraints, labels):
    return labels_of("n", labels).selected(constraints).tolist() == [True]


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
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
def test_operators(operator, values, value, expected):
    labels = {} if value is None else {MEMORY: value}
    assert matches(term(MEMORY, operator, *values), labels) == expected
    # Filter agrees
    one = node("n") if value is None else node("n").label(MEMORY, value)
    fits = filter_nodes(Snapshot.of([one.build()]), pod("p").require(term(MEMORY, operator, *values)).build()).fits
    assert fits.tolist() == [expected]


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
    assert not matches(term("key", operator, *values), {})
    assert not matches(term("key", operator, *values), {"key": "a"})


@pytest.mark.parametrize("key", ["", "/a", "a/", "A.b/c", "-a", "a" * 64, "a b", "a/b/c"])
def test_a_key_that_cannot_be_a_label_matches_nothing(key):
    assert not matches(term(key, "DoesNotExist"), {})


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
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
def test_fields_know_the_name_of_the_node_and_two_operators(operator, values, expected):
    by_name = Term(fields=(Requirement(NAME_FIELD, Operator(operator), tuple(values)),))
    assert matches(by_name, {}, "n1") == expected
    fits = filter_nodes(Snapshot.of([node("n1").build()]), pod("p").require(by_name).build()).fits
    assert fits.tolist() == [expected]


def test_a_long_node_name_is_no_label_value_and_still_a_name():
    name = "gpu." * 30 + "example"
    assert matches(Term(fields=(Requirement(NAME_FIELD, Operator.IN, (name,)),)), {}, name)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("In", "x", False), ("NotIn", "x", True), ("In", "", True), ("NotIn", "", False)],
)
def test_other_fields_are_empty_on_every_node(operator, value, expected):
    # extractNodeFields gives the name alone, and fields.Set.Get "" for every other key
    assert matches(Term(fields=(Requirement("metadata.uid", Operator(operator), (value,)),)), {}) == expected


def test_a_label_may_be_called_like_the_field():
    labelled = term(NAME_FIELD, "In", "x")
    nodes = [node("a").label(NAME_FIELD, "x").build(), node("x").build()]
    assert filter_nodes(Snapshot.of(nodes), pod("p").require(labelled).build()).fits.tolist() == [True, False]


def test_lines_of_a_term_must_all_match_and_one_term_is_enough():
    both = Term((Requirement("a", Operator.EXISTS), Requirement("b", Operator.EXISTS)))
    assert matches(both, {"a": "", "b": ""})
    assert not matches(both, {"a": ""})
    either = NodeConstraints(affinity=(both, term("c", "Exists")))
    assert selects(either, {"c": "1"})
    assert not selects(either, {"a": "1"})


def test_an_empty_term_and_an_empty_list_of_terms_match_nothing():
    assert not matches(Term(), {})
    assert not selects(NodeConstraints(affinity=()), {})
    assert selects(NodeConstraints(affinity=None), {})


def test_the_selector_compares_whole_values_and_knows_no_grammar():
    constraints = NodeConstraints(selector=(("gpu", "Tesla M40"),))
    assert selects(constraints, {"gpu": "Tesla M40"})
    assert not selects(constraints, {"gpu": "Tesla-M40"})
    assert not selects(constraints, {})


def test_more_labels_than_nodes_have_are_still_told_apart():
    keys = [f"k{at}" for at in range(50)]
    assert selects(NodeConstraints(selector=tuple((key, "") for key in keys)), dict.fromkeys(keys, ""))
    missing = Term(tuple(Requirement(f"no-{key}", Operator.DOES_NOT_EXIST) for key in keys))
    assert matches(missing, dict.fromkeys(keys, ""))
    assert not matches(term("no-such", "In", ""), dict.fromkeys(keys, ""))


def test_preferred_terms_add_up():
    table = NodeTable.of([NodeInfo(name, labels, {}, {}) for name, labels in (("a", {"x": "1"}), ("b", {}))])
    terms = pod("p").prefer(30, term("x", "Exists")).prefer(5, term("y", "DoesNotExist")).prefer(9, Term()).build()
    assert Labels.of(table).preferred(terms.preferred).tolist() == [35, 5]


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
        (Toleration(value="v"), True),  # an empty key is any key, whatever validation asks for
        (Toleration(value="w"), False),
        (Toleration(), False),
    ],
)
def test_tolerations(toleration, tolerated):
    taint = Taint("k", "v", "NoSchedule")
    tolerations = TolerationSet((Toleration("q"), toleration))
    assert tolerations.covers(taint) == tolerated
    assert tolerations.uncovered((taint,)) == (None if tolerated else taint)


def test_a_toleration_of_nothing_tolerates_any_taint_without_value():
    assert TolerationSet((Toleration(),)).covers(Taint("k"))


def test_only_two_effects_keep_pods_away():
    taints = (Taint("a", effect="PreferNoSchedule"), Taint("b", effect="Whatever"), Taint("c", effect="NoExecute"))
    assert TolerationSet(()).uncovered(taints) == taints[2]


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
