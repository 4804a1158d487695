"""Misspelt fields of a dump: one line each, and none for what Kubernetes really has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from kubernetes import client

from extender.dump import read_dumps, read_pods
from extender.dump.fieldnames import FieldNames
from extender.kube.gpurules import GpuRules
from extender.kube.raw import RawNode, RawPod

RULES = GpuRules.default()
AMOUNTS = {"cpu": "8", "nvidia.com/gpu": "8", "pods": "110"}


def node(**parts: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS},
        "spec": {},
        "metadata": {"labels": {}},
    }
    whole |= {"kind": "Node", **parts}
    return {**whole, "metadata": {"name": "n", **whole["metadata"]}}


def pod(spec: dict[str, Any], **meta: str) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "ml", **meta}, "spec": spec}


def container(resources: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d", "resources": resources}]}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def required(term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


TYPOS = [
    (node(status={"allocatables": AMOUNTS, "capacity": AMOUNTS}), "node n: status.allocatables", "allocatable"),
    (node(status={"allocatable": AMOUNTS, "Capacity": AMOUNTS}), "node n: status.Capacity", "capacity"),
    (node(spec={"taint": []}), "node n: spec.taint", "taints"),
    (node(spec={"unscheduleable": True}), "node n: spec.unscheduleable", "unschedulable"),
    (node(metadata={"labelz": {}}), "node n: metadata.labelz", "labels"),
    (node(statuz={"capacity": AMOUNTS}), "node n: statuz", None),  # `status` is there, too
    (pod(container({"request": {}})), "pod ml/p: spec.containers[1].resources.request", "requests"),
    (pod(container({"limit": {}})), "pod ml/p: spec.containers[1].resources.limit", "limits"),
    (pod({"nodeselector": {}}), "pod ml/p: spec.nodeselector", "nodeSelector"),
    (pod({"toleration": []}, uid="u"), "pod ml/p: spec.toleration", "tolerations"),
    (pod({"tolerations": [{"key": "a"}, {"operators": ""}]}), "pod ml/p: spec.tolerations[1].operators", "operator"),
    (pod({"affinity": {"nodeAfinity": {}}}), "pod ml/p: spec.affinity.nodeAfinity", "nodeAffinity"),
    (pod(required({"matchExpression": []})), f"pod ml/p: {TERMS}[0].matchExpression", "matchExpressions"),
    (
        pod(required({"matchExpressions": [{"key": "a", "operator": "In", "value": ["b"]}]})),
        f"pod ml/p: {TERMS}[0].matchExpressions[0].value",
        "values",
    ),
    (node(spec={"taints": [{"key": "a", "effects": "NoSchedule"}]}), "node n: spec.taints[0].effects", "effect"),
    (pod({"podCIDR": "x", "labels": {}, "custom": 1}), "", None),
    (node(spec={"podCIDR": "10.0.0.0/24"}, metadata={"managedFields": []}), "", None),
]


@pytest.mark.parametrize(("value", "where", "meant"), TYPOS)
@pytest.mark.parametrize("text", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
def test_a_misspelt_field_is_one_line_that_names_object_and_field(value, where, meant, text):
    lines = [w for w in read_dumps([("f", text(value).encode())], RULES).warnings if "no such field" in w]
    assert lines == ([f"{where}: there is no such field; did you mean {meant}?"] if meant else [])


def test_pods_that_are_to_arrive_are_looked_at():
    text = json.dumps(pod(container({"limit": {"nvidia.com/gpu": "8"}}))).encode()
    assert any("resources.limit: " in line for line in read_pods([("f", text)], RULES).warnings)


def fields_of(model: Any) -> dict[str, Any]:
    return {name: {} for name in model.attribute_map.values()}


def test_no_field_that_kubernetes_has_is_taken_for_a_typo():
    resources = fields_of(client.V1ResourceRequirements)
    containers = [fields_of(client.V1Container) | {"resources": resources}]
    spec = fields_of(client.V1PodSpec) | {"containers": containers, "resources": resources}
    whole = {"metadata": fields_of(client.V1ObjectMeta), "spec": spec, "status": fields_of(client.V1PodStatus)}
    for name in ("metadata", "spec", "status"):
        for read in list(whole[name]):
            # Each alone, because a name is strange only while the one it resembles is missing.
            assert list(FieldNames().misspelt({name: {read: {}}}, RawPod)) == []
    for read in (*resources, *containers[0]):
        one: dict[str, Any] = {
            "spec": {"containers": [{read: {}, "resources": {read: {}} if read in resources else {}}]}
        }
        assert list(FieldNames().misspelt(one, RawPod)) == []
    for name, model in (("spec", client.V1NodeSpec), ("status", client.V1NodeStatus)):
        for read in fields_of(model):
            assert list(FieldNames().misspelt({name: {read: {}}}, RawNode)) == []


INNER = [
    (client.V1Affinity, lambda fields: {"affinity": fields}),
    (client.V1NodeAffinity, lambda fields: {"affinity": {"nodeAffinity": fields}}),
    (client.V1PodAffinity, lambda fields: {"affinity": {"podAffinity": fields}}),
    (client.V1PodAntiAffinity, lambda fields: {"affinity": {"podAntiAffinity": fields}}),
    (client.V1NodeSelector, lambda fields: {"affinity": {"nodeAffinity": {REQUIRED: fields}}}),
    (client.V1NodeSelectorTerm, required),
    (client.V1NodeSelectorRequirement, lambda fields: required({"matchExpressions": [fields]})),
    (
        client.V1PreferredSchedulingTerm,
        lambda fields: {"affinity": {"nodeAffinity": {REQUIRED.replace("required", "preferred"): [fields]}}},
    ),
    (client.V1Toleration, lambda fields: {"tolerations": [fields]}),
]


@pytest.mark.parametrize(("model", "around"), INNER)
def test_no_field_inside_affinity_and_tolerations_is_taken_for_a_typo(model, around):
    for field in fields_of(model):
        assert list(FieldNames().misspelt({"spec": around({field: None})}, RawPod)) == []


def test_no_field_of_a_taint_is_taken_for_a_typo():
    for field in fields_of(client.V1Taint):
        assert list(FieldNames().misspelt({"spec": {"taints": [{field: None}]}}, RawNode)) == []


def test_what_old_and_new_releases_have_beside_the_client_is_no_typo():
    for shape, name, fields in (
        (RawNode, "spec", ("externalID", "configSource")),
        (RawPod, "spec", ("serviceAccount", "workloadRef", "hostnameOverride", "schedulingGroup")),
        (RawPod, "status", ("resourceClaimStatuses", "allocatedResources", "observedGeneration", "resize")),
        (RawPod, "metadata", ("selfLink", "clusterName", "initializers")),
    ):
        for field in fields:
            assert list(FieldNames().misspelt({name: {field: {}}}, shape)) == []


def test_pods_that_an_api_server_wrote_and_that_run_are_not_searched():
    text = json.dumps(pod({"nodeName": "n", "toleration": []}, uid="u")).encode()
    assert not any("no such field" in line for line in read_dumps([("f", text)], RULES).warnings)


def test_inventors_of_names_are_not_waited_for():
    names = FieldNames()
    value = {"spec": {f"taint{number}": 1 for number in range(10_000)}}
    assert len(list(names.misspelt(value, RawNode))) <= 20


def test_a_typo_in_what_pods_of_a_template_share_is_told_of_each_with_its_own_path():
    shared = {"tolerations": [{"key": "a"}, {"operators": ""}], **required({"matchExpression": []})}
    pods = [pod(container({}), uid="1"), *(pod({**container({}), **shared}) for _ in range(2))]
    for at, each in enumerate(pods):
        each["metadata"]["name"] = f"p{at}"
    text = json.dumps({"kind": "List", "items": pods}).encode()
    found = [line for line in read_dumps([("f", text)], RULES).warnings if "no such field" in line]
    paths = (f"{TERMS}[0].matchExpression", "spec.tolerations[1].operators")
    assert [line.split(": ")[:2] for line in found] == [[f"pod ml/p{at}", path] for at in (1, 2) for path in paths]
