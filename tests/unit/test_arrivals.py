"""What has come of late: the newest pods count most, and what has long not come is forgotten."""

import pytest

from extender.packing.arrivals import Arrivals
from extender.packing.mix import PodClass
from tests.builders import pod

GPUS = 32  # a quarter of them, 8, is the half-life


def one(uid, gpus=1, created=0.0):
    return pod(uid).gpus(gpus).created(created).build()


def test_a_pod_counts_half_once_a_quarter_of_the_gpus_has_come_after_it():
    arrivals = Arrivals().moved((), [one("old"), one("new", gpus=8)], GPUS)
    assert arrivals.weight(PodClass.of(one("x", gpus=8))) == pytest.approx(1.0)
    assert arrivals.weight(PodClass.of(one("x"))) == pytest.approx(0.5)
    assert arrivals.weight(PodClass.of(one("x", gpus=2))) == 0.0


def test_a_pod_that_moves_on_has_come_before():
    arrivals = Arrivals().moved((), [one("p")], GPUS)
    assert arrivals.moved([one("p")], [pod("p").gpus(1).on("n").build()], GPUS) is arrivals
    assert arrivals.moved([one("p")], (), GPUS) is arrivals


def test_pods_without_whole_gpus_do_not_count():
    assert Arrivals().moved((), [pod("cpu").build(), pod("s").gpus(1, whole=False).build()], GPUS) == Arrivals()


def test_made_from_nothing_age_is_the_order():
    pods = [one("b", gpus=8, created=2.0), one("a", created=1.0)]
    assert Arrivals.of(pods, GPUS) == Arrivals().moved((), reversed(pods), GPUS)


def test_weights_stay_finite_and_few_however_long_it_goes_on():
    arrivals = Arrivals()
    for at in range(3000):
        arrivals = arrivals.moved((), [one(f"u{at}", gpus=1 + at // 10)], GPUS)
    assert len(arrivals.weights) < 300
    assert arrivals.weight(PodClass.of(one("x", gpus=300))) == pytest.approx(1.0, rel=0.01)
    assert arrivals.weight(PodClass.of(one("x"))) == pytest.approx(0.0)
    assert max(arrivals.weights.values()) < 2.0**17
