"""The simulated scheduler with a planner beside it."""

from __future__ import annotations

from extender.packing.policies.planned import Planned
from extender.packing.snapshot import Snapshot
from extender.replanning import Replanning
from extender.simulate import PolicyExtender
from tests.builders import GPU, H100, node, pod

NODES = [node(f"h{at}").gpus(8, H100).build() for at in range(3)] + [node("t").gpus(4, "Tesla-T4").build()]
PODS = [pod(f"p{at}").gpus(1 + at % 2).cpu(4).build() for at in range(12)]


def placed(every: int) -> tuple[list[str | None], Snapshot]:
    policy = Planned()
    scheduler = Replanning(Snapshot.of(NODES), PolicyExtender(policy), policy=policy, every=every)
    return [scheduler.schedule(one).node for one in PODS], scheduler.snapshot


def test_quotas_are_solved_after_so_many_placements() -> None:
    nodes, snapshot = placed(every=5)
    assert None not in nodes
    assert snapshot.guidance is not None
    assert GPU in snapshot.guidance.quotas
    assert placed(every=100)[1].guidance is None


def test_the_same_arrivals_give_the_same_placements() -> None:
    assert placed(every=3)[0] == placed(every=3)[0]
