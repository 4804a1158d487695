"""What is written down of binds comes back, whatever ended the writer."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache import Cache
from extender.errors import ClusterError, InputError
from extender.journal import BindJournal
from extender.service import EmbeddedBinder
from extender.wire import BindQuestion
from tests.builders import node, pod

PODS = [pod("a").gpus(8).on("x").build(), pod("b").on("y").build(), pod("c").gpus(1).on("x").build()]


@pytest.fixture
def real():
    made = BindJournal.open()
    yield made
    made.close()


def test_pods_come_back_in_order_and_more_can_follow(real):
    for info in PODS[:2]:
        real.append(info)
    assert real.read() == PODS[:2]
    real.append(PODS[2])
    assert real.read() == PODS
    assert real.read() == PODS


@given(cut=st.integers(0, 10_000))
def test_a_record_that_was_cut_is_dropped_and_harms_no_later_one(cut):
    real = BindJournal.open()
    try:
        for info in PODS:
            real.append(info)
        size = real._file.seek(0, 2)
        kept = cut % (size + 1)
        real._file.truncate(kept)
        before = real.read()
        assert before == PODS[: len(before)]
        assert len(before) == 3 or kept < size
        real.append(PODS[2])
        assert real.read() == [*before, PODS[2]]
    finally:
        real.close()


def test_without_a_place_it_says_so(tmp_path):
    with pytest.raises(InputError, match="no place for a temporary file: No such file"):
        BindJournal.open(tmp_path / "gone")


def embedded(journal):
    cache = Cache(tentative_seconds=10)
    cache.relist([node("x").gpus(8).build()], [pod("p").gpus(8).build()])
    return cache, EmbeddedBinder(cache, journal)


QUESTION = BindQuestion("p", "ml", "uid-ml-p", "x")


def test_a_bind_is_written_once_and_counts_for_the_next_process(real):
    _, binder = embedded(real)
    assert binder.bind(QUESTION) == ""
    assert binder.bind(QUESTION) == "", "repeated"
    (bound,) = real.read()
    assert (bound.key, bound.node_name) == ("ml/p", "x")
    later, _ = embedded(real)
    later.update_pod(bound)
    later.remember(pod("q").gpus(8).build())
    assert "Insufficient" in later.bind("uid-ml-q", "ml", "q", "x")


class Full(io.FileIO):
    """A file on a disk that has room for a hundred bytes more."""

    def write(self, data, /):
        return super().write(memoryview(data)[:100])


def test_a_bind_that_cannot_be_written_down_does_not_count(tmp_path):
    with Full(tmp_path / "journal", "w+b") as full:
        journal = BindJournal(full)
        cache, binder = embedded(journal)
        with pytest.raises(ClusterError, match="the binding cannot be written down: No space left"):
            binder.bind(QUESTION)
        assert cache.snapshot.pending["uid-ml-p"].node_name == ""
        assert journal.read() == []
        assert full.seek(0, io.SEEK_END) == 0
