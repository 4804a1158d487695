"""Every policy of the registry: agrees with its formula in plain Python, and keeps the contract of `Policy`.

Each example is asked of all policies: drawing a world costs ten times what scoring it does.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from extender.packing.fit import filter_nodes
from extender.packing.framework import MAX_SCORE, best_row, run_score
from extender.packing.policies import REGISTRY
from tests.builders import node, pod
from tests.oracle import World
from tests.oracle_policies import UTILITIES
from tests.strategies import snapshot_of, waiting_pods, worlds

RANDOM = st.randoms(use_true_random=False)


@pytest.fixture(scope="module")
def policies():
    return [make() for make in REGISTRY.values()]


def candidates(snapshot, asked):
    """Return the rows on which the pod fits; all when it fits nowhere, as kube-scheduler may know better than we."""
    rows = np.flatnonzero(filter_nodes(snapshot, asked).fits)
    event(f"{min(len(rows), 2)} or more candidates")
    return rows if len(rows) else np.arange(len(snapshot))


@given(world=worlds(), asked=waiting_pods())
def test_utilities_are_those_of_the_formula(world, asked):
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    for name, utility in UTILITIES.items():
        expected = [utility(world, asked, snapshot.table.nodes[row]) for row in rows]
        found = REGISTRY[name]().score(snapshot, asked, rows)
        assert found == pytest.approx(expected, abs=1e-9, rel=1e-9), name


@given(world=worlds(), asked=waiting_pods(), random=RANDOM)
def test_utilities_are_finite_and_follow_the_rows(policies, world, asked, random):
    """In another order, or one by one, the rows get what they got together."""
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    order = random.sample(range(len(rows)), len(rows))
    for policy in policies:
        utilities = policy.score(snapshot, asked, rows)
        assert utilities.dtype == np.float64, policy.name
        assert np.isfinite(utilities).all(), policy.name
        assert policy.score(snapshot, asked, rows[order]).tolist() == utilities[order].tolist(), policy.name
        alone = [policy.score(snapshot, asked, rows[i : i + 1])[0] for i in range(len(rows))]
        assert alone == utilities.tolist(), policy.name


@given(world=worlds(), asked=waiting_pods())
def test_scores_are_integers_with_exactly_one_best(policies, world, asked):
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    for policy in policies:
        scores = run_score(policy, snapshot, asked, rows)
        assert scores.dtype.kind == "i", policy.name
        assert scores.min() >= 0, policy.name
        assert scores.max() == MAX_SCORE, policy.name
        assert scores.tolist().count(MAX_SCORE) == 1, policy.name
        assert rows[int(scores.argmax())] == best_row(policy, snapshot, asked, rows), policy.name


@given(world=worlds(), asked=waiting_pods(), random=RANDOM)
def test_the_answer_depends_on_values_alone(policies, world, asked, random):
    """Asked again, and asked of an equal Snapshot that came about in another order: bit for bit the same."""
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    nodes, pods = (random.sample(items, len(items)) for items in (world.nodes, world.pods))
    shuffled = snapshot_of(World(nodes, pods, world.booked))
    for policy in policies:
        first = policy.score(snapshot, asked, rows).tolist()
        assert policy.score(snapshot, asked, rows).tolist() == first, policy.name
        assert policy.score(shuffled, asked, rows).tolist() == first, policy.name


def test_no_rows_get_no_scores(policies):
    snapshot = snapshot_of(World([node("n1").gpus(8, "T4").build()]))
    for policy in policies:
        scores = run_score(policy, snapshot, pod("p").gpus(1).build(), np.zeros(0, dtype=np.intp))
        assert scores.tolist() == [], policy.name


def test_registry_names_are_the_policies_own():
    assert [make().name for make in REGISTRY.values()] == list(REGISTRY)


def test_every_policy_but_the_default_has_an_oracle():
    assert set(REGISTRY) - set(UTILITIES) <= {"hole-aware", "planned"}


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        REGISTRY["mine"] = REGISTRY["random"]  # type: ignore[index]
