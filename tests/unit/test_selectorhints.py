from __future__ import annotations

from extender.selectorhints import SelectorHints
from tests.builders import node, pod, term


def test_hints_look_at_required_terms_and_leave_existing_values_alone():
    nodes = [node("a").label("m", "a-b").build(), node("b").label("m", "ab").build()]
    hints = SelectorHints(nodes)
    assert hints.of(pod("p").select("m", "a-b").require(term("m", "In", "ab")).build()) == []
    assert hints.of(pod("p").require(term("m", "In", "A b", "ab")).build()) == [
        'm: "A b" is not a valid label value; nearest existing value: a-b'
    ]
    assert hints.of(pod("p").require(term("m", "NotIn", "A b")).build()) == []


def test_a_few_sentences_are_enough_however_much_is_selected():
    hints = SelectorHints([node("a").label("m", "a-b").build()])
    asked = pod("p").require(term("m", "In", *(f"A b {at}" for at in range(1000))))
    assert len(hints.of(asked.build())) == 4
    for at in range(10):
        asked = asked.select(f"k{at}", "v")
    assert len(hints.unmet(asked.build())) == 4


def test_a_long_value_is_not_said_in_full():
    [text] = SelectorHints([node("a").build()]).of(pod("p").select("m", "a b" * 10_000).build())
    assert len(text) < 150
