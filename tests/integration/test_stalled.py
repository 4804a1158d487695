"""Clients that stall hold up nobody, and not for ever; those that are slow, or idle, are served."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from contextlib import closing, contextmanager
from functools import partial

import pytest

from tests.integration.apiserver import eventually
from tests.integration.harness import cluster, filter_args, node_object, pod_object, running
from tests.integration.hostile import BEGUN, POST, connected, received, stalled
from tests.integration.test_tls import MUTUAL, context

pytestmark = pytest.mark.integration

CLUSTER = cluster(node_object("a"), node_object("b", 2))
GOOD = filter_args(pod_object("p"), "a", "b")
# A scheduler as we configure it gives up after 2 s; an answer takes milliseconds, on a busy machine more.
SECONDS = 2.0


@pytest.fixture(scope="module")
def plain():
    with running(CLUSTER) as service:
        yield service
        assert service.logged("Traceback", within=0) == []


@pytest.fixture(scope="module")
def mutual():
    with running(CLUSTER, env=MUTUAL) as service:
        yield service
        assert service.logged("Traceback", within=0) == []


@pytest.fixture(scope="module")
def hasty():
    """Serve with a patience of a second."""
    with running(CLUSTER, env={"GPU_EXTENDER_SERVER__REQUEST_TIMEOUT_SECONDS": "1"}) as service:
        yield service
        assert service.logged("Traceback", within=0) == []


@contextmanager
def quick(client):
    """Give a client that does not wait for long, and close it."""
    with closing(client):
        client.connection.timeout = SECONDS
        yield client


def metric(service, name, listener="listening"):
    found = re.search(
        rf"^{re.escape(name)} (\S+)$", service.get("/metrics", listener=listener).body.decode(), re.MULTILINE
    )
    return float(found[1]) if found else 0.0


# -- nobody is held up ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 50, 500])
@pytest.mark.parametrize("kind", BEGUN)
def test_verbs_and_probes_are_answered_beside_stalled_clients(plain, kind, count):
    with quick(plain.client()) as kept:
        kept.get("/healthz")
        with stalled(count, plain.socket, BEGUN[kind]), quick(plain.client()) as new:
            for client in (kept, new):
                assert client.post("filter", GOOD).value["NodeNames"] == ["a", "b"]
                assert client.post("prioritize", GOOD).status == 200
                assert client.get("/healthz").status == 200
                assert client.get("/metrics").status == 200


HELLO = b"\x16\x03\x01\x02\x00\x01"


@pytest.mark.parametrize(
    ("sent", "secured", "count"),
    [(b"", False, 500), (HELLO, False, 500), (BEGUN["half a head"], True, 50), (BEGUN["no body"], True, 50)],
)
def test_over_tls_too_and_on_both_listeners(mutual, sent, secured, count):
    certified = context("client.pem")
    with quick(mutual.client(certified)) as kept:
        kept.get("/healthz")
        connect = partial(connected, mutual, certified if secured else None)
        with stalled(count, connect, sent), quick(mutual.client(certified)) as new:
            for client in (kept, new):
                assert client.post("filter", GOOD).value["NodeNames"] == ["a", "b"]
            with quick(mutual.client(listener="operators")) as probe:
                assert probe.get("/healthz").status == 200


def big_question(nodes=2000):
    """Return a question of 20 MB that is answered by as much."""
    items = [node_object(f"n{number}") for number in range(nodes)]
    for item in items:
        item["metadata"]["annotations"] = {"padding": "x" * 10_000}
    return json.dumps({"Pod": pod_object("p"), "Nodes": {"items": items}}).encode()


def test_clients_that_do_not_take_their_answers_hold_up_nobody(hasty):
    body = big_question()
    sent = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with stalled(10, hasty.socket, sent) as connections:
        with quick(hasty.client()) as client:
            assert client.post("filter", GOOD).status == 200
        eventually(lambda: metric(hasty, 'gpu_extender_connections_cut_total{why="answer"}') >= 10)
        assert len(received(connections[0])) < len(body)


# -- not for ever --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("half a head", b"408 the head did not come in time"),
        ("no body", b"the body did not come in time, only 0 of 100 bytes"),
        ("half a body", b"the body did not come in time, only 7 of 100 bytes"),
        ("half a chunk", b"the body did not come in time, only 1 bytes, and not the last chunk"),
    ],
)
def test_a_request_that_does_not_go_on_is_told_so(hasty, kind, said):
    before = metric(hasty, 'gpu_extender_requests_total{code="408",verb="filter"}')
    with stalled(1, hasty.socket, BEGUN[kind]) as (connection,):
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"Connection: close" in answer
    assert said in answer
    after = metric(hasty, 'gpu_extender_requests_total{code="408",verb="filter"}')
    assert after - before == ("body" in kind or "chunk" in kind)


@pytest.mark.parametrize("kind", ["half a head", "half a body"])
def test_a_byte_now_and_then_does_not_help(hasty, kind):
    with stalled(1, hasty.socket, BEGUN[kind]) as (connection,):
        began = time.monotonic()
        connection.settimeout(0.2)
        answer = b""
        while not answer and time.monotonic() < began + 10:
            connection.sendall(b"a")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_handshake_that_does_not_go_on_is_ended():
    with running(CLUSTER, env=MUTUAL | {"GPU_EXTENDER_SERVER__REQUEST_TIMEOUT_SECONDS": "1"}) as service:
        with stalled(3, service.socket, b"\x16\x03\x01") as connections:
            assert [received(connection) for connection in connections] == [b"", b"", b""]
        assert metric(service, 'gpu_extender_connections_cut_total{why="handshake"}', "operators") == 3


# -- slow and idle ones are served ---------------------------------------------------------------------------------


def test_a_large_body_may_take_longer_as_long_as_it_goes_on(hasty):
    padding = b'"Unknown":"%b",' % (b"x" * 4_000_000)
    body = b"{" + padding + json.dumps(GOOD).encode()[1:]
    with hasty.socket() as connection:
        connection.sendall(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        began = time.monotonic()
        for at in range(0, len(body), 300_000):
            connection.sendall(body[at : at + 300_000])
            time.sleep(0.2)
        assert time.monotonic() - began > 2
        assert received(connection).startswith(b"HTTP/1.1 200 OK")


def test_an_answer_may_be_taken_slowly(hasty):
    body = big_question(1000)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.settimeout(20)
        connection.connect((hasty.host, hasty.port))
        connection.sendall(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = bytearray()
        while piece := connection.recv(2**16, socket.MSG_WAITALL):
            answer += piece
            time.sleep(0.015)
    head, _, text = bytes(answer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert len(json.loads(text)["Nodes"]["items"]) == 1000


def test_an_idle_connection_lives_on_asked_or_not(hasty):
    used, fresh = hasty.client(), hasty.client()
    assert used.post("filter", GOOD).status == 200
    fresh.connection.connect()
    ports = [client.connection.sock.getsockname() for client in (used, fresh)]
    time.sleep(2.5)
    for client, port in zip((used, fresh), ports, strict=True):
        assert client.post("filter", GOOD).status == 200
        assert client.connection.sock.getsockname() == port
        client.close()


def test_requests_may_come_all_at_once(hasty):
    text = json.dumps(GOOD).encode()
    one = POST + b"Content-Length: %d\r\n\r\n" % len(text) + text
    last = one.replace(b"Host: x", b"Host: x\r\nConnection: close")
    with hasty.socket() as connection:
        connection.sendall(one * 99 + last)
        answers = received(connection)
    assert answers.count(b"HTTP/1.1 200 OK") == 100
    assert answers.count(b'"NodeNames":["a", "b"]') == 100


def test_a_client_that_ends_its_side_gets_its_answer(hasty):
    with hasty.socket() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).endswith(b"ok\n")


def test_more_connections_than_there_may_be(plain):
    with quick(plain.client()) as kept:
        assert kept.post("filter", GOOD).status == 200
        with stalled(2500, plain.socket, b""), quick(plain.client()) as new:
            assert new.post("filter", GOOD).status == 200
            assert kept.post("filter", GOOD).status == 200, "those that have asked nothing go first"
    assert metric(plain, 'gpu_extender_connections_cut_total{why="crowd"}') >= 400


def test_more_large_bodies_than_there_is_memory_for():
    with running(CLUSTER, env={"GPU_EXTENDER_SERVER__MAX_BODY_BYTES": str(2**20)}) as service:
        large = POST + b"Content-Length: %d\r\n\r\n" % 2**20 + b" " * (2**20 - 1)
        with stalled(6, service.socket, large) as connections:
            (refused,), _, _ = select.select(connections, [], [], 20)
            answer = received(refused)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"too many large bodies are on their way" in answer
            assert service.ask("filter", GOOD).status == 200
        assert metric(service, 'gpu_extender_requests_total{code="503",verb="filter"}') == 1
        assert service.ask("filter", json.dumps(GOOD).encode() + b" " * 900_000).status == 200
