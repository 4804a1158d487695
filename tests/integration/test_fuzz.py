"""Hypothesis against the live process: whatever the body, no 500, no lost connection, answers kube-scheduler takes.

One kept-alive connection serves all examples of a verb; more than 2,000 in total.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.integration.harness import Client, cluster, node_object, pod_object, running

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ODD = 'odd"né\u2028\\'
KNOWN = ("a", "b", "c", ODD)
CLUSTER = cluster(
    node_object("a"), node_object("b", 2), node_object("c", 1), node_object(ODD, 4),
    pod_object("holder", 7, "a", priority=0), pod_object("urgent-holder", 1, "b", priority=1000),
    pod_object("waiting", 2),
)  # fmt: skip


@pytest.fixture(scope="module")
def client():
    with running(CLUSTER) as service:
        workers = service.workers()
        client = service.client()
        client.get("/healthz")
        yield client
        client.close()
        assert service.workers() == workers
        assert service.logged("Traceback", within=0) == []


# -- bodies --------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=()), max_size=6) | st.sampled_from(("\ud800", "x\udc00"))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from((*KNOWN, *KNOWN, "new", "")) | texts
AMOUNTS = ("1", "2", "8", "0", "-1", "1e3", "9" * 40, "x", "", 1, 1.5, None)


def pods_with(odd: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw Pods; `odd` stands now and then where something of a certain type belongs."""
    amounts = st.sampled_from(AMOUNTS) | odd
    limits = st.fixed_dictionaries({"nvidia.com/gpu": amounts}, optional={"cpu": amounts, "memory": amounts})
    container = st.fixed_dictionaries({"resources": st.fixed_dictionaries({"limits": limits})})
    spec = st.fixed_dictionaries(
        {"containers": st.lists(container, max_size=2)},
        optional={
            "priority": st.sampled_from((0, 500, 2000, None)) | odd,
            "preemptionPolicy": st.sampled_from(("Never", "PreemptLowerPriority")) | odd,
            "nodeSelector": st.dictionaries(texts, texts, max_size=1) | odd,
            "affinity": st.none() | odd,
            "tolerations": st.just([{"operator": "Exists"}]) | odd,
            "nodeName": st.sampled_from(("a", "gone", "")) | odd,
            "initContainers": st.lists(container, max_size=1) | odd,
        },
    )
    meta = st.fixed_dictionaries({"name": texts, "uid": st.sampled_from(("u1", "u2", "uid-waiting"))})
    return st.fixed_dictionaries({"metadata": meta, "spec": spec}, optional={"status": st.just({}) | odd, "kind": odd})


sound_pods = pods_with(st.none())
pods = sound_pods | sound_pods | sound_pods | pods_with(anything)
nodes = st.builds(node_object, names, st.integers(0, 9)) | st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": names})}, optional={"status": anything, "spec": anything}
)
victims = st.dictionaries(
    names,
    st.none() | st.fixed_dictionaries(
        {"Pods": st.none() | st.lists(st.fixed_dictionaries({"UID": texts}), max_size=3)},
        optional={"NumPDBViolations": st.integers(-1, 2**70)},
    ),
    max_size=3,
)  # fmt: skip
casings = st.sampled_from((str, str.lower, str.upper, lambda key: key[0].lower() + key[1:]))


def bodies(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[bytes]:
    """Draw mostly sound bodies, then hurt some: wrong values, wrong keys, cut, or with a byte changed."""
    sound = st.fixed_dictionaries({}, optional=fields)
    hurt = st.builds(lambda value, key, wrong: {**value, key: wrong}, sound, st.sampled_from(sorted(fields)), anything)
    whole = st.fixed_dictionaries(fields)
    cased = st.builds(lambda value, casing: {casing(key): item for key, item in value.items()}, whole, casings)
    text = (whole | whole | whole | cased | sound | hurt).map(_as_json)
    cut = st.builds(lambda raw, at: raw[: at % (len(raw) + 1)], text, st.integers(0, 10_000))
    changed = st.builds(
        lambda raw, at, byte: raw[: at % (len(raw) + 1)] + bytes([byte]) + raw[at % (len(raw) + 1) + 1 :],
        text, st.integers(0, 10_000), st.integers(0, 255),
    )  # fmt: skip
    return text | text | text | text | cut | changed | st.binary(max_size=20) | anything.map(_as_json)


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


ARGS = {
    "Pod": pods,
    "Nodes": st.none() | st.fixed_dictionaries({"items": st.lists(nodes, max_size=4)}),
    "NodeNames": st.lists(names, max_size=8) | st.lists(names, max_size=8) | st.none(),
}
PREEMPT = {"Pod": pods, "NodeNameToMetaVictims": victims | st.none(), "NodeNameToVictims": st.none() | victims}
BIND = {
    "PodName": st.sampled_from(("waiting", "other")) | texts,
    "PodNamespace": st.just("ml") | texts,
    "PodUID": st.sampled_from(("uid-waiting", "u1")) | texts,
    "Node": names,
}


# -- what must hold ------------------------------------------------------------------------------------------------


def ask(client: Client, verb: str, raw: bytes) -> Any:
    """Return the decoded answer; a refusal has one line, and the connection is the same as before."""
    before = client.connection.sock.getsockname()
    answer = client.post(verb, raw)
    assert client.connection.sock.getsockname() == before
    assert answer.status in {200, 400}, (answer, raw)
    event(f"{verb}: {answer.status}")
    value = json.loads(_text(answer.body))
    if answer.status == 400:
        assert list(value) == ["Error"]
        assert value["Error"]
        assert "\n" not in value["Error"]
        return None
    return value


def _text(raw: bytes) -> str:
    # Bytes that are no UTF-8, in a part of the body that nobody looks at, are let through, as Go does.
    return raw.decode(errors="replace")


def name_of(item) -> str:
    """Return a node's name. For a pod without GPUs nobody reads it: then it need not be there."""
    name = (item.get("metadata") or {}).get("name")
    return name if isinstance(name, str) else ""


def asked_names(raw: bytes) -> list[str]:
    """Read the question as Go would: keys in any casing, the later one counts."""
    fields = {key.casefold(): value for key, value in json.loads(_text(raw)).items()}
    if fields.get("nodenames") is not None:
        return list(fields["nodenames"])
    names = [name_of(item) for item in (fields["nodes"].get("items") or [])]
    # Inside objects lone surrogates are read as Go reads them.
    return [re.sub("[\ud800-\udfff]", "\ufffd", name) for name in names]


def fuzz(examples: int):
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


@given(raw=bodies(ARGS))
@fuzz(1200)
def test_filter(client, raw):
    value = ask(client, "filter", raw)
    if value is None or value["Error"]:
        return
    asked = asked_names(raw)
    kept = value["NodeNames"] if "NodeNames" in value else [name_of(item) for item in value["Nodes"]["items"]]
    failed = value["FailedNodes"]
    assert sorted({*kept, *failed}) == sorted(set(asked)), "every candidate once, and no other"
    assert not {*kept} & {*failed}
    assert failed.items() >= value["FailedAndUnresolvableNodes"].items()
    assert all(isinstance(reason, str) and reason for reason in failed.values())
    assert ask(client, "filter", raw) == value, "asked twice, answered the same"


@given(raw=bodies(ARGS))
@fuzz(500)
def test_prioritize(client, raw):
    value = ask(client, "prioritize", raw)
    if value is None:
        return
    assert [entry["Host"] for entry in value] == asked_names(raw)
    scores = [entry["Score"] for entry in value]
    assert all(type(score) is int and 0 <= score <= 10 for score in scores)
    assert scores.count(10) <= 1
    assert ask(client, "prioritize", raw) == value


@given(raw=bodies(PREEMPT))
@fuzz(500)
def test_preempt(client, raw):
    value = ask(client, "preempt", raw)
    if value is None:
        return
    found = value["NodeNameToMetaVictims"]
    for entry in found.values():
        assert entry["Pods"]
        assert all(isinstance(pod["UID"], str) for pod in entry["Pods"])
        assert type(entry["NumPDBViolations"]) is int


@given(raw=bodies(BIND))
@fuzz(500)
def test_bind(client, raw):
    value = ask(client, "bind", raw)
    assert value is None or isinstance(value["Error"], str)
