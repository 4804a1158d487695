"""The real service over real HTTP: routing, limits, bad input, clients that misbehave, start and stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.integration.apiserver import eventually
from tests.integration.harness import (
    JSON,
    Client,
    cluster,
    filter_args,
    node_object,
    pod_object,
    running,
)
from tests.integration.hostile import POST

pytestmark = pytest.mark.integration

ODD = 'odd"né\u2028'
CLUSTER = cluster(
    node_object("a"), node_object("b", 2), node_object(ODD), pod_object("holder", 8, "a"), pod_object("waiting", 2)
)
NAMES = ("a", "b", ODD)
GOOD = filter_args(pod_object("p"), *NAMES)


@pytest.fixture(scope="module")
def service():
    """Serve CLUSTER to all tests of this module; none may change it, kill it or make it log a traceback."""
    with running(CLUSTER) as service:
        workers = service.workers()
        yield service
        assert service.workers() == workers
        assert service.get("/healthz").status == 200
        assert service.logged("Traceback", within=0) == []


@pytest.fixture
def client(service):
    client = service.client()
    yield client
    client.close()


def raw(service, request: bytes, *, close: bool = True) -> bytes:
    """Send bytes, return all that comes back."""
    with service.socket() as connection:
        connection.sendall(request)
        if close:
            connection.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


def test_a_key_that_looks_like_ours_is_a_warning_once(client, service):
    for labels in ({}, {"changed": "since"}):  # another body: the pod is read anew
        odd = pod_object("odd")
        odd["metadata"] |= {"annotations": {"gpu-extender.io/type": "H100"}, "labels": labels}
        assert client.post("filter", filter_args(odd, *NAMES)).status == 200
    (line,) = service.logged("annotation gpu-extender.io/type is ignored")
    assert "warning" in line.lower()


# -- routing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/filter", "/scheduler/filter", "/scheduler//filter", "/v1beta1/scheduler/filter", "//filter", "/x/filter/"],
)
def test_a_verb_is_found_under_any_prefix(client, path):
    answer = client.send("POST", path, json.dumps(GOOD).encode())
    assert (answer.status, answer.value["NodeNames"]) == (200, ["b", ODD])
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_verbs_are_posted(client, verb, method):
    answer = client.send(method, f"/scheduler/{verb}")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    if method != "HEAD":
        assert answer.value == {"Error": f"/{verb} is asked with POST, not {method}"}


@pytest.mark.parametrize("path", ["/nothing", "/scheduler/no-such-verb", "/filter/x", "/scheduler/Filter"])
def test_other_paths_are_not_found(client, path):
    assert client.send("POST", path, b"{}").status == 404


def test_endpoints_for_people_and_probes(client):
    assert client.get("/healthz").body == b"ok\n"
    assert client.get("/readyz").body == b"ok\n"
    assert b"POST <prefix>/filter" in client.get("/").body
    metrics = client.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain")
    assert b"gpu_extender_synced 1.0" in metrics.body
    wrong = client.send("POST", "/metrics", b"")
    assert (wrong.status, wrong.body) == (405, b"405 /metrics is asked with GET, not POST\n")


# -- bad input -----------------------------------------------------------------------------------------------------

POD = pod_object("p")
BAD_BODIES = [
    ("filter", b""),
    ("filter", b"{"),
    ("filter", b"\xff\xfe"),
    ("filter", b"[1, 2]"),
    ("filter", b'"text"'),
    ("filter", {"Pod": 7, "NodeNames": ["a"]}),
    ("filter", {"Pod": POD, "NodeNames": 7}),
    ("filter", {"Pod": POD, "NodeNames": [7]}),
    ("filter", {"Pod": POD, "NodeNames": {"a": 1}}),
    ("filter", {"Pod": POD, "Nodes": 7}),
    ("filter", {"Pod": POD, "Nodes": {"items": [7]}}),
    ("filter", {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": 7}}]}}),
    ("filter", {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "new"}, "spec": {"taints": 7}}]}}),
    ("filter", {"Pod": {"metadata": {"labels": ["x"]}}, "NodeNames": ["a"]}),
    ("filter", {"Pod": {"spec": {"containers": {"a": 1}}}, "NodeNames": ["a"]}),
    ("filter", {"Pod": {"spec": {"priority": "high"}}, "NodeNames": ["a"]}),
    ("prioritize", b""),
    ("prioritize", b"null"),
    ("prioritize", {"Pod": None, "NodeNames": ["a"]}),
    ("prioritize", {"Pod": POD}),
    ("prioritize", {"Pod": POD, "NodeNames": [None]}),
    ("preempt", b"\x00"),
    ("preempt", {"NodeNameToMetaVictims": {}}),
    ("preempt", {"Pod": POD, "NodeNameToMetaVictims": [1]}),
    ("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": {"UID": "x"}}}}),
    ("preempt", {"Pod": POD, "NodeNameToVictims": {"a": {"Pods": [{"metadata": {"uid": 7}}]}}}),
    ("bind", b"{}]"),
    ("bind", {"PodName": 7, "PodNamespace": "ml", "PodUID": "u", "Node": "a"}),
    ("bind", {"PodName": ["p"], "PodNamespace": "ml", "PodUID": "u", "Node": "a"}),
]


@pytest.mark.parametrize(("verb", "value"), BAD_BODIES)
def test_a_body_that_cannot_be_read_is_refused_in_one_line_and_the_connection_lives(client, verb, value):
    answer = client.post(verb, value)
    assert answer.status == 400
    assert list(answer.value) == ["Error"]
    assert answer.value["Error"]
    assert "\n" not in answer.value["Error"]
    assert client.post("filter", GOOD).status == 200


@pytest.mark.parametrize(
    ("verb", "value"),
    [
        ("filter", {}),
        ("filter", {"Pod": POD}),
        ("bind", {}),
        ("bind", {"PodName": "p", "PodNamespace": "ml", "Node": "a"}),
    ],
)
def test_what_is_missing_is_said_where_kube_scheduler_shows_it(client, verb, value):
    answer = client.post(verb, value)
    assert (answer.status, bool(answer.value["Error"])) == (200, True)


def test_absurd_quantities_count_as_nothing_and_huge_ones_fit_nowhere(client):
    for amount, kept in (("lots", list(NAMES)), ("-1", list(NAMES)), ("1e30", []), ("9" * 300, [])):
        pod = pod_object("p")
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": amount}}
        assert client.post("filter", filter_args(pod, *NAMES)).value["NodeNames"] == kept


def test_names_survive_quotes_other_scripts_and_lone_surrogates(client):
    names = [ODD, "new-\ud800", "日本", 'q"', "b"]
    answer = client.post("filter", filter_args(POD, *names)).value
    assert answer["NodeNames"] == [ODD, "b"]
    assert sorted(answer["FailedNodes"]) == sorted(names[1:4])
    hosts = [entry["Host"] for entry in client.post("prioritize", filter_args(POD, *names)).value]
    assert hosts == names


def test_when_only_unknown_nodes_are_left_the_scheduler_is_told_to_try_again(client):
    answer = client.post("filter", filter_args(POD, "new-1", "new-2")).value
    assert answer["Error"]
    assert answer["NodeNames"] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": "Application/JSON"}, 200),
        ({}, 200),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 200),
        ({"Content-Type": "text/html"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({**JSON, "Content-Encoding": "gzip"}, 415),
        ({**JSON, "Origin": "https://example.com"}, 403),
        ({**JSON, "Accept-Encoding": "gzip", "User-Agent": "Go-http-client/1.1"}, 200),
    ],
)
def test_headers(client, headers, status):
    answer = client.send("POST", "/scheduler/filter", json.dumps(GOOD).encode(), headers)
    assert answer.status == status
    assert bool(answer.value["Error"]) == (status != 200)


# -- bodies of unusual size and form -------------------------------------------------------------------------------


def test_a_chunked_body(client):
    text = json.dumps(GOOD).encode()
    pieces = [text[:10], text[10:11], text[11:]]
    answer = client.send("POST", "/scheduler/filter", iter(pieces), encode_chunked=True)
    assert (answer.status, answer.value["NodeNames"]) == (200, ["b", ODD])


def test_http_1_0(service):
    text = json.dumps(GOOD).encode()
    answer = raw(
        service,
        b"POST /scheduler/filter HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(text), text),
    )
    assert answer.startswith(b"HTTP/1.0 200 OK")
    assert b'"NodeNames":["b"' in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"POST /scheduler/filter HTTP/1.1\r\n",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_clients_that_end_early_or_talk_nonsense_harm_nobody(service, request_bytes):
    answer = raw(service, request_bytes)
    assert not answer.startswith(b"HTTP/1.1 200")
    assert not answer.startswith(b"HTTP/1.1 5")


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        (b"zz\r\nhello\r\n0\r\n\r\n", "'zz\\r\\n' is not the size of a chunk"),
        (b"\r\n", "is not the size of a chunk"),
        (b"-5\r\nhello", "is not the size of a chunk"),
        (b"5\r\nhelloworld\r\n0\r\n\r\n", "is not the line end behind a chunk"),
        (b"5\nhello", "'5\\n' is not the size of a chunk"),
        (b"5\r\nhel", "the body ended after 3 bytes, and not the last chunk"),
        (b"5\r\nhello\r\n", "the body ended after 5 bytes, and not the last chunk"),
        (b"5\r\nhello\r\n0\r\n", "the body ended after 5 bytes, and not the last chunk"),
        (b"", "the body ended after 0 bytes, and not the last chunk"),
    ],
)
def test_malformed_chunks_are_refused_and_counted(service, chunks, said, content_type):
    before = metric(service, 'gpu_extender_requests_total{code="400",verb="filter"}')
    head, _, text = received_after(service, CHUNKED.replace(b"application/json", content_type.encode()) + chunks)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in head
    assert said in json.loads(text)["Error"]
    assert metric(service, 'gpu_extender_requests_total{code="400",verb="filter"}') == before + 1


def received_after(service, sent):
    return raw(service, sent).partition(b"\r\n\r\n")


def metric(service, name):
    lines = service.get("/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("request_bytes", "status", "said"),
    [
        (b"nonsense\r\n\r\n", 400, b"Invalid HTTP request line"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, b"no HTTP request"),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400, b"bare LF"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, b"Invalid HTTP Version"),
        (b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 9000), 414, b"Request Line is too large"),
        (b"GET / HTTP/1.1\r\nA: %b\r\n\r\n" % (b"x" * 9000), 431, b"limit request headers fields size"),
        (b"GET / HTTP/1.1\r\n%b\r\n" % (b"A: b\r\n" * 20_000), 431, b"the head is over 65536 bytes"),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400, b"Invalid HTTP Header"),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, b"CONTENT-LENGTH"),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, b"CONTENT-LENGTH"),
        (POST + b"Expect: wonders\r\nContent-Length: 5\r\n\r\nhello", 417, b"wonders"),
        (POST + b"Transfer-Encoding: odd\r\n\r\n", 501, b"odd"),
    ],
)
def test_what_is_no_request_gets_one_line(service, request_bytes, status, said):
    before = metric(service, 'gpu_extender_connections_cut_total{why="head"}')
    answer = raw(service, request_bytes, close=False)
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Type: text/plain" in head
    assert text.startswith(b"%d " % status)
    assert said in text
    assert text.count(b"\n") == 1
    assert metric(service, 'gpu_extender_connections_cut_total{why="head"}') == before + 1


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "Script-Name", "PATH_INFO", "X-Forwarded-Proto", "Proxy", "Host"])
def test_headers_for_proxies_mean_nothing(client, name):
    answer = client.send("POST", "/scheduler/filter", json.dumps(GOOD).encode(), {**JSON, name: "https"})
    assert (answer.status, answer.value["NodeNames"]) == (200, ["b", ODD])


def test_a_client_may_wait_for_a_word_to_go_on(service):
    text = json.dumps(GOOD).encode()
    with service.socket() as connection:
        connection.sendall(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(text))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(text)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_vanishes_before_the_answer(service):
    text = json.dumps(GOOD).encode()
    for _ in range(20):
        connection = service.socket()
        connection.sendall(
            b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
        )
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.close()
    assert service.ask("filter", GOOD).status == 200


def test_an_idle_connection_does_not_hold_up_others(service):
    with service.socket() as idle, service.socket() as half:
        half.sendall(b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        assert service.ask("filter", GOOD).status == 200
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_body_of_a_hundred_megabytes(service):
    filler = b'"%b"' % (b"x" * 1_000_000)
    padding = b'"Unknown":[%b]' % b",".join([filler] * 100)
    body = b'{%b,"Pod":%b,"NodeNames":["a","b"]}' % (padding, json.dumps(POD).encode())
    assert len(body) > 100_000_000
    answer = service.ask("filter", body)
    assert (answer.status, answer.value["NodeNames"]) == (200, ["b"])
    cut = service.ask("filter", body[:-10])
    assert cut.status == 400


def resident_mb(service) -> float:
    (worker,) = service.workers()
    status = Path(f"/proc/{worker}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_memory_of_a_big_body_is_given_back(whole):
    with running(CLUSTER) as service:
        service.ask("filter", GOOD)
        before = resident_mb(service)
        body = b'{"Unknown":["%b"],"Pod":%b,"NodeNames":["a","b"]}' % (b"x" * 100_000_000, json.dumps(POD).encode())
        if whole:
            assert service.ask("filter", body).status == 200
        else:
            with service.socket() as connection:
                connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
                eventually(lambda: resident_mb(service) > before + 80)
        deadline = time.monotonic() + 20
        while resident_mb(service) > before + 30 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert resident_mb(service) <= before + 30


@pytest.mark.slow
def test_memory_of_a_big_answer_is_given_back():
    with running(CLUSTER) as service:
        service.ask("filter", GOOD)
        before = resident_mb(service)
        names = [f"{number:0200}" for number in range(100_000)]
        assert len(service.ask("filter", filter_args(POD, "b", *names)).body) > 20_000_000
        eventually(lambda: resident_mb(service) <= before + 60, within=20)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused(chunked):
    with running(CLUSTER, env={"GPU_EXTENDER_SERVER__MAX_BODY_BYTES": str(2**20)}) as service:
        body = b" " * (2**20 + 1)
        client = service.client()
        if chunked:
            answer = client.send("POST", "/filter", iter([body]), encode_chunked=True)
        else:
            answer = client.post("filter", body)
        client.close()
        assert answer.status == 413
        assert answer.value == {"Error": "the body is over 1048576 bytes (server.max_body_bytes)"}
        assert service.ask("filter", GOOD).status == 200


# -- keep-alive, start and stop ------------------------------------------------------------------------------------


def test_a_connection_serves_many_requests(client):
    assert client.post("filter", GOOD).headers["Connection"] == "keep-alive"
    port = client.connection.sock.getsockname()
    for _ in range(50):
        assert client.post("prioritize", GOOD).status == 200
    assert client.connection.sock.getsockname() == port


def test_sigterm_lets_what_runs_end_and_exits_clean():
    with running(CLUSTER) as service:
        kept = service.client()
        assert kept.post("filter", GOOD).status == 200
        half = service.socket()
        text = json.dumps(GOOD).encode()
        half.sendall(
            b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(text), text[:20])
        )
        time.sleep(0.3)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        # A kept-alive connection is told to go; readiness is off; what was begun is answered.
        answer = kept.get("/readyz")
        assert (answer.status, answer.body, answer.headers["Connection"]) == (503, b"stopping\n", "close")
        half.sendall(text[20:])
        assert half.recv(65536).startswith(b"HTTP/1.1 200 OK")
        half.close()
        kept.close()
        assert service.process.wait(15) == 0


def test_a_worker_that_dies_is_replaced_and_knows_the_file():
    with running(CLUSTER) as service:
        (worker,) = service.workers()
        os.kill(int(worker), signal.SIGKILL)
        deadline = time.monotonic() + 10
        while service.workers() == {worker} and time.monotonic() < deadline:
            time.sleep(0.05)
        assert service.ask("filter", GOOD).value["NodeNames"] == ["b", ODD]


def test_it_says_what_it_serves_and_where():
    with running(CLUSTER, env={"GPU_EXTENDER_SERVER__OPERATORS_LISTEN": "127.0.0.1:0"}) as service:
        url, operators = ("http://{1}:{2}".format(*service.addresses[name]) for name in ("listening", "operators"))
        assert service.process.stdout is not None
        assert [service.process.stdout.readline() for _ in range(3)] == [
            "serving an embedded cluster: 3 nodes, 2 pods, 18 GPUs\n",
            f"verbs: POST {url}/<any prefix>/{{filter,prioritize,preempt,bind}}\n",
            f"metrics: {operators}/metrics\n",
        ]


def test_bind_is_not_there_unless_configured():
    with running(CLUSTER, env={"GPU_EXTENDER_VERBS__BIND": "false"}) as service:
        answer = service.ask("bind", {"PodName": "p"})
        assert answer.status == 404
        assert "verbs.bind" in answer.value["Error"]


def test_operators_can_have_a_listener_of_their_own():
    with running(CLUSTER, env={"GPU_EXTENDER_SERVER__OPERATORS_LISTEN": "127.0.0.1:0"}) as service:
        assert service.get("/metrics", listener="operators").status == 200
        assert service.get("/metrics").status == 404
        for listener in ("listening", "operators"):
            assert service.get("/readyz", listener=listener).status == 200
        assert service.ask("filter", GOOD).status == 200
        assert b"gpu_extender_node_gpus{" in service.get("/metrics/nodes", listener="operators").body
        operators: Client = service.client(listener="operators")
        assert operators.post("filter", GOOD).status == 404
        operators.close()


def test_metrics_add_up():
    with running(CLUSTER) as service:
        service.ask("filter", GOOD)
        service.ask("filter", b"no")
        service.ask("prioritize", filter_args(POD, "b", ODD))
        service.ask("prioritize", filter_args(POD, ODD, "b"))
        text = service.get("/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    model = 'model="NVIDIA-H100-80GB-HBM3",resource="nvidia.com/gpu"'
    states = {state: float(values[f'gpu_extender_gpus{{{model},state="{state}"}}']) for state in ("allocated", "free")}
    assert states == {"allocated": 8, "free": 10}
    assert values['gpu_extender_requests_total{code="200",verb="filter"}'] == "1.0"
    assert values['gpu_extender_requests_total{code="400",verb="filter"}'] == "1.0"
    assert values['gpu_extender_rejections_total{reason="resources"}'] == "1.0"
    # JSON of this client has a blank after the comma where Go has none, so neither list is the one foreseen.
    assert values['gpu_extender_handoffs_total{result="miss"}'] == "2.0"
    assert values["gpu_extender_tentative_pods"] == "1.0"
    assert values['gpu_extender_pending_pods{model="any",resource="nvidia.com/gpu",size="2"}'] == "1.0"
    assert "process_resident_memory_bytes" in values
    assert not any("waiting" in name for name in values)
