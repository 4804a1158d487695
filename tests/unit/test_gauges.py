"""Gauges add up, say no absurd things, and vanish with what they are about."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from hypothesis import given
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from extender.cache import Cache
from extender.gauges import NODE_SPECS, STATE_SPECS, NodeCollector, StateCollector
from extender.metrics import REQUEST_SPECS, Metrics
from tests.builders import GPU, node, pod
from tests.strategies import worlds

H100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
MIG = "nvidia.com/mig-1g.10gb"


class Scraped:
    """The gauges of a cluster."""

    def __init__(self, nodes=(), pods=(), clock=lambda: 7.0):
        self.cache = Cache(tentative_seconds=10, clock=lambda: 5.0)
        self.cache.relist(nodes, pods)
        self.registry = CollectorRegistry()
        self.registry.register(StateCollector(lambda: self.cache.view, clock))

    def value(self, name, **labels):
        return self.registry.get_sample_value(f"gpu_extender_{name}", labels)

    def samples(self, name):
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"gpu_extender_{name}"
        }


def built(*builders):
    return [builder.build() for builder in builders]


def test_four_states_add_up_to_what_is_built_in():
    scraped = Scraped(
        built(
            node("a").resource(GPU, 7, withdrawn=1).gpus(7, H100),
            node("b").gpus(4, H100).cordoned(),
            node("c").gpus(4, H100).unready(),
            node("d").gpus(2),
        ),
        built(pod("x").gpus(3).on("a"), pod("y").gpus(1).on("b"), pod("z").gpus(4).on("d")),
    )
    states = {
        s: scraped.value("gpus", resource=GPU, model=H100, state=s) for s in ("allocated", "free", "unschedulable")
    }
    assert states == {"allocated": 4, "free": 4, "unschedulable": 7}
    assert scraped.value("gpus", resource=GPU, model="unknown", state="allocated") == 2
    assert scraped.value("overcommitted_gpus", resource=GPU, model="unknown") == 2
    assert scraped.samples("nodes") == {("open",): 2, ("closed",): 2}


def test_case_131_what_could_start_now():
    scraped = Scraped(
        built(
            node("h1").gpus(8, H100), node("h2").gpus(8, H100),
            node("l1").gpus(4, L40S), node("l2").gpus(4, L40S).cordoned(),
        ),
        built(pod("a").gpus(3).on("h1"), pod("b").gpus(1).on("h2"), pod("c").gpus(3).on("l1")),
    )  # fmt: skip
    sizes = {
        size: scraped.value("placeable_pods", resource=GPU, model=H100, size=size) for size in ("1", "2", "4", "8")
    }
    # h1 has 5 free, h2 7: 5 // 2 + 7 // 2 = 2 + 3
    assert sizes == {"1": 12, "2": 5, "4": 2, "8": 0}
    assert scraped.value("stranded_gpus", resource=GPU, model=H100, size="8") == 12
    assert scraped.value("largest_placeable_gpus", resource=GPU, model=H100) == 7
    assert scraped.value("largest_placeable_gpus", resource=GPU, model=L40S) == 1
    assert scraped.value("gpus", resource=GPU, model=L40S, state="unschedulable") == 4


def test_case_127_demand_by_resource():
    scraped = Scraped(
        built(
            node("w").gpus(8), node("m").gpus(7, resource=MIG, whole=False),
            node("amd").gpus(8, resource="amd.com/gpu"),
        ),
        built(
            pod("r1").gpus(8).on("w"), pod("r2").gpus(3, MIG, whole=False).on("m"),
            pod("q1").gpus(2), pod("q2").gpus(4), pod("q3").gpus(1, MIG, whole=False),
            pod("other").resource("intel.com/fpga", 1), pod("gated").gpus(8).gated(),
        ),
    )  # fmt: skip
    assert scraped.samples("pending_gpus") == {(GPU, "any"): 6, (MIG, "any"): 1, ("amd.com/gpu", "any"): 0}
    assert scraped.samples("pending_pods") == {(GPU, "any", "2"): 1, (GPU, "any", "4"): 1, (MIG, "any", "1"): 1}
    assert scraped.samples("gated_pods") == {(GPU,): 1}
    assert scraped.value("gpu_slices", resource=MIG, model="unknown", state="allocated") == 3
    assert scraped.value("gpu_slices", resource=MIG, model="unknown", state="free") == 4
    assert scraped.value("gpus", resource=MIG, model="unknown", state="allocated") is None


def test_shared_gpus_are_no_whole_ones_though_resource_and_model_are_the_same():
    scraped = Scraped(built(node("a").gpus(8, H100), node("b").gpus(16, H100, exclusive=False, whole=False)))
    assert scraped.value("gpus", resource=GPU, model=H100, state="free") == 8
    assert scraped.value("gpu_slices", resource=GPU, model=H100, state="free") == 16
    per_node = CollectorRegistry()
    per_node.register(NodeCollector(lambda: scraped.cache.view))
    page = generate_latest(per_node).decode()
    assert 'gpu_extender_node_gpus{model="NVIDIA-H100-80GB-HBM3",node="a"' in page
    assert 'gpu_extender_node_gpu_slices{model="NVIDIA-H100-80GB-HBM3",node="b"' in page
    assert "slices" not in page.split('node="a"')[1].split("\n")[0]


@pytest.mark.parametrize(
    ("waiting", "wanted"),
    [
        (pod("p").gpus(1), "any"),
        (pod("p").gpus(1).types("H100"), H100),
        (pod("p").gpus(1).types("H100,L40S"), "several"),
        (pod("p").gpus(1).types("any"), "any"),
        (pod("p").gpus(1).types("B200"), "none"),
        (pod("p").gpus(1).select("zone", "x"), "none"),
        (pod("p").gpus(1).select("zone", "l"), L40S),
    ],
)
def test_the_model_that_a_pod_waits_for(waiting, wanted):
    nodes = built(node("h").gpus(8, H100), node("l").gpus(4, L40S).label("zone", "l"), node("t").gpus(4, "Tesla-T4"))
    amounts = Scraped(nodes, built(waiting)).samples("pending_gpus")
    assert {model for (_, model), gpus in amounts.items() if gpus} == {wanted}


def test_sizes_beyond_any_node_share_a_series():
    pods = built(*(pod(f"p{size}").gpus(size) for size in (16, 17, 64, 10**6)))
    assert sorted(Scraped(built(node("n").gpus(8)), pods).samples("pending_pods")) == [
        (GPU, "any", "16"),
        (GPU, "any", "17+"),
    ]


def test_case_129_series_vanish_with_the_node():
    scraped = Scraped(built(node("a").gpus(8, H100), node("b").gpus(8, "Tesla-T4")))
    per_node = CollectorRegistry()
    per_node.register(NodeCollector(lambda: scraped.cache.view))
    assert b'node="b"' in generate_latest(per_node)
    scraped.cache.remove_node("b")
    assert b'node="b"' not in generate_latest(per_node)
    assert b"T4" not in generate_latest(scraped.registry)
    scraped.cache.update_node(node("b").gpus(4, "Tesla-T4").build())
    labels = {"node": "b", "resource": GPU, "model": "Tesla-T4", "state": "free"}
    assert per_node.get_sample_value("gpu_extender_node_gpus", labels) == 4


def test_age_generation_synced_and_bookings():
    scraped = Scraped(built(node("a").gpus(8)))
    assert scraped.value("snapshot_age_seconds") == 2
    assert scraped.value("snapshot_generation") == 1
    assert scraped.value("synced") == 1
    scraped.cache.assume(pod("p").gpus(1).build(), "a", now=0.0)
    assert scraped.value("tentative_pods") == 1
    assert Cache(tentative_seconds=1).view.synced is False


def test_an_empty_cluster_has_no_accelerator_series():
    scraped = Scraped(built(node("c")), built(pod("x").on("c")))
    assert not any(scraped.samples(name) for name in ("gpus", "pending_gpus", "pending_pods", "placeable_pods"))


@given(world=worlds())
def test_numbers_are_sane_in_any_state(world):
    scraped = Scraped(world.nodes, world.pods)
    per_node = NodeCollector(lambda: scraped.cache.view)
    totals: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for family in per_node.collect():
        for sample in family.samples:
            key = tuple(sample.labels[k] for k in ("resource", "model", "state"))
            totals[family.name.removeprefix("gpu_extender_node_")][key] += sample.value
    for family in scraped.registry.collect():
        for sample in family.samples:
            assert sample.value >= 0
            assert math.isfinite(sample.value)
    everything = {name: scraped.samples(name) for name in ("gpus", "gpu_slices")}
    for name, samples in everything.items():
        assert all(totals[name][key] == value for key, value in samples.items())
    for resource in {n for each in world.nodes for n in each.gpus}:
        built_in = sum(
            max(n.capacity.get(resource, 0), n.allocatable.get(resource, 0)) for n in world.nodes if resource in n.gpus
        )
        counted = [value for samples in everything.values() for key, value in samples.items() if key[0] == resource]
        assert sum(counted) == built_in


def test_every_metric_is_in_the_reference_and_none_else():
    registry = Metrics().registry
    registry.register(StateCollector(lambda: Cache(tentative_seconds=1).view, lambda: 0.0))
    registry.register(NodeCollector(lambda: Cache(tentative_seconds=1).view))
    ours = {family.name for family in registry.collect() if family.name.startswith("gpu_extender_")}
    documented = {spec.full_name.removesuffix("_total") for spec in (*REQUEST_SPECS, *STATE_SPECS, *NODE_SPECS)}
    assert ours == documented


def test_two_services_do_not_share_counters():
    first, second = Metrics(), Metrics()
    first.bug("filter")
    assert second.registry.get_sample_value("gpu_extender_internal_errors_total", {"verb": "filter"}) == 0
