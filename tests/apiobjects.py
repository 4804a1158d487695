"""API objects as JSON, and what the product makes of them, in the fewest words."""

from __future__ import annotations

import json

import msgspec

from extender.dump import read_dumps
from extender.kube.convert import node_info, pod_info
from extender.kube.gpurules import GpuRules
from extender.kube.raw import RawNode, RawPod

GPU = "nvidia.com/gpu"
GI = 2**30
RULES = GpuRules.default()


def fail(line):
    raise AssertionError(f"unexpected warning: {line}")


def node(data, warn=fail, rules=RULES):
    return node_info(msgspec.json.decode(json.dumps(data), type=RawNode), rules, warn)


def pod(data, warn=fail, rules=RULES):
    return pod_info(msgspec.json.decode(json.dumps(data), type=RawPod), rules, warn)


def labelled(labels, resource=GPU, count="8", rules=RULES):
    data = {"metadata": {"name": "n", "labels": labels}, "status": {"capacity": {resource: count}}}
    return node(data, rules=rules).gpus[resource]


def spec(requests=None, **fields):
    containers = [] if requests is None else [{"resources": {"requests": requests}}]
    return {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"containers": containers, **fields}}


def annotated(annotations, warn=fail):
    data = spec({GPU: "1"})
    data["metadata"]["annotations"] = annotations
    return pod(data, warn)


def container(requests=None, limits=None, **fields):
    return {"resources": {"requests": requests, "limits": limits}, **fields}


TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}


def affinity(required=None, preferred=None):
    node_affinity = {}
    if required is not None:
        node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if preferred is not None:
        node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": node_affinity}


# ---------------------------------------------------------------- whole dumps


def a_pod(name, gpus=1, node="", phase="Pending", **fields):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": node, "containers": [container({GPU: gpus})], **fields},
        "status": {"phase": phase},
    }


def a_node(name, gpus=8, **labels):
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": {GPU: gpus}}}


def listing(*items, kind="List"):
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


def read(*texts):
    return read_dumps([(f"file{number}", text) for number, text in enumerate(texts, 1)], RULES)
