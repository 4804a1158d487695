"""The vectorised Filter against the scalar oracle, node by node."""

from __future__ import annotations

from hypothesis import given

from extender.packing.fit import filter_nodes
from tests.oracle import judge
from tests.strategies import snapshot_of, waiting_pods, worlds


@given(world=worlds(), pod=waiting_pods())
def test_every_node_is_judged_as_kube_scheduler_would(world, pod):
    snapshot = snapshot_of(world)
    verdicts = filter_nodes(snapshot, pod)
    for row, node in enumerate(snapshot.table.nodes):
        expected = judge(world, pod, node)
        reason = verdicts.reason(row)
        assert (reason.text, bool(verdicts.never[row])) == (expected.text, expected.never), node
        assert bool(verdicts.fits[row]) == (expected.text == "")


@given(world=worlds(), pod=waiting_pods())
def test_filtering_twice_gives_the_same_answer(world, pod):
    snapshot = snapshot_of(world)
    first, second = filter_nodes(snapshot, pod), filter_nodes(snapshot, pod)
    assert first.codes.tolist() == second.codes.tolist()
    assert first.reasons == second.reasons


@given(world=worlds(), pod=waiting_pods())
def test_a_pod_that_waits_in_the_snapshot_does_not_stand_in_its_own_way(world, pod):
    outside = filter_nodes(snapshot_of(world), pod)
    inside = filter_nodes(snapshot_of(world).with_pod(pod), pod)
    assert outside.codes.tolist() == inside.codes.tolist()
