"""Guidance moves scores as its formula says, and without it, or once the nodes are others, nothing changes."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.packing import quota_problem, quotas
from extender.packing.fit import filter_nodes
from extender.packing.framework import best_row
from extender.packing.guidance import CPU_CLASSES, Guidance
from extender.packing.history import History
from extender.packing.kinds import NodeKinds
from extender.packing.mix import PodClass, Turnover
from extender.packing.policies.hole_aware import HoleAware
from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from tests.fleet import FLEET, after, fleet_steps, shaped
from tests.strategies import snapshot_of, waiting_pods, worlds

HOLE_AWARE, PLANNED = HoleAware(), Planned()
RANDOM = st.randoms(use_true_random=False)


def candidates(snapshot, asked):
    rows = np.flatnonzero(filter_nodes(snapshot, asked).fits)
    return rows if len(rows) else np.arange(len(snapshot))


def guided(snapshot, asked, random):
    """Return the snapshot, filling, with drawn quotas for its mix and the pod, and perhaps a node for the pod."""
    found = {}
    for resource in snapshot.table.whole_gpu_resources:
        problem, groups = quota_problem.pose(snapshot, resource)
        groups = {**groups, PodClass.of(asked): len(set(groups.values()))}
        kinds = NodeKinds.of(snapshot.table, resource)
        width = len(kinds) * CPU_CLASSES
        wanted = [[random.choice((0.0, 0.5, 4.0, 7.25)) for _ in range(width)] for _ in range(1 + max(groups.values()))]
        found[resource] = quota_problem.quotas_of(kinds, groups, problem, np.array(wanted).reshape(-1, width))
    nodes = {asked.uid: random.choice(snapshot.table.names)} if random.random() < 0.5 else {}
    return replace(snapshot, history=History(Turnover(), snapshot.history.arrivals, Guidance(found, nodes)))


def free_on(snapshot, asked, row):
    """Return what is free on a row of GPUs, CPU and memory, and its column."""
    free, axis = snapshot.free_for_score, snapshot.table.axis.index
    gpus, cpu, memory = (max(0, int(free[axis[name], row])) for name in (asked.gpu.resource, "cpu", "memory"))
    kind = int(NodeKinds.of(snapshot.table, asked.gpu.resource).of_row[row])
    return gpus, cpu, memory, kind * CPU_CLASSES + min(cpu // max(gpus, 1) // 2000, CPU_CLASSES - 1)


def started_with_room(snapshot, asked):
    """Return the column and kind of the open nodes with pods on their GPUs, where the most of each has room."""
    most = dict[tuple[int, int], list[int]]()
    for row, node in enumerate(snapshot.table.nodes):
        kind = int(NodeKinds.of(snapshot.table, asked.gpu.resource).of_row[row])
        *free, column = free_on(snapshot, asked, row)
        if kind >= 0 and 0 < free[0] < node.allocatable[asked.gpu.resource] and not node.closed:
            most[column, kind] = [max(pair) for pair in zip(free, most.get((column, kind), free), strict=True)]
    asks = (asked.gpu.count, asked.requests.get("cpu", 0), asked.requests.get("memory", 0))
    return [at for at, free in most.items() if all(a <= f for a, f in zip(asks, free, strict=True))]


def column_shares(wanted, free):
    """Return the share of each column's free GPUs; of one where nothing was free that of the nearest of the kind."""
    shares = [w / f if f else 0.0 for w, f in zip(wanted, free, strict=True)]
    found = []
    for column in range(len(free)):
        of_kind = range(column // CPU_CLASSES * CPU_CLASSES, (column // CPU_CLASSES + 1) * CPU_CLASSES)
        known = [at for at in of_kind if free[at]]
        found.append(shares[min(known, key=lambda at: (abs(at - column), at))] if known else 0.0)
    return found


def expected(snapshot, asked, row, base):
    """Return the utility by the formula, for one row."""
    guidance, name = snapshot.guidance, snapshot.table.names[row]
    if guidance.nodes.get(asked.uid) == name:
        return sys.float_info.max
    of_resource = guidance.quotas.get(asked.gpu.resource)
    if of_resource is None or not asked.gpu.whole:
        return base
    wanted = of_resource.wanted[of_resource.groups[PodClass.of(asked)]].tolist()
    by_kind = [sum(wanted[i : i + CPU_CLASSES]) for i in range(0, len(wanted), CPU_CLASSES)]
    n = asked.gpu.count
    gpus, cpu, _, column = free_on(snapshot, asked, row)
    kind = int(NodeKinds.of(snapshot.table, asked.gpu.resource).of_row[row]) if gpus else -1
    ratios = [c.cpu_milli / c.gpu.count for c in snapshot.mix.counts if c.gpu.resource == asked.gpu.resource]
    largest = max(ratios, default=1.0)
    off = n * abs(min(cpu / max(gpus, 1), largest) - asked.requests.get("cpu", 0) / n) / max(largest, 1.0)
    if not any(wanted):
        return base
    shares = column_shares(wanted, of_resource.free.tolist())
    missed_kind = 1.0 - (by_kind[kind] / max(by_kind) if kind >= 0 else 0.0)
    missed_column = missed_here = _missed(shares, column, kind)
    started = [_missed(shares, *at) for at in started_with_room(snapshot, asked) if at[1] == kind]
    if started and gpus == snapshot.table.nodes[row].allocatable[asked.gpu.resource]:
        missed_column = max(missed_here, min(started))
    return base - (3.0 * n * missed_kind + 1.0 * n * missed_column + 0.9 * off)


def _missed(shares, column, kind):
    return 1.0 - (shares[column] / max(shares) if kind >= 0 and any(shares) else 0.0)


@given(world=worlds(), asked=waiting_pods())
def test_without_guidance_planned_is_hole_aware_bit_for_bit(world, asked):
    snapshot = snapshot_of(world)
    rows = candidates(snapshot, asked)
    without = HOLE_AWARE.score(snapshot, asked, rows).tolist()
    for same in (snapshot, snapshot.with_guidance(Guidance()), snapshot.with_guidance(None)):
        assert PLANNED.score(same, asked, rows).tolist() == without


@given(world=worlds(), asked=waiting_pods(), random=RANDOM)
def test_guided_utilities_are_those_of_the_formula_and_follow_the_rows(world, asked, random):
    snapshot = guided(snapshot_of(world), asked, random)
    rows = candidates(snapshot, asked)
    utilities = PLANNED.score(snapshot, asked, rows)
    base = HOLE_AWARE.score(snapshot, asked, rows)
    formula = [expected(snapshot, asked, row, b) for row, b in zip(rows.tolist(), base.tolist(), strict=True)]
    assert utilities.tolist() == pytest.approx(formula)
    assert np.isfinite(utilities).all()
    order = random.sample(range(len(rows)), len(rows))
    assert PLANNED.score(snapshot, asked, rows[order]).tolist() == utilities[order].tolist()
    alone = [PLANNED.score(snapshot, asked, rows[i : i + 1])[0] for i in range(len(rows))]
    assert alone == utilities.tolist()


@given(changes=st.lists(st.tuples(fleet_steps(), st.booleans()), max_size=16), asked=shaped("asked", ""), random=RANDOM)
def test_untouched_nodes_miss_as_much_as_the_best_started_ones(changes, asked, random):
    snapshot = Snapshot.of(FLEET)
    for change, scored in changes:
        snapshot = after(snapshot, *change)
        if scored:
            now, rows = guided(snapshot, asked, random), candidates(snapshot, asked)
            base = HOLE_AWARE.score(now, asked, rows).tolist()
            formula = [expected(now, asked, row, b) for row, b in zip(rows.tolist(), base, strict=True)]
            assert PLANNED.score(now, asked, rows).tolist() == pytest.approx(formula)


@given(world=worlds(), asked=waiting_pods(), random=RANDOM)
def test_the_planned_node_comes_first_wherever_it_is(world, asked, random):
    snapshot = guided(snapshot_of(world), asked, random)
    rows = np.arange(len(snapshot))
    name = random.choice(snapshot.table.names)
    snapshot = snapshot.with_guidance(replace(snapshot.guidance, nodes={asked.uid: name}))
    assert snapshot.table.names[best_row(PLANNED, snapshot, asked, rows)] == name


@given(world=worlds(), asked=waiting_pods(), random=RANDOM)
def test_quotas_for_other_nodes_or_under_departures_change_nothing(world, asked, random):
    snapshot = guided(snapshot_of(world), asked, random)
    snapshot = snapshot.with_guidance(replace(snapshot.guidance, nodes={}))
    rows = candidates(snapshot, asked)
    without = HOLE_AWARE.score(snapshot, asked, rows).tolist()
    stale = {r: replace(q, signature=("another table",)) for r, q in snapshot.guidance.quotas.items()}
    assert PLANNED.score(snapshot.with_guidance(Guidance(stale)), asked, rows).tolist() == without
    in_balance = replace(snapshot, history=replace(snapshot.history, turnover=Turnover(started=10.0, ended=5.0)))
    assert PLANNED.score(in_balance, asked, rows).tolist() == HOLE_AWARE.score(in_balance, asked, rows).tolist()


@given(world=worlds(), most=st.sampled_from((0, 1, 2, 5, 20, quota_problem.MOST_VARIABLES)))
def test_quotas_are_within_demand_and_room_and_the_same_each_time(world, most):
    snapshot = snapshot_of(world)
    for resource in snapshot.table.whole_gpu_resources:
        problem, groups = quota_problem.pose(snapshot, resource, most)
        assert problem.allowed.sum() <= most
        wanted = quotas.solve(problem)
        assert wanted is not None
        assert set(groups.values()) == set(range(len(problem.gpus)))
        assert wanted.sum(axis=1) == pytest.approx(np.minimum(wanted.sum(axis=1), problem.demand), abs=1e-6)
        assert wanted[:, np.setdiff1d(np.arange(problem.width), problem.column)].sum() == 0
        used = wanted[:, problem.column]
        assert (used.sum(axis=0) <= problem.free_gpus + 1e-6).all()
        assert (problem.cores @ used <= problem.free_cores + 1e-6).all()
        assert (problem.gib @ used <= problem.free_gib + 1e-6).all()
        assert (used[~problem.allowed] == 0).all()
        again = quotas.solve(quota_problem.pose(snapshot_of(world), resource, most)[0])
        assert again is not None
        assert again.tolist() == wanted.tolist()
