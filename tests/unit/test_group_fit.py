"""What `fit` says of pods that start together."""

import pytest

from extender.group_fit import group_rows
from extender.packing.snapshot import Snapshot
from tests.builders import h100, pod

NODES = [h100("n1").build(), h100("n2").build()]


def rows(waiting, running=(), asked=None):
    return group_rows(Snapshot.of(NODES, [*running, *waiting]), waiting[:1] if asked is None else asked)


@pytest.mark.parametrize(
    ("count", "size", "starts", "words"),
    [
        (2, None, True, "one of 2 waiting pods of group ml/g, which start together: they fit together now"),
        (3, None, False, "which start together: they do not fit together, even if no other pod starts (proved)"),
        (3, 2, True, "one of 3 waiting pods of group ml/g, of which 2 start together: so many fit together now"),
        (4, 3, False, "of which 3 start together: so many do not fit together, even if no other pod starts (proved)"),
        (2, 3, False, "group ml/g starts as a whole or not at all: of 3 members 2 wait; it waits for 1 more pod"),
    ],
)
def test_a_pod_is_told_of_its_group(count, size, starts, words):
    waiting = [pod(f"g{number}").gpus(8).group("g", size).build() for number in range(count)]
    found = rows(waiting)
    assert found.keys() == {member.uid for member in waiting}  # whoever is asked about: it is said of the group
    row = found[waiting[0].uid]
    assert (row["group"], row["waiting"], row["starts"]) == ("ml/g", count, starts)
    assert words in row["verdict"]


def test_pods_that_start_by_themselves_have_no_such_row():
    running = [pod("r").gpus(1).group("g", 2).on("n1").build()]
    assert rows([pod("p").gpus(1).build()]) == {}
    assert rows([pod("last").gpus(8).group("alone").build()]) == {}
    assert rows([pod("p").gpus(1).group("g", 2).build()], running) == {}
    assert rows([], running, asked=running) == {}
    assert rows([pod("p").gpus(1).group("g", 2).gated().build()]) == {}


def test_what_waits_besides_does_not_count():
    waiting = [pod(f"g{number}").gpus(8).group("g").build() for number in range(2)]
    first = pod("first").gpus(8).priority(9).build()
    assert rows([*waiting, first])[waiting[0].uid]["starts"] is True
