"""The default policy says what its formula says, to the last bit, however much is remembered, shared or followed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from extender.packing import alike
from extender.packing.fit import filter_nodes
from extender.packing.framework import run_score
from extender.packing.policies import hole_aware
from extender.packing.policies.hole_aware import Candidates, HoleAware
from extender.packing.snapshot import Snapshot
from tests.fleet import FLEET, after, fleet_steps, shaped
from tests.oracle import World
from tests.oracle_hole_aware import asks_for_whole_gpus
from tests.oracle_hole_aware import hole_aware as formula
from tests.strategies import NODE_NAMES, nodes, pods, snapshot_of, waiting_pods, worlds

POLICY = HoleAware()
UIDS = tuple(f"u{i}" for i in range(4))


@pytest.fixture(scope="module")
def alike_together():
    """Group however few rows there are, and drop empty groups early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hole_aware, "_MANY", 1)
        patch.setattr(alike, "_SPARE_GROUPS", 0)
        yield


def candidates(snapshot, asked):
    rows = np.flatnonzero(filter_nodes(snapshot, asked).fits)
    return rows if len(rows) else np.arange(len(snapshot))


@given(world=worlds(), asked=waiting_pods())
def test_utilities_are_those_of_the_formula_to_the_last_bit(world, asked):
    assume(asks_for_whole_gpus(world, asked.gpu))
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    expected = [formula(world, asked, snapshot.table.nodes[row]) for row in rows]
    assert POLICY.score(snapshot, asked, rows).tolist() == expected


@st.composite
def steps(draw):
    """Draw what happens: a pod comes, moves on or goes, something is booked, or a node is another."""
    uid = draw(st.sampled_from(UIDS))
    pod = st.one_of(pods(uid, node_names=NODE_NAMES[:3]), waiting_pods(uid))
    return draw(
        st.one_of(
            st.tuples(st.just("pod"), pod),
            st.tuples(st.just("pod"), pod),
            st.tuples(st.just("no pod"), st.just(uid)),
            st.tuples(st.just("book"), st.tuples(st.integers(0, 2), st.integers(0, 4))),
            st.tuples(st.just("node"), nodes(NODE_NAMES[0])),
        )
    )


def from_nothing(snapshot):
    """Return an equal Snapshot that has followed nothing but how much has ended."""
    bound = [p for group in (*snapshot.pods, *snapshot.orphans.values()) for p in group]
    fresh = Snapshot.of(snapshot.table.nodes, [*bound, *snapshot.pending.values()]).with_booked(snapshot.booked)
    return replace(fresh, history=replace(fresh.history, turnover=snapshot.history.turnover))


@given(world=worlds(), changes=st.lists(st.tuples(steps(), st.booleans()), max_size=8), asked=waiting_pods())
def test_what_follows_each_change_is_what_a_fresh_start_says(world, changes, asked):
    snapshot = snapshot_of(World(world.nodes, world.pods))
    for change, scored in changes:
        snapshot = after(snapshot, *change)
        if scored:
            fresh, rows = from_nothing(snapshot), candidates(snapshot, asked)
            assert POLICY.score(snapshot, asked, rows).tolist() == POLICY.score(fresh, asked, rows).tolist()
            assert run_score(POLICY, snapshot, asked, rows).tolist() == run_score(POLICY, fresh, asked, rows).tolist()


# -- many nodes of few kinds ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("alike_together")
@given(changes=st.lists(st.tuples(fleet_steps(), st.integers(0, 3)), max_size=16), asked=shaped("asked", ""))
def test_rows_that_are_alike_are_scored_as_if_each_were_alone(changes, asked):
    snapshot = Snapshot.of(FLEET)
    for change, scored in changes:
        snapshot = after(snapshot, *change)
        if scored:
            rows = candidates(snapshot, asked)
            event("alike together" if Candidates.of(snapshot, asked, rows).place is not None else "one by one")
            known = [*snapshot.pending.values(), *(p for g in snapshot.pods for p in g)]
            world = World(FLEET, known, booked(snapshot), snapshot.history.turnover.ended_share)
            expected = [formula(world, asked, snapshot.table.nodes[row]) for row in rows]
            assert POLICY.score(snapshot, asked, rows).tolist() == expected


def booked(snapshot):
    """Return what is booked as a `World` says it."""
    if snapshot.booked is None:
        return {}
    axis, names = snapshot.table.axis.names, snapshot.table.names
    at = zip(*(places.tolist() for places in np.nonzero(snapshot.booked)), strict=True)
    return {(names[row], axis[resource]): int(snapshot.booked[resource, row]) for resource, row in at}
