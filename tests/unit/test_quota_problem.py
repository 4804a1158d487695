"""What the quota LP is asked, and how it is kept small."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from extender.packing import quotas
from extender.packing.mix import PodClass
from extender.packing.quota_problem import pose
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from tests.builders import GPU, H100, node, pod


def cluster(pods: Iterable[PodInfo]) -> Snapshot:
    """Return one column of nodes, so that the LP has a variable for each group."""
    return Snapshot.of([node(f"n{at}").gpus(8, H100).build() for at in range(8)], pods)


GIB = 2**30
# Four sizes in two classes of CPU and two of memory each, the smaller the fewer.
PODS = [
    pod(f"{gpus}-{cores}-{gib}-{at}").gpus(gpus).cpu(cores * gpus).resource("memory", gib * gpus * GIB).build()
    for gpus in (1, 2, 4, 8)
    for cores in (2, 8)
    for gib in (8, 24)
    for at in range(gpus)
]


def told_apart(snapshot: Snapshot, most_variables: int) -> list[list[tuple[int, int, int]]]:
    """Return the groups, each as what its classes ask for: GPUs, cores per GPU, GiB per GPU."""
    problem, groups = pose(snapshot, GPU, most_variables)
    found: list[list[tuple[int, int, int]]] = [[] for _ in problem.gpus]
    for pods, group in groups.items():
        gpus = pods.gpu.count
        found[group].append((gpus, pods.cpu_milli // gpus // 1000, pods.memory_bytes // gpus // GIB))
    assert int(problem.allowed.sum()) <= most_variables
    assert len(problem.demand) == len(problem.cores) == len(problem.allowed) == len(found)
    return found


@pytest.mark.parametrize(("most", "groups"), [(1000, 16), (16, 16), (15, 8), (8, 8), (7, 4), (4, 4), (3, 3), (0, 0)])
def test_where_there_are_too_many_groups_memory_is_told_apart_no_more_then_cpu_then_some_are_left_out(
    most: int, groups: int
) -> None:
    assert len(told_apart(cluster(PODS), most)) == groups


def test_a_few_bytes_do_not_cost_the_solution() -> None:
    full = node("n").gpus(8, H100).resource("memory", 1).build()
    waits = pod("p").gpus(4).resource("memory", 1).build()
    wanted = quotas.solve(pose(Snapshot.of([full], [waits]), GPU)[0])
    assert wanted is not None
    assert wanted.sum() == pytest.approx(8)


def test_memory_goes_before_cpu() -> None:
    assert [(1, 2, 8), (1, 2, 24)] in told_apart(cluster(PODS), 8)


def test_the_groups_with_least_demand_are_left_out_and_room_for_them_is_left() -> None:
    snapshot = cluster(PODS)
    small, groups = pose(snapshot, GPU, 2)
    whole, _ = pose(snapshot, GPU)
    assert sorted(small.gpus.tolist()) == [4, 8]
    assert small.sizes.tolist() == [4, 8]
    assert PodClass.of(PODS[0]) not in groups
    for gpus, demand in zip(small.gpus, small.demand, strict=True):
        assert demand == pytest.approx(whole.demand[whole.gpus == gpus].sum())


def test_a_coarser_group_asks_for_the_mean_and_goes_where_its_most_modest_pod_can() -> None:
    nodes = [node(name).gpus(8, H100).resource("cpu", 64_000).build() for name in ("rich", "poor")]
    pods = [
        pod("busy").cpu(60).on("poor").build(),
        pod("light").gpus(1).cpu(2).build(),
        pod("heavy").gpus(1).cpu(8).build(),
    ]
    apart, _ = pose(Snapshot.of(nodes, pods), GPU, 3)
    assert sorted(apart.allowed.sum(axis=1).tolist()) == [1, 2]
    together, _ = pose(Snapshot.of(nodes, pods), GPU, 2)
    assert together.allowed.tolist() == [[True, True]]
    assert 2 < together.cores[0] < 8


def test_of_equal_demand_the_same_groups_stay_whatever_came_first() -> None:
    waiting = [pod(f"w{gpus}-{at}").gpus(gpus).cpu(gpus).build() for gpus in (2, 4, 8) for at in range(32 // gpus)]
    kept = {tuple(sorted(pose(cluster(order), GPU, 1)[0].gpus.tolist())) for order in (waiting, waiting[::-1])}
    assert len(kept) == 1
