from __future__ import annotations

import pytest

from extender.kube.gpurules import GpuRules
from extender.packing.resources import MAX_AMOUNT
from tests.apiobjects import GI, GPU, container, pod, spec


def sidecar(requests):
    return container(requests, restartPolicy="Always")


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([], [], {}),
        ([container({GPU: "1"}), container({GPU: "1"})], [], {GPU: 2}),
        ([container(limits={GPU: "1"})], [], {GPU: 1}),
        ([container({"cpu": "1"}, {"cpu": "4", GPU: "1"})], [], {"cpu": 1000, GPU: 1}),
        ([container({GPU: "0", "cpu": "1"})], [], {"cpu": 1000}),
        ([container({GPU: None})], [], {}),
        ([container({GPU: "1"})], [container({GPU: "4"})], {GPU: 4}),  # max(1, 4)
        ([container({GPU: "1"})], [sidecar({GPU: "1"}), container({GPU: "2"})], {GPU: 3}),  # max(1+1, 1+2)
        ([container({GPU: "1"})], [container({GPU: "2"}), sidecar({GPU: "1"})], {GPU: 2}),  # max(1+1, 2, 1)
        ([container({GPU: "1"})], [sidecar({GPU: "1"}), sidecar({GPU: "1"})], {GPU: 3}),  # 1+1+1
        ([container({"cpu": "100m"})], [container({GPU: "1"})], {"cpu": 100, GPU: 1}),
        # 200m sidecar, then 100m init, app 100m: max(100+200, 200+100) as on the sidecar page of the documentation
        ([container({"cpu": "100m"})], [sidecar({"cpu": "200m"}), container({"cpu": "100m"})], {"cpu": 300}),
        ([container({"pods": "5"})], [], {}),
        ([container({GPU: str(MAX_AMOUNT)}), container({GPU: "1"})], [], {GPU: MAX_AMOUNT}),
    ],
)
def test_containers_and_init_containers(containers, init, expected):
    assert pod(spec(containers=containers, initContainers=init)).requests == expected


@pytest.mark.parametrize(("text", "amount"), [("500m", 1), ("0.5", 1), ("1500m", 2), (0.25, 1), ("1e-9", 1)])
def test_a_part_of_a_gpu_counts_as_one_and_is_said(text, amount):
    said: list[str] = []
    assert pod(spec({GPU: text}), warn=said.append).requests == {GPU: amount}
    assert said == [
        f"pod ml/p: spec.containers[0].resources.requests[{GPU}]: {text!r} is no whole number; counted as {amount}"
    ]


@pytest.mark.parametrize(("resource", "text"), [(GPU, "1000m"), (GPU, "2.0"), ("cpu", "0.5"), ("memory", "128000m")])
def test_whole_numbers_and_divisible_resources_are_not_worth_a_word(resource, text):
    assert list(pod(spec({resource: text})).requests) == [resource]


def test_one_object_says_a_bounded_number_of_lines():
    said: list[str] = []
    pod(spec({f"example.com/r{at}": "many" for at in range(1000)}), warn=said.append)
    assert len(said) == 21
    assert said[-1] == "pod ml/p: more like this is not shown"


def test_overhead_is_added_at_the_end():
    data = spec({"cpu": "1"}, initContainers=[container({"cpu": "3"})], overhead={"cpu": "250m", "memory": "1Gi"})
    assert pod(data).requests == {"cpu": 3250, "memory": GI}


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ({"requests": {"cpu": "6", "memory": "20Gi"}}, {"cpu": 6000, "memory": 20 * GI, GPU: 2}),
        ({"requests": {GPU: "7"}}, {"cpu": 1000, GPU: 2}),
        ({"limits": {"cpu": "8"}}, {"cpu": 1000, GPU: 2}),  # containers name cpu: their sum is the request
        ({"limits": {"memory": "1Gi"}}, {"cpu": 1000, GPU: 2, "memory": GI}),
        ({"requests": {"hugepages-2Mi": "4Mi"}}, {"cpu": 1000, GPU: 2, "hugepages-2Mi": 4 * 2**20}),
        ({"requests": {"cpu": "0"}}, {GPU: 2}),
    ],
)
def test_pod_level_resources_replace_cpu_memory_and_hugepages(level, expected):
    assert pod(spec({"cpu": "1", GPU: "2"}, resources=level)).requests == expected


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        ({"containers": [container({GPU: "1"}), container(limits={GPU: "eight"})]}, "containers[1].resources.limits"),
        ({"containers": [], "initContainers": [container({GPU: "-1"})]}, "initContainers[0].resources.requests"),
        ({"containers": [container({GPU: "1"}, {GPU: "eight"})]}, ""),  # what is requested counts
        ({"containers": [container({GPU: "1", "cpu": "x"})]}, ""),
        ({"containers": [container({GPU: "0.5"})]}, ""),  # rounded up
    ],
)
def test_an_amount_of_gpus_that_cannot_be_read_is_known(parts, where):
    said: list[str] = []
    unread = pod(spec(**parts), said.append).gpu.unread
    assert unread.startswith(f"spec.{where}[{GPU}]: '" if where else "")
    assert bool(unread) == bool(where)
    assert "counted as" not in unread


def test_bad_and_negative_amounts_of_a_pod_are_said_with_their_field():
    said: list[str] = []
    data = spec(
        containers=[container({GPU: "8K"}), container(limits={GPU: "-1"})], initContainers=[container({"cpu": "x"})]
    )
    assert pod(data, said.append).requests == {}
    assert said == [
        f"pod ml/p: spec.containers[0].resources.requests[{GPU}]: '8K' is not a quantity; counted as 0",
        f"pod ml/p: spec.containers[1].resources.limits[{GPU}]: '-1' is negative; counted as 0",
        "pod ml/p: spec.initContainers[0].resources.requests[cpu]: 'x' is not a quantity; counted as 0",
    ]


def test_what_is_absurd_is_read_and_not_kept():
    rules = GpuRules.default()
    pod(spec({f"example.com/{'x' * 1000}": "1", GPU: "1"}), rules=rules)
    many = {f"nvidia.com/mig-{at}": "1" for at in range(1000)}
    assert len(pod(spec(many), warn=lambda _: None, rules=rules).gpu.others) == 999
    usual = pod(spec({GPU: "2"}), rules=rules)
    assert usual.gpu is pod(spec({GPU: "2"}), rules=rules).gpu
    assert pod(spec(many), rules=rules).gpu is not pod(spec(many), rules=rules).gpu
