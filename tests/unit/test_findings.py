from __future__ import annotations

import pytest

from extender.dump import read_pods
from extender.remarks import condensed
from tests.apiobjects import GPU, RULES, a_node, a_pod, listing, read

NODE = a_node("n")


def refused(reason, count, node="n"):
    pods = [a_pod(f"{reason}-{node}-{number}", node=node, phase="Failed") for number in range(count)]
    for pod in pods:
        pod["status"]["reason"] = reason
    return pods


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "TopologyAffinityError", "OutOfnvidia.com/gpu"])
def test_piles_of_refused_pods_are_a_warning(reason):
    dump = read(listing(NODE, *refused(reason, 12), *refused("Evicted", 9)))
    assert dump.pods == ()
    assert dump.warnings == (f"node n: 12 pods were refused at admission ({reason}), though by count they fit",)


def test_a_few_refused_pods_and_those_of_lost_nodes_are_no_news():
    assert read(listing(NODE, *refused("UnexpectedAdmissionError", 2))).warnings == ()
    assert read(listing(NODE, *refused("UnexpectedAdmissionError", 12, node="gone"))).warnings == ()


def test_pods_of_unknown_nodes_are_a_warning_per_node():
    pods = [a_pod(f"p{number}", node="gone") for number in range(5)]
    (line,) = read(listing(NODE, *pods, a_pod("q", node="n"))).warnings
    assert line == "node gone: not in the dump; 5 pods bound to it counted nowhere: ml/p0, ml/p1, ml/p2, ..."


def test_very_many_unknown_nodes_do_not_flood_the_warnings():
    warnings = read(listing(*(a_pod(f"p{number:03}", node=f"gone{number:03}") for number in range(200)))).warnings
    assert len(warnings) == 200
    assert len(condensed(warnings)) == 5
    assert condensed(warnings)[-1].endswith("(and 195 more like this)")


def test_overcommitted_gpus_are_a_warning_and_terminal_pods_hold_none():
    pods = [a_pod("p", 5, "n"), a_pod("q", 4, "n"), a_pod("r", 8, "n", phase="Succeeded")]
    assert read(listing(NODE, *pods)).warnings == (
        f"node n: overcommitted, its pods hold 9 {GPU} and 8 can be allocated",
    )


def test_gpus_served_by_dra_are_a_warning():
    pod = a_pod("p", 2, "n", phase="Running")
    pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c"}
    (line,) = read(listing({"kind": "Node", "metadata": {"name": "n"}}, pod)).warnings
    assert line.startswith("node n: GPUs of 1 pod are served by DRA (status.extendedResourceClaimStatus: ml/p)")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Tesla M40", '"Tesla M40" is not a valid label value; nearest existing value: Tesla-M40'),
        ("Tesla_m40", 'no node has the value "Tesla_m40"; nearest existing value: Tesla-M40'),
    ],
)
def test_a_misspelt_selector_is_a_warning_once(value, words):
    model = "nvidia.com/gpu.product"
    pods = [a_pod(f"p{number}", nodeSelector={model: value}) for number in range(3)]
    dump = read(listing(a_node("n", **{model: "Tesla-M40"}), *pods))
    assert dump.warnings == (f"pod ml/p0: {model}: {words} (and 2 more pods)",)


@pytest.mark.parametrize("value", ["Tesla-M40", "Tesla-M60", "H100"])
def test_a_selector_that_may_be_meant_is_no_warning(value):
    model = "nvidia.com/gpu.product"
    dump = read(listing(a_node("n", **{model: "Tesla-M40"}), a_pod("p", nodeSelector={model: value})))
    assert dump.warnings == ()


READY = {"type": "Ready", "status": "False"}


def lost(name, **fields):
    node = a_node(name)
    node["status"]["conditions"] = [READY]
    return {**node, **fields}


def test_a_node_that_is_not_ready_and_has_no_taint_that_says_so_is_a_warning():
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    tainted, cordoned = lost("t", spec={"taints": [taint]}), lost("c", spec={"unschedulable": True})
    without_gpus = lost("w", status={"conditions": [READY]})
    (line,) = read(listing(NODE, tainted, cordoned, without_gpus, lost("x"))).warnings
    assert line.startswith("node x: is not ready, but has no taint node.kubernetes.io/not-ready: kube-scheduler would")


def asking(name, resource, gpus=8):
    pod = a_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: gpus, "cpu": 1, "example.com/fpga": 1}}
    return pod


@pytest.mark.parametrize("name", ["nvidia.com/gpus", "nvida.com/gpu", "nvidia/gpu", "nvidia.com/GPU"])
def test_a_resource_that_is_nearly_one_of_gpus_is_a_warning_once(name):
    words = f"pod ml/p: {name} is no GPU resource; did you mean {GPU}?"
    pods = [asking("p", name), asking("q", name)]
    assert read(listing(NODE, *pods)).warnings == (f"{words} (and 1 more pods)",)
    assert read_pods([("f", listing(pods[0]))], RULES).warnings == (words,)


@pytest.mark.parametrize("name", [GPU, "nvidia.com/mig-1g.5gb", "nvidia.com/gpumem", "nvidia.com/gpu.shared", "a.b/c"])
def test_resources_of_their_own_are_no_warning(name):
    assert read(listing(NODE, asking("p", name))).warnings == ()


def test_what_a_node_offers_is_no_typo():
    node = {"kind": "Node", "metadata": {"name": "m"}, "status": {"capacity": {"nvidia.com/gpus": 8}}}
    assert read(listing(node, asking("p", "nvidia.com/gpus"))).warnings == ()
