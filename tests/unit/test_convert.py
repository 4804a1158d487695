from __future__ import annotations

import pytest

from extender.kube.convert import pod_key
from extender.kube.raw import RawPod
from extender.packing.gpu import GpuRequest
from extender.packing.selectors import NodeConstraints, Operator, PreferredTerm, Requirement, Taint, Term, Toleration
from extender.packing.types import Phase
from tests.apiobjects import GI, GPU, TERM, affinity, container, node, pod, spec

# ---------------------------------------------------------------- nodes


def test_a_node_in_full():
    info = node(
        {
            "metadata": {"name": "n", "labels": {"a": "b", "empty": None}},
            "spec": {
                "unschedulable": True,
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "t"}],
            },
            "status": {
                "capacity": {"cpu": "1500m", "memory": "1Gi", "pods": "110", GPU: "8"},
                "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "110", GPU: "7"},
                "conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "Unknown"}],
            },
        }
    )
    assert info.labels == {"a": "b", "empty": ""}
    assert info.capacity == {"cpu": 1500, "memory": GI, "pods": 110, GPU: 8}
    assert info.allocatable == {"cpu": 1000, "memory": GI, "pods": 110, GPU: 7}
    assert info.taints == (Taint("k", "v", "NoSchedule"), Taint("t", "", ""))
    assert info.unschedulable
    assert not info.ready
    assert set(info.gpus) == {GPU}


def test_an_empty_node_is_ready_and_has_nothing():
    info = node({"metadata": {"name": "n"}})
    assert (info.allocatable, info.capacity, info.gpus, info.taints, info.ready) == ({}, {}, {}, (), True)


@pytest.mark.parametrize(
    ("status", "capacity", "allocatable"),
    [
        ({"capacity": {GPU: 4}}, {GPU: 4}, {GPU: 4}),
        ({"capacity": {GPU: 4}, "allocatable": None}, {GPU: 4}, {GPU: 4}),
        ({"capacity": {GPU: 4}, "allocatable": {}}, {GPU: 4}, {}),
        ({"allocatable": {GPU: 4}}, {GPU: 4}, {GPU: 4}),
        ({"capacity": {GPU: 0}, "allocatable": {GPU: 0}}, {GPU: 0}, {GPU: 0}),
    ],
)
def test_one_map_stands_in_for_the_other_only_when_that_is_absent(status, capacity, allocatable):
    info = node({"metadata": {"name": "n"}, "status": status})
    assert (info.capacity, info.allocatable) == (capacity, allocatable)
    assert set(info.gpus) == {GPU}


@pytest.mark.parametrize("amount", ["8K", "", True, [8], "-1"])
def test_a_bad_amount_counts_as_none_and_is_said(amount):
    said: list[str] = []
    info = node(
        {"metadata": {"name": "n"}, "status": {"capacity": {GPU: 8, "cpu": 1}, "allocatable": {GPU: amount}}},
        said.append,
    )
    assert info.allocatable == {GPU: 0}
    assert len(said) == 1
    assert said[0].startswith(f"node n: status.allocatable[{GPU}]: ")


@pytest.mark.parametrize(
    ("taint", "ready"),
    [
        ({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, False),
        ({"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}, True),
    ],
)
def test_without_conditions_the_taints_tell_whether_a_node_is_lost(taint, ready):
    assert node({"metadata": {"name": "n"}, "spec": {"taints": [taint]}}).ready == ready


def test_taints_of_kubernetes_1_4():
    old = {"scheduler.alpha.kubernetes.io/taints": '[{"key":"gpu","value":"only","effect":"NoSchedule"}]'}
    assert node({"metadata": {"name": "n", "annotations": old}}).taints == (Taint("gpu", "only", "NoSchedule"),)
    assert node({"metadata": {"name": "n", "annotations": old}, "spec": {"taints": []}}).taints == ()


# ---------------------------------------------------------------- pods


def test_a_pod_in_full():
    info = pod(
        {
            "metadata": {
                "name": "p",
                "namespace": "ml",
                "uid": "u",
                "creationTimestamp": "1970-01-01T00:01:00Z",
                "deletionTimestamp": "1970-01-01T00:02:00Z",
            },
            "spec": {
                "nodeName": "n",
                "schedulerName": "volcano",
                "priority": 7,
                "preemptionPolicy": "Never",
                "nodeSelector": {"b": "2", "a": "1"},
                "tolerations": [{"key": "k", "operator": "Exists"}, {"key": "l", "value": "v", "effect": "NoSchedule"}],
                "schedulingGates": [{"name": "g"}],
                "containers": [container({GPU: "2", "nvidia.com/mig-1g.5gb": "1", "cpu": "1"})],
            },
            "status": {
                "phase": "Running",
                "reason": "Because",
                "nominatedNodeName": "m",
                "extendedResourceClaimStatus": {},
            },
        }
    )
    assert (info.uid, info.key, info.created, info.phase) == ("u", "ml/p", 60.0, Phase.RUNNING)
    assert (info.node_name, info.nominated_node, info.scheduler_name) == ("n", "m", "volcano")
    assert (info.priority, info.may_preempt, info.terminating, info.gated) == (7, False, True, True)
    assert (info.served_by_dra, info.failure_reason) == (True, "Because")
    assert info.gpu == GpuRequest(GPU, 2, whole=True, others=(("nvidia.com/mig-1g.5gb", 1),))
    assert info.constraints == NodeConstraints(
        selector=(("a", "1"), ("b", "2")),
        tolerations=(Toleration("k", exists=True), Toleration("l", value="v", effect="NoSchedule")),
    )


@pytest.mark.parametrize("data", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": {"containers": None}}])
def test_a_pod_of_nothing(data):
    info = pod(data)
    assert (info.uid, info.namespace, info.name, info.requests) == ("default/", "default", "", {})
    assert (info.phase, info.priority, info.may_preempt, info.gated) == (Phase.PENDING, 0, True, False)
    assert info.constraints == NodeConstraints()
    assert info.scheduler_name == "default-scheduler"


def test_an_empty_list_of_gates_is_no_gate():
    assert not pod(spec(schedulingGates=[])).gated


def test_nulls_of_every_optional_field_are_absences():
    nulls = dict.fromkeys(
        ["nodeName", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "tolerations", "priority"]
    )
    data = spec({GPU: "1"}, **nulls, schedulingGates=None, volumes=None)
    data["metadata"] |= {"labels": None, "annotations": None, "creationTimestamp": None, "uid": None}
    data["status"] = dict.fromkeys(["phase", "reason", "nominatedNodeName", "extendedResourceClaimStatus"])
    assert pod(data) == pod(spec({GPU: "1"}))


def test_odd_phase_and_time_are_said():
    said: list[str] = []
    data = spec() | {"status": {"phase": "Zombie"}}
    data["metadata"]["creationTimestamp"] = "yesterday"
    info = pod(data, said.append)
    assert (info.phase, info.created) == (Phase.UNKNOWN, 0.0)
    assert len(said) == 2


def test_the_key_of_a_raw_pod():
    assert pod_key(RawPod()) == ("default", "")


NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}


@pytest.mark.parametrize(
    ("raw", "terms"),
    [
        (None, None),
        ({}, None),
        ({"nodeAffinity": None}, None),
        (affinity(), None),
        (affinity({}), ()),
        (affinity({"nodeSelectorTerms": []}), ()),
        (affinity({"nodeSelectorTerms": [TERM]}), (Term((Requirement("a", Operator.IN, ("1",)),)),)),
        (
            affinity({"nodeSelectorTerms": [NAMED, {}]}),
            (Term(fields=(Requirement("metadata.name", Operator.IN, ("n",)),)), Term()),
        ),
        (
            affinity({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}),
            (Term((Requirement("a", None),)),),
        ),
    ],
)
def test_required_affinity(raw, terms):
    assert pod(spec(affinity=raw)).constraints.affinity == terms


def test_preferred_affinity():
    raw = affinity(preferred=[{"weight": 5, "preference": TERM}, {"weight": 1}])
    assert pod(spec(affinity=raw)).preferred == (
        PreferredTerm(5, Term((Requirement("a", Operator.IN, ("1",)),))),
        PreferredTerm(1, Term()),
    )


def test_a_toleration_with_an_unknown_operator_tolerates_nothing():
    said: list[str] = []
    assert (
        pod(spec(tolerations=[{"key": "k", "operator": "Gt", "value": "5"}]), said.append).constraints.tolerations == ()
    )
    assert said == ["pod ml/p: spec.tolerations: operator 'Gt' is not modelled; it tolerates nothing"]


# ---------------------------------------------------------------- what is not modelled

ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}
SOFT = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ()),
        ({"affinity": ANTI}, ("affinity between pods",)),
        ({"affinity": SOFT}, ()),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, ("topology spread",)),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ()),
        ({"volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "c"}}]}, ("volumes",)),
        ({"volumes": [{"configMap": {}}]}, ()),
        ({"containers": [{"ports": [{"containerPort": 80}]}]}, ()),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, ("host ports",)),
        ({"resourceClaims": [{"name": "gpu"}]}, ("resource claims",)),
    ],
)
def test_what_other_filters_look_at_is_noted(fields, words):
    assert pod(spec(**({"containers": []} | fields))).unmodelled == words


@pytest.mark.parametrize(
    ("condition", "fields", "refused"),
    [
        ({"status": "False", "reason": "Unschedulable"}, {}, True),
        ({"status": "False", "reason": "SchedulerError"}, {}, False),
        ({"status": "False", "reason": "SchedulingGated"}, {}, False),
        ({"status": "True"}, {}, False),
        ({"status": "False", "reason": "Unschedulable"}, {"nodeName": "n"}, False),
        ({"type": "Ready", "status": "False"}, {}, False),
    ],
)
def test_whether_the_scheduler_has_refused_a_pod(condition, fields, refused):
    status = {"conditions": [{"type": "PodScheduled", **condition}]}
    assert pod({**spec(**fields), "status": status}).refused is refused


@pytest.mark.parametrize(
    ("given", "counted", "lines"),
    [(1, 1, 0), (100, 100, 0), (None, 0, 0), (101, 100, 1), (2**63, 100, 1), (10**30, 100, 1), (-5, 0, 1)],
)
def test_the_weight_of_a_preferred_term_is_what_the_api_server_lets_through(given, counted, lines):
    said: list[str] = []
    data = spec(affinity=affinity(preferred=[{"weight": given, "preference": TERM}]))
    assert [preferred.weight for preferred in pod(data, said.append).preferred] == [counted]
    assert len(said) == lines
    assert all("a preferred term weighs" in line for line in said)
