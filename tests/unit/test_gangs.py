"""Gangs: who belongs to one, and when it may start."""

import pytest

from extender.packing.gangs import gangs_of, waiting_text
from extender.packing.snapshot import Snapshot
from tests.builders import h100, pod

NODES = [h100("n1").build()]


def gang(asked, present=()):
    (found,) = gangs_of(Snapshot.of(NODES, present), asked).values()
    return found


@pytest.mark.parametrize(
    ("size", "waiting", "running", "gated", "ready"),
    [
        (None, 2, 0, 0, True),  # without a promise the members present are the gang
        (None, 2, 0, 1, False),  # ... gated ones too
        (None, 2, 1, 0, True),
        (4, 2, 0, 0, False),
        (4, 2, 2, 0, True),  # those that run count
        (2, 2, 0, 1, True),  # enough without the gated one
        (4, 3, 0, 1, False),
        (2, 3, 0, 0, True),  # more than promised
    ],
)
def test_a_gang_may_start_when_its_members_are_there(size, waiting, running, gated, ready):
    def member(name):
        return pod(name).gpus(1).group("g", size)

    asked = [member(f"w{number}").build() for number in range(waiting)]
    others = [member(f"r{number}").on("n1").build() for number in range(running)]
    others += [member(f"g{number}").gated().build() for number in range(gated)]
    found = gang(asked, [*asked, *others])
    assert (found.ready, found.running, found.gated) == (ready, running, gated)


def test_members_may_differ_in_what_they_promise():
    asked = [pod("a").group("g", 3).build(), pod("b").group("g").build()]
    assert gang(asked).size == 3
    assert gang(asked).missing == 1


def test_members_that_run_on_lost_nodes_count_and_leaving_ones_do_not():
    asked = [pod("a").group("g", 2).build()]
    assert gang(asked, [pod("b").group("g", 2).on("lost").build()]).ready
    assert not gang(asked, [pod("b").group("g", 2).on("n1").terminating().build()]).ready


def test_groups_of_one_name_in_two_namespaces_are_two():
    pods = [pod("a", "x").group("g").build(), pod("a", "y").group("g").build()]
    assert [found.name for found in gangs_of(Snapshot.of(NODES), pods).values()] == ["x/g", "y/g"]


def test_the_words_say_who_is_missing():
    asked = [pod("a").group("g", 4).build()]
    text = waiting_text(gang(asked, [pod("r").group("g", 4).on("n1").build()]))
    assert text == "group ml/g starts as a whole or not at all: of 4 members 1 wait, 1 run; it waits for 2 more pods"
    text = waiting_text(gang([pod("a").group("g").build()], [pod("b").group("g").gated().build()]))
    assert text == "group ml/g starts as a whole or not at all: 1 of its members is gated"


@pytest.mark.parametrize(
    ("size", "waiting", "running", "needed", "bound"),
    [
        (None, 2, 0, 2, True),
        (None, 1, 1, 1, True),
        (3, 3, 0, 3, True),
        (2, 3, 0, 2, True),  # the third may follow
        (3, 3, 1, 2, True),
        (2, 2, 1, 1, False),  # each completes the gang
        (2, 2, 2, 0, False),  # it has started
        (1, 2, 0, 1, False),
        (4, 2, 1, 3, True),  # not complete
    ],
)
def test_the_running_members_count_for_those_that_must_start_together(size, waiting, running, needed, bound):
    asked = [pod(f"w{number}").group("g", size).build() for number in range(waiting)]
    found = gang(asked, [pod(f"r{number}").group("g", size).on("n1").build() for number in range(running)])
    assert (found.quorum.needed, found.bound) == (needed, bound)


def test_a_gang_that_needs_some_of_its_pods_says_how_many():
    quorum = gang([pod(f"w{number}").group("g", 2).build() for number in range(3)]).quorum
    assert str(quorum) == "group ml/g starts with 2 of its 3 waiting pods or not at all"
