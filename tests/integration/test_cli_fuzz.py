"""Hypothesis against the command line: whatever stands in a file, an exit code as documented and one clear line.

A small sound input is hurt: a value replaced or left out anywhere in it, bytes changed or cut off. What it is hurt with
are values of every type, numbers beyond all bounds, halves of characters, escape sequences, and scalars that only YAML
knows.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.apiobjects import GPU, affinity
from tests.commandline import Done, run

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TERM = {
    "matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}],
}
RESOURCES = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {GPU: "2"}}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "a",
        "labels": {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360", "gpu-extender.io/x": "y"},
        "annotations": {"scheduler.alpha.kubernetes.io/taints": '[{"key": "k", "effect": "NoSchedule"}]'},
    },
    "spec": {"unschedulable": False, "taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
    "status": {
        "capacity": {GPU: "8", "cpu": "32", "memory": "64Gi", "pods": "110"},
        "allocatable": {GPU: "7", "cpu": "31", "memory": "60Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "ml",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"scheduling.x-k8s.io/pod-group": "g"},
        "annotations": {"gpu-extender.io/types": "T4,any=2", "gpu-extender.io/min-memory": "8Gi"},
        "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
        "deletionTimestamp": None,
    },
    "spec": {
        "nodeName": "",
        "schedulerName": "s",
        "priority": 5,
        "preemptionPolicy": "Never",
        "containers": [{"name": "c", "resources": RESOURCES, "ports": [{"hostPort": 80}]}],
        "initContainers": [{"restartPolicy": "Always", "resources": RESOURCES}],
        "overhead": {"cpu": "1m"},
        "resources": {"requests": {"memory": "2Gi"}},
        "nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "affinity": {
            **affinity({"nodeSelectorTerms": [TERM]}, [{"weight": 1, "preference": TERM}]),
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
        },
        "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [{"persistentVolumeClaim": {}}],
        "schedulingGroup": {"podGroupName": "g"},
    },
    "status": {"phase": "Pending", "nominatedNodeName": "a", "reason": "x", "startTime": "2026-01-01T00:00:00Z"},
}


def running(name: str, node: str) -> dict[str, Any]:
    pod = copy.deepcopy(POD)
    pod["metadata"] |= {"name": name, "uid": name}
    pod["spec"]["nodeName"] = node
    pod["status"]["phase"] = "Running"
    return pod


OTHER_NODE = {"kind": "Node", "metadata": {"name": "b"}, "status": {"capacity": {GPU: "4", "pods": "9"}}}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "ml"},
    "spec": {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}},
    "status": {"disruptionsAllowed": 1},
}
CLUSTER = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        NODE, OTHER_NODE, POD, running("r", "a"), running("gone", "c"), BUDGET, {"kind": "Service", "metadata": {}},
    ],
}  # fmt: skip
EXTENDER = {
    "urlPrefix": "http://127.0.0.1:8888/scheduler",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
    "weight": 130,
    "enableHTTPS": True,
    "tlsConfig": {"insecure": True, "caData": "YQ=="},
    "httpTimeout": "2s",
    "nodeCacheCapable": True,
    "managedResources": [{"name": GPU, "ignoredByScheduler": False}],
    "ignorable": False,
}
SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "percentageOfNodesToScore": 100,
    "leaderElection": {"leaderElect": True, "resourceLock": "leases", "resourceName": "x"},
    "clientConnection": {"qps": 50},
    "profiles": [
        {
            "schedulerName": "s",
            "percentageOfNodesToScore": 50,
            "plugins": {
                "multiPoint": {"disabled": [{"name": "ImageLocality"}]},
                "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}], "disabled": [{"name": "*"}]},
            },
        }
    ],
    "extenders": [EXTENDER],
}
POLICY = {
    "apiVersion": "v1",
    "kind": "Policy",
    "predicates": [{"name": "GeneralPredicates"}, {"name": "Mine", "argument": {}}],
    "priorities": [{"name": "LeastRequestedPriority", "weight": 1}],
    "extenders": [{**EXTENDER, "httpTimeout": 2_000_000_000, "enableHttps": True}],
}
OWN = {
    "server": {"listen": "127.0.0.1:0", "threads": 4, "tls": {"cert_file": None}, "max_body_bytes": 2**20},
    "cluster": {"kubeconfig": "/none"},
    "verbs": {"bind": True, "counts": "own", "tentative_seconds": 3.5},
    "gpus": {"resources": [GPU], "model_labels": ["a"]},
    "scoring": {"policy": "hole-aware", "parameters": {"preference_weight": 1.0}},
    "logging": {"level": "info", "format": "json"},
}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.cfg": json.dumps(POLICY), "x": "{"}}

# -- how it is hurt ------------------------------------------------------------------------------------------------

# What json.dumps would not write stands for itself: the mark and its quotes are taken away in the end.
MARK = "@@"
RAW = [
    "9" * 5000, "-" + "9" * 30, "1e400", "-1e400", "NaN", "Infinity", "1.5", "0", "-0.0", '"\\ud800"', '"\\udc00x"',
    '"\\u001b[31m\\u0007"', '"a\\nerror: forged"', '"[/x]"', "0x" + "f" * 5000, "0b" + "1" * 5000, "1:59:59",
    "!!bool x",
    "!!int 1_0", "8", "!!binary x", "!!set {a}", "2026-01-01", "*none", "&a [*a]", "{<<: 5}", "[" * 2000, "~", "'",
]  # fmt: skip
raw = st.sampled_from([f"{MARK}{number}{MARK}" for number in range(len(RAW))])
texts = st.text(st.characters(exclude_categories=()), max_size=6) | st.sampled_from(
    [
        "",
        "x" * 5000,
        "/",
        "a/b",
        "\x00",
        "1e400",
        "-1",
        "8",
        "9" * 40,
        "any=x",
        ",",
        "[]",
        "{",
        "null",
        "true",
        "http://x",
    ]
)
leaves = texts | texts | st.none() | st.booleans() | st.integers() | st.floats() | raw
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a value, itself included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


@st.composite
def hurt(draw: st.DrawFn, sound: Any) -> Any:
    """Draw the value with one to three places changed or taken out."""
    value = copy.deepcopy(sound)
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        path = draw(st.sampled_from(sorted(places(value), key=repr)))
        if not path:
            return draw(anything)
        *above, last = path
        place = value
        for step in above:
            place = place[step]
        match draw(st.sampled_from(("change", "change", "take out", "add", "rename"))):
            case "change":
                place[last] = draw(anything)
            case "add" if isinstance(place, dict):
                place[draw(texts)] = draw(anything)
            case "rename" if isinstance(place, dict):
                place[draw(texts)] = place.pop(last)
            case _:
                del place[last]
    return value


def as_text(value: Any, head: bytes = b"") -> bytes:
    """Return JSON, or with a comment before it YAML."""
    text = json.dumps(value)
    for number, token in enumerate(RAW):
        text = text.replace(f'"{MARK}{number}{MARK}"', token)
    return head + text.encode()


def inputs(sound: Any) -> st.SearchStrategy[bytes]:
    """Draw texts: hurt values in JSON and YAML, some of them cut or with a byte changed, and mere bytes."""
    text = st.builds(as_text, hurt(sound), st.sampled_from((b"", b"# YAML\n", b"\xef\xbb\xbf")))
    cut = st.builds(lambda whole, at: whole[: at % (len(whole) + 1)], text, st.integers(0, 10_000))
    changed = st.builds(
        lambda whole, at, byte: whole[: at % (len(whole) + 1)] + bytes([byte]) + whole[at % (len(whole) + 1) + 1 :],
        text, st.integers(0, 10_000), st.integers(0, 255),
    )  # fmt: skip
    twice = st.builds(lambda one, other: one + b"\n---\n" + other, text, text)
    return text | text | text | text | cut | changed | twice | st.binary(max_size=30)


# -- what must hold ------------------------------------------------------------------------------------------------


def check(done: Done, output: str, codes: tuple[int, ...] = (0, 1, 2)) -> None:
    """Demand a documented exit code, at most one line of trouble, and nothing but text."""
    event(f"exit code {done.code}")
    assert done.code in codes, done
    assert len(done.errors) == (done.code == 2), done
    for line in done.err.splitlines():
        assert line.startswith(("error: ", "note: ", "warning: ")), done
        assert len(line) < 5000
    printed = done.out.decode()
    assert all(text.replace("\n", "").isprintable() for text in (printed, done.err)), done
    if done.code == 2:
        assert not printed
    elif output == "json":
        assert isinstance(json.loads(printed), dict)


def fuzz(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


outputs = st.sampled_from(("table", "json"))
ON_A_CLUSTER = (
    ("gpus",), ("fit",), ("fit", "--pod", "ml/p"), ("fit", "--pod", "ml/r"), ("simulate", "--queue"),
    ("simulate", "--queue", "--policy", "kube-scheduler"), ("simulate", "--queue", "--percentage", "1"),
)  # fmt: skip
WITH_A_SOLVER = (("plan", "--limit", "0.1"), ("defrag", "--hole", "8"), ("defrag", "--pod", "ml/p"), ("buy",))


@given(text=inputs(CLUSTER), command=st.sampled_from(ON_A_CLUSTER), output=outputs)
@fuzz(300)
def test_any_cluster(text, command, output):
    check(run(*command, "--cluster", "-", "-o", output, stdin=text), output)


@given(text=inputs(CLUSTER), command=st.sampled_from(WITH_A_SOLVER), output=outputs)
@fuzz(60)
def test_any_cluster_with_a_solver(text, command, output):
    check(run(*command, "--cluster", "-", "-o", output, stdin=text), output)


@given(text=inputs({"kind": "List", "items": [POD, running("r", "a")]}), option=st.booleans(), output=outputs)
@fuzz(150)
def test_any_pods(tmp_path, text, option, output):
    cluster = tmp_path / "cluster.json"
    cluster.write_bytes(as_text(CLUSTER))
    command = ("fit", "--pod-file", "-") if option else ("simulate", "--arrivals", "-")
    check(run(*command, "--cluster", cluster, "-o", output, stdin=text), output)


@given(text=st.sampled_from((SCHEDULER, POLICY, OWN, CONFIG_MAP)).flatmap(inputs), output=outputs)
@fuzz(300)
def test_any_file_to_check(text, output):
    check(run("config", "check", "-", "-o", output, stdin=text), output)


@given(text=inputs(OWN))
@fuzz(150)
def test_any_configuration(tmp_path, text):
    file, cluster = tmp_path / "config.yaml", tmp_path / "cluster.json"
    file.write_bytes(text)
    cluster.write_bytes(as_text(CLUSTER))
    check(run("gpus", "--cluster", cluster, "--config", file), "table", codes=(0, 2))


FIELDS = ("SERVER__LISTEN", "SERVER__THREADS", "GPUS__RESOURCES", "VERBS__BIND", "SCORING__PARAMETERS__X", "NONE")
values = st.sampled_from([token for token in RAW if "\x00" not in token]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8
)


@given(field=st.sampled_from(FIELDS), value=values)
@fuzz(60)
def test_any_variable(tmp_path, field, value):
    cluster = tmp_path / "cluster.json"
    cluster.write_bytes(as_text(CLUSTER))
    check(run("gpus", "--cluster", cluster, env={f"GPU_EXTENDER_{field}": value}), "table", codes=(0, 2))
