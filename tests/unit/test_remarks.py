"""Thousands of warnings of one sort are a few lines for people."""

from __future__ import annotations

from extender.remarks import concerning, condensed


def bad(number):
    return f"pod ml/p{number}: spec.containers[{number}].resources.limits[cpu]: 'x{number}' is no quantity"


def test_a_few_are_left_as_they_are():
    lines = [bad(number) for number in range(5)]
    assert condensed(lines) == lines
    assert condensed([]) == []


def test_of_many_the_first_stand_and_the_rest_is_counted():
    kept = condensed([bad(number) for number in range(10_000)])
    assert kept[:4] == [bad(number) for number in range(4)]
    assert kept[4:] == [f"{bad(4)} (and 9,995 more like this)"]


def test_sorts_are_told_apart_and_keep_their_order():
    lines = [line for number in range(10) for line in (bad(number), f"node n{number}: overcommitted")]
    kept = condensed(lines)
    assert kept[:2] == lines[:2]
    assert len(kept) == 10
    assert [line.endswith("(and 5 more like this)") for line in kept] == [False] * 8 + [True] * 2


def test_lists_of_names_make_no_sorts():
    lines = [f"node {word}: not in the dump; 1 pod counted nowhere: ml/{word}-x" for word in "abcdefgh"]
    assert len(condensed(lines)) == 5


def test_thousands_of_sorts_end_some_time():
    letters = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(1000)]
    kept = condensed([f"file: ignored {word}" for word in letters])
    assert len(kept) == 201
    assert kept[-1] == "and 800 more of other sorts"


def test_what_is_about_other_objects_is_counted():
    lines = ["node a: odd", "node ab: odd", "pod ml/a: odd: very", "f.json: ignored", "node b: odd"]
    kept = concerning(lines, {"node a", "pod ml/a"}, "show")
    assert kept == [
        "node a: odd",
        "pod ml/a: odd: very",
        "f.json: ignored",
        "2 warnings about other nodes and pods; `show` shows all",
    ]
    assert concerning(lines[:1], {"node a"}, "show") == lines[:1]
    misspelt = "node b: status.allocatables: there is no such field; did you mean allocatable?"
    assert concerning([misspelt], {"node a"}, "show") == [misspelt]
    assert concerning(lines[:1], (), "show")[0].startswith("1 warning about")
