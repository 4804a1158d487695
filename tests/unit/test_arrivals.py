"""What has come of late: the newest pods count most, and what is there no more is forgotten."""

import pytest

from extender.packing.arrivals import Arrivals
from extender.packing.mix import DemandMix, PodClass
from extender.packing.snapshot import Snapshot
from extender.packing.table import NodeTable
from tests.builders import H100, node, pod

GPUS = 32  # a quarter of them, 8, is the half-life


def one(uid, gpus=1, created=0.0):
    return pod(uid).gpus(gpus).created(created).build()


def came(*pods, before=Arrivals(), gone=()):  # noqa: B008 - a frozen value
    return before.moved(gone, pods, GPUS, DemandMix.of(pods))


def test_a_pod_counts_half_once_a_quarter_of_the_gpus_has_come_after_it():
    arrivals = came(one("new", gpus=8, created=2), one("old", created=1))
    assert arrivals.weight(PodClass.of(one("x", gpus=8))) == pytest.approx(1.0)
    assert arrivals.weight(PodClass.of(one("x"))) == pytest.approx(0.5)
    assert arrivals.weight(PodClass.of(one("x", gpus=2))) == 0.0


def test_a_pod_that_moves_on_has_come_before():
    arrivals = came(one("p"))
    assert came(pod("p").gpus(1).on("n").build(), before=arrivals, gone=[one("p")]) is arrivals


def test_what_the_mix_knows_no_more_is_forgotten():
    arrivals = came(one("p"), one("q"))
    assert arrivals.moved([one("p")], (), GPUS, DemandMix.of([one("q")])) is arrivals
    assert arrivals.moved([one("p")], (), GPUS, DemandMix()).weights == {}


def test_pods_without_whole_gpus_do_not_count():
    assert came(pod("cpu").build(), pod("s").gpus(1, whole=False).build()) == Arrivals()


def test_weights_stay_finite_however_long_it_goes_on():
    arrivals, mix = Arrivals(), DemandMix.of([one("x", gpus=n) for n in (1, 8)])
    for at in range(3000):
        arrivals = arrivals.moved((), [one(f"u{at}", gpus=8)], GPUS, mix)
    assert arrivals.weight(PodClass.of(one("x", gpus=8))) == pytest.approx(2.0)
    assert max(arrivals.weights.values()) < 2.0**130


@pytest.mark.parametrize("nodes_first", [True, False])
def test_what_is_listed_at_the_start_comes_by_age_however_it_is_listed(nodes_first):
    nodes = [node(f"n{i}").gpus(8, H100).build() for i in range(4)]
    pods = [one(f"{n:03}", gpus=1 + 3 * (n < 30), created=1000 - n) for n in range(60)]
    empty = Snapshot.of([])
    if nodes_first:
        followed = empty.with_changes(nodes=nodes).with_changes(come=pods)
    else:
        followed = empty.with_changes(come=pods).with_changes(nodes=nodes)
    fresh = Snapshot.of(nodes, pods)
    assert followed.history == fresh.history
    assert fresh.history.arrivals is not None
    assert fresh.history.arrivals.weight(PodClass.of(one("x", gpus=4))) > 1.9


@pytest.mark.parametrize("known_before", [True, False])
def test_a_snapshot_that_is_made_anew_has_the_history_of_one_that_was_followed(known_before):
    nodes = [node(f"n{i}").gpus(8, H100).build() for i in range(4)]
    before = Snapshot.of(nodes if known_before else [node("cpu").build()], [one("old", created=1)])
    gone, come = [one("old", created=1)], [one("a", gpus=4, created=3), one("b", created=2)]
    followed = before.with_changes(gone=gone, come=come, nodes=nodes)
    rebuilt = before.rebuilt(NodeTable.of(nodes), come, gone, come)
    assert rebuilt.history == followed.history
    assert (rebuilt.generation, rebuilt.pending) == (followed.generation, followed.pending)


def test_without_gpus_there_is_no_measure_of_what_has_come():
    nodes = [node("n").gpus(8, H100).build()]
    snapshot = Snapshot.of(nodes, [one("p")])
    assert snapshot.without_node("n").history.arrivals is None
    assert snapshot.without_node("n").with_node(nodes[0]).history.arrivals == snapshot.history.arrivals
