"""The latest values by key, in their bounds."""

from __future__ import annotations

from extender.recent import Recent


def test_the_oldest_make_room_by_number() -> None:
    recent: Recent[str, int] = Recent(2, 100)
    for at, key in enumerate("abac"):
        recent.put(key, at, 1)
    assert [recent.get(key) for key in "abc"] == [2, None, 3], "`a` was put anew"


def test_the_oldest_make_room_by_bytes_and_what_is_gone_takes_none() -> None:
    recent: Recent[str, int] = Recent(10, 100)
    for key, size in {"a": 60, "b": 30, "c": 20}.items():
        recent.put(key, size, size)
    assert ["a" in recent, "b" in recent, "c" in recent] == [False, True, True]
    recent.pop("b")
    recent.pop("never")
    recent.put("c", 1, 10)
    recent.put("d", 1, 90)
    assert (len(recent), "c" in recent) == (2, True)


def test_what_is_larger_than_all_the_room_is_not_kept_and_costs_nobody() -> None:
    recent: Recent[str, int] = Recent(10, 100)
    recent.put("a", 1, 50)
    recent.put("b", 1, 50)
    recent.put("a", 2, 101)
    assert (recent.get("a"), recent.get("b")) == (None, 1)
