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
