"""Public cases of kind `extender` against the real service: what it answers, byte by HTTP byte.

Not here: 085 is arithmetic of kube-scheduler and 101 a judgement of its configuration
(`tests/unit/test_schedulerconfig.py`); 099 plays a watch (`tests/unit/test_cache.py`).
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.harness import Answer, Service, node_object, pod_object, running

pytestmark = pytest.mark.integration

Case = Mapping[str, Any]
CASES: Final = {
    path.name[:3]: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
}
EMPTY: Final = {"apiVersion": "v1", "kind": "List", "items": []}


def ask(service: Service, request: Mapping[str, Any]) -> Answer:
    """Send a request of a case on a connection of its own."""
    raw = request["body_raw"].encode() if "body_raw" in request else json.dumps(request.get("body")).encode()
    client = service.client()
    try:
        return client.send(request["method"], f"/scheduler/{request['verb']}", raw, request.get("headers", {}))
    finally:
        client.close()


def requests_of(case: Case) -> list[Mapping[str, Any]]:
    return case["input"].get("requests") or [case["input"]["http"]]


def check_filter(service: Service, case: Case) -> None:
    answer = ask(service, requests_of(case)[0])
    expected = case["expected"]["body"]
    got = answer.value
    assert answer.status == case["expected"]["status"]
    assert got["NodeNames"] == expected["NodeNames"]
    assert got["Error"] == expected["Error"]
    assert "Nodes" not in got
    for key in ("FailedNodes", "FailedAndUnresolvableNodes"):
        assert sorted(got[key]) == sorted(expected[key])
        assert all(isinstance(reason, str) and reason for reason in got[key].values())
    names = requests_of(case)[0]["body"]["NodeNames"]
    assert sorted([*got["NodeNames"], *got["FailedNodes"]]) == sorted(names), "each in exactly one of the two"


def check_missing_fields(service: Service, case: Case) -> None:
    missing = ["neither Nodes nor NodeNames", "neither Nodes nor NodeNames", "Pod", "Pod"]
    for request, words in zip(requests_of(case), missing, strict=True):
        answer = ask(service, request)
        assert answer.status == case["expected"]["each"]["status"]
        assert words in answer.value["Error"]
        assert answer.value["NodeNames"] in (None, [])


def check_casings(service: Service, case: Case) -> None:
    for request, expected in zip(requests_of(case), case["expected"]["each"], strict=True):
        answer = ask(service, request)
        assert answer.status == expected["status"]
        if "NodeNames" in expected:
            assert answer.value["NodeNames"] == expected["NodeNames"]
        if "Nodes.items[*].metadata.name" in expected:
            items = answer.value["Nodes"]["items"]
            assert [item["metadata"]["name"] for item in items] == expected["Nodes.items[*].metadata.name"]
            assert items == request["body"]["nodes"]["items"][:1]
        if "Error" in expected:
            assert answer.value == {"Error": expected["Error"]}


def check_clients_that_give_up(service: Service, case: Case) -> None:
    workers = service.workers()
    empty, bare, cut, get, unknown = requests_of(case)
    assert ask(service, empty).status in {200, 400}
    assert ask(service, bare).status in {200, 400}
    with service.socket() as connection:
        head = "".join(f"{key}: {value}\r\n" for key, value in cut["headers"].items())
        connection.sendall(f"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\n{head}\r\n{cut['body_raw']}".encode())
        connection.shutdown(socket.SHUT_WR)
        connection.recv(65536)
    assert len(service.logged("ended after")) <= 1
    assert ask(service, get).status == 405
    assert ask(service, unknown).status == 404
    assert service.get("/healthz").status == 200
    assert service.workers() == workers


def check_scores(service: Service, case: Case) -> None:
    answer = ask(service, requests_of(case)[0])
    entries = json.loads(answer.body, parse_float=lambda text: pytest.fail(f"{text} is no integer"))
    scores = {entry["Host"]: entry["Score"] for entry in entries}
    assert answer.status == case["expected"]["status"]
    assert isinstance(entries, list)
    assert [sorted(entry) for entry in entries] == [["Host", "Score"]] * 2
    assert sorted(scores) == ["n1", "n3"]
    assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
    assert scores["n1"] > scores["n3"]


def check_other_uid(service: Service, case: Case) -> None:
    request = requests_of(case)[0]
    answer = ask(service, request)
    assert answer.status == case["expected"]["status"]
    assert "UID" in answer.value["Error"]
    assert request["body"]["PodUID"] in answer.value["Error"]


def check_bound_before(service: Service, case: Case) -> None:
    for request, expected in zip(requests_of(case), case["expected"]["each"], strict=True):
        answer = ask(service, request)
        assert answer.status == expected["status"]
        assert expected["Error"] in answer.value["Error"]
        assert bool(answer.value["Error"]) == bool(expected["Error"])
    # n1 holds 6 and 1 of 8 GPUs, so one more fits, two do not; n2 holds 8 and 1.
    for gpus, fits in ((1, ["n1"]), (2, [])):
        body = {"Pod": pod_object("probe", gpus), "NodeNames": ["n1", "n2"]}
        assert service.ask("filter", body).value["NodeNames"] == fits


def check_preempt(service: Service, case: Case) -> None:
    expected = case["expected"]["each"]
    for request, wanted in zip(requests_of(case), expected, strict=True):
        answer = ask(service, request)
        assert answer.status == 200
        got = answer.value["NodeNameToMetaVictims"]
        if "NodeNameToMetaVictims" in wanted:
            assert got == wanted["NodeNameToMetaVictims"]
        assert all(victims["Pods"] for victims in got.values())


def check_chosen_victims(service: Service, case: Case) -> None:
    check_preempt(service, {**case, "expected": {"each": [{}, {}]}})
    uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in case["input"]["cluster"]["items"]}
    first, second = (ask(service, request).value["NodeNameToMetaVictims"] for request in requests_of(case))
    assert sorted(pod["UID"] for pod in first["n1"]["Pods"]) == sorted([uids["l1"], uids["l2"]])
    assert sorted(first) == ["n1"]
    assert second == {"n2": {"Pods": [{"UID": uids["l3"]}], "NumPDBViolations": 0}}


def check_huge_body(service: Service, case: Case) -> None:
    body = _huge_body(1000)
    assert len(body) > 12_000_000
    started = time.monotonic()
    answer = service.ask("filter", body)
    assert answer.status == case["expected"]["status"]
    assert time.monotonic() - started < 3
    assert len(answer.value["Nodes"]["items"]) == 1000


def _huge_body(count: int) -> bytes:
    """Make ExtenderArgs of full nodes as case 091 describes them: 60 labels, 15 annotations, 50 images of 2 names."""
    node = node_object("NAME", labels={f"example.com/label-{at}": f"value-{at}" for at in range(60)})
    node["metadata"]["annotations"] = {f"example.com/annotation-{at}": "x" * 500 for at in range(15)}
    name = "registry.example/group/image-{at}@sha256:" + 64 * "0"
    image = [
        {"names": [name.format(at=at), f"registry.example/group/image-{at}:v1"], "sizeBytes": at} for at in range(50)
    ]
    node["status"]["images"] = image
    text = json.dumps(node)
    items = ",".join(text.replace('"NAME"', f'"new-{at}"') for at in range(count))
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (
        json.dumps(pod_object("p")).encode(), items.encode(),
    )  # fmt: skip


def check_two_pods_one_gpu(service: Service, case: Case) -> None:
    """Play the script once per hundred connections; binding is remembered before the answer is sent."""
    names = ["solo", "duo"]

    def ask_filter(pod: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = service.ask("filter", {"Pod": pod, "NodeNames": names}).value
        return answer

    def bind(pod: Mapping[str, Any], node: str) -> str:
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": "ml", "PodUID": meta["uid"], "Node": node}
        error: str = service.ask("bind", body).value["Error"]
        return error

    a, b, c, d = (pod_object(name) for name in "abcd")
    assert ask_filter(a)["NodeNames"] == names
    assert len(service.ask("prioritize", {"Pod": a, "NodeNames": names}).value) == 2
    assert bind(a, "solo") == ""
    for pod, key in ((b, "B"), (c, "C"), (d, "D")):
        for _ in range(50):
            got, expected = ask_filter(pod), case["expected"]["answers"][key]
            assert got["NodeNames"] == expected["NodeNames"]
            assert sorted(got["FailedNodes"]) == sorted(expected["FailedNodes"])
        if key == "B":
            assert bind(b, "duo") == ""
    assert bind(c, "duo") != "", "an exclusive GPU is not promised twice"


CHECKS: Final[Mapping[str, Callable[[Service, Case], None]]] = {
    "073": check_filter,
    "075": check_missing_fields,
    "077": check_casings,
    "079": check_filter,
    "081": check_clients_that_give_up,
    "083": check_scores,
    "087": check_other_uid,
    "089": check_bound_before,
    "091": check_huge_body,
    "093": check_chosen_victims,
    "095": check_preempt,
    "097": check_two_pods_one_gpu,
}


@pytest.mark.parametrize("number", sorted(CASES))
def test_case(number):
    case = CASES[number]
    with running(case["input"].get("cluster", EMPTY)) as service:
        CHECKS[number](service, case)
        assert not service.logged("Traceback", within=0)
