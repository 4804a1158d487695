"""Holds: who is promised a node, against whom, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from extender.packing.fit import Cause
from extender.packing.holds import HELD, HoldRules, Holds
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from tests.builders import H100, PodBuilder, node, pod

RULES = HoldRules(seconds=15, limit=2, rest_seconds=300)


def cluster(*pods: PodBuilder, free: Iterable[int] = (8,), model: str = H100) -> Snapshot:
    """Return nodes n0, n1, ... with so many free GPUs of 8, and waiting pods."""
    nodes = [node(f"n{at}").gpus(8, model).build() for at, _ in enumerate(free)]
    fillers = [pod(f"on-{at}").gpus(8 - left).on(f"n{at}").build() for at, left in enumerate(free)]
    return Snapshot.of(nodes, [*fillers, *(p.build() for p in pods)])


def held(snapshot: Snapshot, now: float = 0.0, before: Holds = Holds(), rules: HoldRules = RULES) -> Holds:  # noqa: B008
    return before.renewed(snapshot, now, rules)


def nodes_of(holds: Holds) -> dict[str, str]:
    return {hold.pod.name: hold.node for hold in holds.lines.values()}


def deadlines(holds: Holds) -> list[float]:
    return [hold.until for hold in holds.lines.values()]


def blocked(holds: Holds, snapshot: Snapshot, asked: PodInfo) -> list[str]:
    mask = holds.blocked(snapshot, asked, np.arange(len(snapshot)))
    return [name for name, no in zip(snapshot.table.names, mask, strict=True) if no]


BIG = pod("big").gpus(8).refused()


def test_a_block_is_held_for_the_larger_pod_that_waits() -> None:
    state = cluster(BIG, free=(8, 3))
    holds = held(state)
    assert nodes_of(holds) == {"big": "n0"}
    assert blocked(holds, state, pod("small").gpus(1).build()) == ["n0"]
    assert HELD.cause is Cause.HELD
    assert HELD.resolvable


def test_the_pod_itself_a_larger_one_and_one_of_higher_priority_pass() -> None:
    state = cluster(pod("four").gpus(4).refused(), free=(4,))
    holds = held(state)
    passing = [
        pod("four").gpus(4).build(),
        pod("six").gpus(6).build(),
        pod("same").gpus(4).build(),
        pod("urgent").gpus(1).priority(1).build(),
        pod("cpu only").cpu(1).build(),
        pod("promised").gpus(1).nominated("n0").build(),
    ]
    assert [p.name for p in passing if blocked(holds, state, p)] == []
    assert blocked(holds, state, pod("small").gpus(1).build()) == ["n0"]


def test_what_the_promise_leaves_over_may_be_used() -> None:
    state = cluster(pod("four").gpus(4).refused(), free=(6,))
    holds = held(state)
    assert blocked(holds, state, pod("two").gpus(2).build()) == []  # 6 - 4 = 2
    assert blocked(holds, state, pod("three").gpus(3).build()) == ["n0"]


@pytest.mark.parametrize(
    "waiting",
    [
        pod("new").gpus(8),  # never tried: kube-scheduler will take it in its turn
        BIG.gated(),
        BIG.terminating(),
        pod("one").gpus(1).refused(),
        BIG.types("Tesla-K80"),
        BIG.gpus(9),
        BIG.cpu(1000),
        pod("shared").gpus(2, whole=False).refused(),
    ],
)
def test_nothing_is_held_for_who_does_not_wait_or_cannot_run_there(waiting: PodBuilder) -> None:
    assert held(cluster(waiting)).lines == {}


def test_the_tightest_block_is_taken_and_kept_while_it_fits() -> None:
    four = pod("four").gpus(4).refused()
    first = held(cluster(four, free=(8, 5)), now=0)
    assert nodes_of(first) == {"four": "n1"}
    again = held(cluster(four, free=(4, 5)), now=3, before=first)
    assert nodes_of(again) == {"four": "n1"}  # n0 would be tighter: but then the deadline could be put off for ever
    assert deadlines(again) == [15]


def test_who_is_forestalled_by_its_like_rests_no_more_than_the_node() -> None:
    nodes = [node("n0").gpus(8, H100).build()]
    first = held(Snapshot.of(nodes, [BIG.build()]), now=0)
    taken = held(Snapshot.of(nodes, [BIG.build(), pod("like").gpus(8).on("n0").build()]), now=5, before=first)
    assert (taken.lines, taken.pods, taken.nodes) == ({}, {}, {})
    assert deadlines(held(Snapshot.of(nodes, [BIG.build()]), now=20, before=taken)) == [35]


def test_who_is_forestalled_by_smaller_pods_has_had_part_of_its_turn() -> None:
    nodes = [node(name).gpus(8, H100).build() for name in ("n0", "n1")]
    first = held(Snapshot.of(nodes, [BIG.build()]), now=0)
    (name,) = nodes_of(first).values()
    # Its scheduler was asked before the promise.
    moved = held(Snapshot.of(nodes, [BIG.build(), pod("small").gpus(1).on(name).build()]), now=5, before=first)
    assert nodes_of(moved) == {"big": "n1" if name == "n0" else "n0"}
    assert deadlines(moved) == [15]


def test_the_largest_come_first_then_the_oldest() -> None:
    waiting = [pod("four").gpus(4).refused().created(10), pod("eight").gpus(8).refused().created(20)]
    assert nodes_of(held(cluster(*waiting, free=(8,)))) == {"eight": "n0"}


def test_priority_goes_first_then_age_and_no_more_than_the_limit() -> None:
    waiting = [
        pod("young").gpus(4).refused().created(30),
        pod("old").gpus(4).refused().created(10),
        pod("urgent").gpus(4).refused().created(40).priority(5),
    ]
    assert nodes_of(held(cluster(*waiting, free=(4, 4, 4)))).keys() == {"urgent", "old"}
    assert nodes_of(held(cluster(*waiting, free=(8,)))) == {"urgent": "n0", "old": "n0"}
    assert nodes_of(held(cluster(*waiting, free=(4,)))) == {"urgent": "n0"}


def test_a_hold_ends_and_its_pod_rests() -> None:
    state = cluster(BIG)
    holds = held(state, now=0)
    assert holds.next_deadline == 15
    over = held(state, now=15, before=holds)
    assert over.lines == {}
    assert over.next_deadline == 315
    assert held(state, now=314, before=over).lines == {}
    assert nodes_of(held(state, now=315, before=over)) == {"big": "n0"}


def test_a_pod_that_has_gone_or_found_its_node_holds_nothing() -> None:
    holds = held(cluster(BIG))
    assert held(cluster(), now=1, before=holds) == Holds()
    assert held(cluster(BIG.on("n0"), free=(8,)), now=1, before=holds) == Holds()


def test_zero_seconds_switch_holds_off() -> None:
    assert held(cluster(BIG), rules=HoldRules(seconds=0)) == Holds()
    holds = held(cluster(BIG))
    assert held(cluster(BIG), now=1, before=holds, rules=HoldRules(seconds=0)).lines == {}


def test_a_hold_on_a_node_that_is_gone_blocks_nothing() -> None:
    holds = held(cluster(BIG))
    other = Snapshot.of([node("m").gpus(8, H100).build()])
    assert blocked(holds, other, pod("small").gpus(1).build()) == []
    assert holds.blocked(other, pod("small").gpus(1).build(), np.array([-1, 0])).tolist() == [False, False]


def test_a_node_rests_too_however_many_large_pods_wait_for_it() -> None:
    state = cluster(*(pod(f"large-{at:02}").gpus(8).refused() for at in range(30)))
    holds, held_seconds = Holds(), 0
    for now in range(600):
        holds = held(state, now=now, before=holds)
        held_seconds += bool(holds.lines)
    assert held_seconds == 30  # 15 s, 300 s of rest, and so on


def test_a_hold_that_moves_ends_as_well() -> None:
    holds, held_steps = Holds(), 0
    for step in range(60):  # 300 s; the two nodes are cordoned in turn
        nodes = [node("n0").gpus(8, H100), node("n1").gpus(8, H100)]
        nodes[step // 2 % 2] = nodes[step // 2 % 2].cordoned()
        holds = held(Snapshot.of([n.build() for n in nodes], [BIG.build()]), now=5.0 * step, before=holds)
        held_steps += bool(holds.lines)
    assert held_steps == 3


def test_who_is_forestalled_again_and_again_rests_in_the_end() -> None:
    # Every 12 s the block is given back, and 10 s later one of its like takes it; BIG never comes.
    nodes = [node("n0").gpus(8, H100).build()]
    holds, held_since = Holds(), []
    for round_ in range(60):
        at = 12.0 * round_
        holds = held(Snapshot.of(nodes, [BIG.build()]), now=at, before=holds)
        held_since += [at] if holds.lines else []
        like = pod(f"like-{round_}").gpus(8).on("n0").build()
        holds = held(Snapshot.of(nodes, [BIG.build(), like]), now=at + 10, before=holds)
    # Six times 10 s make a minute, then it rests for five from the 70th second on, and so on.
    assert held_since == [0, 12, 24, 36, 48, 60, 372, 384, 396, 408, 420, 432]


def test_turns_lost_by_a_pod_that_rests_are_not_the_node_s() -> None:
    nodes, other = [node("n0").gpus(8, H100).build()], pod("other").gpus(8).refused().created(99)
    rules = HoldRules(seconds=15, limit=1, lost_seconds=5)
    holds = held(Snapshot.of(nodes, [BIG.build(), other.build()]), rules=rules)
    taken = [BIG.build(), other.build(), pod("like").gpus(8).on("n0").build()]
    holds = held(Snapshot.of(nodes, taken), now=5, before=holds, rules=rules)
    holds = held(Snapshot.of(nodes, [BIG.build(), other.build()]), now=6, before=holds, rules=rules)
    assert (nodes_of(holds), deadlines(holds)) == ({"other": "n0"}, [21])


def test_one_as_large_that_ends_as_its_like_comes_hides_nothing() -> None:
    nodes, four = [node("n0").gpus(8, H100).build()], pod("four").gpus(4).refused()
    first = held(Snapshot.of(nodes, [four.build(), pod("old").gpus(4).on("n0").build()]), now=0)
    # One batch of events: the old one has ended, and one of eight has taken all.
    taken = held(Snapshot.of(nodes, [four.build(), pod("new").gpus(8).on("n0").build()]), now=5, before=first)
    assert (taken.lines, taken.pods, taken.nodes) == ({}, {}, {})


def test_a_like_that_leaves_room_does_not_begin_the_turn_anew() -> None:
    two, nodes = pod("two").gpus(2).refused(), [node("n0").gpus(8, H100).build()]
    first = held(Snapshot.of(nodes, [two.build()]), now=0)
    like = pod("like").gpus(2).on("n0").build()
    assert deadlines(held(Snapshot.of(nodes, [two.build(), like]), now=5, before=first)) == [15]


def test_who_waits_is_followed_from_change_to_change() -> None:
    old, young = (pod(name).gpus(8).refused().created(at) for name, at in (("old", 1), ("young", 2)))
    state = cluster(young)
    assert nodes_of(held(state)) == {"young": "n0"}
    state = state.with_pod(old.build())
    assert nodes_of(held(state)) == {"old": "n0"}
    gated = state.with_changes(gone=[old.build()], come=[old.gated().build()])
    assert nodes_of(held(gated)) == {"young": "n0"}
    assert nodes_of(held(state.without_pod(old.build()))) == {"young": "n0"}


def test_many_classes_that_fit_nowhere_leave_holds_to_those_that_do() -> None:
    large = [pod(f"large-{at}").gpus(8).cpu(8 + at).refused() for at in range(40)]
    assert nodes_of(held(cluster(*large, pod("four").gpus(4).refused(), free=(4,)))) == {"four": "n0"}
