from __future__ import annotations

from extender.packing.fit import static_verdicts
from extender.packing.gpu import GpuRequest
from extender.packing.memory import ByIdentity, Lineage, Memory
from extender.packing.selectors import NodeConstraints
from extender.packing.table import NodeTable
from tests.builders import node


def size(_):
    return 10


def test_a_value_is_made_once_per_key():
    memory, made = Memory(100), iter("abc")
    assert [memory.recall(key, lambda: next(made), size) for key in (1, 1, 2, 1)] == ["a", "a", "b", "a"]


def test_a_full_memory_begins_anew():
    memory = Memory(25)
    for key in range(3):
        memory.recall(key, lambda: "x", size)
    assert len(memory) == 1


def test_what_is_larger_than_the_memory_is_made_and_not_kept():
    memory = Memory(25)
    memory.recall(1, lambda: "x", size)
    assert memory.recall(2, lambda: "y", lambda _: 26) == "y"
    assert len(memory) == 0


def test_equal_owners_have_values_of_their_own_until_most_are_gone():
    memory = ByIdentity[list[int], int]()
    owners = [[1] for _ in range(100)]
    numbers = iter(range(1000))
    assert [memory.recall(owner, lambda _: next(numbers)) for owner in (*owners, owners[0])] == [*range(100), 0]
    memory.trim(len(owners))
    assert len(memory) == 100
    memory.trim(10)
    assert len(memory) == 0


def test_constraints_of_many_large_pods_are_not_kept():
    table = NodeTable.of([node("n").build()])
    for at in range(300):
        selector = tuple((f"k{line}-{at}", "v" * 40) for line in range(2000))  # about 300 x 0.5 MB
        static_verdicts(table, NodeConstraints(selector=selector), GpuRequest())
    assert len(table.answers) < 200


def heir(before, state, change):
    lineage = Lineage[str, int]()
    lineage.inherit(before, state, change)
    return lineage


def test_what_was_known_follows_each_change_as_it_comes():
    first, key, followed = Lineage[str, int](), ("sum", None), []

    def follow(value, state, change):
        followed.append((state, change))
        return value + change

    assert first.recall(key, lambda: 1, follow) == 1
    last = heir(heir(first, "second", 10), "third", 100)
    assert last.recall(key, lambda: 0, follow) == 111
    assert followed == [("second", 10), ("third", 100)]
    assert first.recall(key, lambda: 0, follow) == 1


def test_what_cannot_follow_or_does_not_is_made_anew():
    first = Lineage[str, int]()
    first.recall(("still", None), lambda: 1)
    first.recall(("moves", None), lambda: 1, lambda value, _, by: None if by == 10 else value + by)
    assert [heir(first, "", 1).recall((kind, None), lambda: 7) for kind in ("still", "moves")] == [7, 2]
    assert heir(heir(first, "", 1), "", 10).recall(("moves", None), lambda: 7) == 7


def test_kinds_that_hold_still_are_kept():
    first, after = Lineage[str, int](), Lineage[str, int]()
    for kind in ("kept", "not"):
        first.recall((kind, None), lambda: 1)
    after.keep(first, {"kept"})
    assert [after.recall((kind, None), lambda: 2) for kind in ("kept", "not")] == [1, 2]
