"""Of plans that are worth the same, the one that suits the pods."""

from __future__ import annotations

import pytest

from extender.packing import equal_plans
from extender.packing.equal_plans import less_preferred, settled
from extender.packing.plan import Destination, JointPlan, Status
from extender.packing.problem import PackingProblem
from extender.packing.snapshot import Snapshot
from tests.builders import H100, h100, node, pod, term

A100 = "NVIDIA-A100-SXM4-80GB"
PRODUCT = "nvidia.com/gpu.product"


def a100(name):
    return node(name).gpus(8, A100).label(PRODUCT, A100)


def preferring(name, gpus, model):
    return pod(name).gpus(gpus).prefer(100, term(PRODUCT, "In", model))


def settle(nodes, pods, places, running=()):
    """Settle a plan that puts each pod on a node by name; return where they are then, and who prefers another node."""
    queue = [made.build() for made in pods]
    snapshot = Snapshot.of([made.build() for made in nodes], [*(made.build() for made in running), *queue])
    problem = PackingProblem.of(snapshot, queue)
    found = {member.uid: Destination(places[member.name]) for member in queue}
    plan = settled(snapshot, queue, problem, JointPlan(found, Status.OPTIMAL, 0, 0))
    names = {member.uid: member.name for member in queue}
    unmet = [member.name for member in less_preferred(snapshot, queue, problem, plan)]
    return {names[uid]: at for uid, at in plan.nodes.items()}, unmet


def test_all_that_a_plan_puts_on_one_node_goes_to_the_node_that_more_of_it_prefer():
    pods = [preferring("p", 2, H100), pod("q").gpus(2).types("H100, A100=5"), preferring("r", 2, A100)]
    places, unmet = settle([a100("a"), h100("h")], pods, {"p": "a", "q": "a", "r": "a"})
    assert places == {"p": "h", "q": "h", "r": "h"}  # one node is opened, as before: r pays for it
    assert unmet == ["r"]


def test_pods_trade_places():
    held = [pod("x").gpus(4).on("a"), pod("y").gpus(4).on("h")]
    pods = [preferring("p", 4, H100), pod("q").gpus(4)]
    assert settle([a100("a"), h100("h")], pods, {"p": "a", "q": "h"}, held) == ({"p": "h", "q": "a"}, [])


def test_a_pod_goes_alone_where_that_opens_no_node():
    held = [pod("x").gpus(4).on("a"), pod("y").gpus(4).on("h")]
    places, _ = settle([a100("a"), h100("h")], [preferring("p", 2, H100)], {"p": "a"}, held)
    assert places == {"p": "h"}
    # Two of eight beside a node that is full: one node is left in part wherever it is, but h would be opened.
    held = [pod("x").gpus(4).on("a")]
    places, unmet = settle([a100("a"), h100("h")], [preferring("p", 2, H100)], {"p": "a"}, held)
    assert (places, unmet) == ({"p": "a"}, ["p"])


def test_nobody_is_sent_where_it_may_not_run_or_has_no_room():
    must = preferring("p", 4, H100)
    bound = pod("q").gpus(4).select(PRODUCT, H100)
    held = [pod("x").gpus(4).on("a"), pod("y").gpus(4).on("h")]
    assert settle([a100("a"), h100("h")], [must, bound], {"p": "a", "q": "h"}, held)[0] == {"p": "a", "q": "h"}
    assert settle([a100("a"), h100("h")], [must.cpu(8)], {"p": "a"}, [held[0], held[1].cpu(90)])[0] == {"p": "a"}


def test_pods_without_gpus_keep_off_nodes_with_gpus():
    held = [pod("x").gpus(8).on("full")]
    pods = [pod(f"web-{number}").cpu(40) for number in range(4)]
    nodes = [h100("full"), h100("free"), node("plain")]
    places, _ = settle(nodes, pods, {made.info.name: "free" for made in pods}, held)
    assert sorted(places.values()) == ["full", "full", "plain", "plain"]


def test_the_tries_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(equal_plans, "MOST_TRIES", 0)
    held = [pod("x").gpus(4).on("a"), pod("y").gpus(4).on("h")]
    assert settle([a100("a"), h100("h")], [preferring("p", 2, H100)], {"p": "a"}, held) == ({"p": "a"}, ["p"])
