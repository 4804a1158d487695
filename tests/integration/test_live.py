"""The real `serve --kubeconfig` process against a stand-in API server that fails on demand."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest

from tests.integration.apiserver import ApiServer, eventually
from tests.integration.harness import ROOT, filter_args, node_object, pod_object, started

pytestmark = pytest.mark.integration

QUICK = {
    "GPU_EXTENDER_CLUSTER__BACKOFF_FIRST_SECONDS": "0.05",
    "GPU_EXTENDER_CLUSTER__BACKOFF_MAX_SECONDS": "0.2",
    "GPU_EXTENDER_CLUSTER__PAGE_SIZE": "10",
}


@pytest.fixture
def api():
    with ApiServer() as server:
        yield server


@pytest.fixture
def serve(api, tmp_path):
    """Return a function that starts the service on the stand-in's cluster."""

    def start(*arguments, **env):
        return started("--kubeconfig", str(api.kubeconfig(tmp_path)), *arguments, env=QUICK | env)

    return start


def ready(service):
    return service.get("/readyz").status == 200


def metric(service, name, **labels):
    page = service.get("/metrics").body.decode()
    for line in page.splitlines():
        found = re.fullmatch(rf"gpu_extender_{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
            return float(found[2])
    return 0.0


def free_gpus(service):
    page = service.get("/metrics").body.decode()
    return sum(float(value) for value in re.findall(r'^gpu_extender_gpus\{.*state="free"\} (\S+)', page, re.MULTILINE))


def sees(service, gpus):
    eventually(lambda: free_gpus(service) == gpus)


def test_it_lists_in_pages_and_then_follows(api, serve):
    api.put(*(node_object(f"n{i}") for i in range(25)), *(pod_object(f"p{i}", 2, f"n{i}") for i in range(15)))
    with serve() as service:
        eventually(lambda: ready(service))
        assert free_gpus(service) == 25 * 8 - 15 * 2
        assert len(api.asked("list", "nodes")) == 3
        api.put(node_object("late", 4), pod_object("q", 8, "n20"))
        sees(service, 25 * 8 - 15 * 2 + 4 - 8)
        api.put(pod_object("q", 8, "n20") | {"status": {"phase": "Succeeded"}})
        sees(service, 25 * 8 - 15 * 2 + 4)
        api.delete("nodes", "n0")  # its pod is left behind, and counts nowhere
        sees(service, 24 * 8 - 14 * 2 + 4)
        api.delete("pods", "p0")
        api.put(node_object("n0"))
        sees(service, 25 * 8 - 14 * 2 + 4)
        answer = service.ask("filter", filter_args(pod_object("new", 8), "n0", "n1", "nowhere")).value
        # The scheduler has counted: n1, where two are taken, stays; a node not known yet does not.
        assert (answer["NodeNames"], list(answer["FailedNodes"])) == (["n0", "n1"], ["nowhere"])
        assert service.stop() == 0


def test_until_both_lists_are_in_it_answers_with_errors(api, serve):
    api.put(node_object("a"))
    api.refuse("list", "pods", 500, "etcd is away", times=10**6)
    with serve() as service:
        eventually(lambda: "etcd is away" in service.get("/readyz").body.decode())
        assert service.get("/readyz").status == 503
        answer = service.ask("filter", filter_args(pod_object("p"), "a"))
        assert (answer.status, answer.value["Error"]) == (200, "the cluster's nodes and pods are not known yet")
        assert service.ask("prioritize", filter_args(pod_object("p"), "a")).status == 503
        plain = service.ask("filter", filter_args(pod_object("web", 0), "a", "b"))
        assert plain.value["NodeNames"] == ["a", "b"], "pods without GPUs do not wait for us"
        api.allow()
        eventually(lambda: ready(service))
        assert service.ask("filter", filter_args(pod_object("p"), "a")).value["NodeNames"] == ["a"]


def test_case_099_a_recreated_pod_keeps_its_gpus(api, serve):
    api.put(node_object("h"), pod_object("predictor", 8, "h"))
    with serve(GPU_EXTENDER_VERBS__COUNTS="own") as service:
        eventually(lambda: ready(service))
        assert free_gpus(service) == 0
        api.await_watches()
        api.refuse("watch", "pods", 500, times=3)
        api.drop()
        with api.world.changed:
            api.world.objects["pods"].clear()  # deleted while nobody watches
        api.compact()
        sees(service, 8)
        second = pod_object("predictor", 8)
        second["metadata"]["uid"] = "B"
        api.put(second)
        eventually(lambda: metric(service, "pending_gpus", model="any") == 8)
        question = {"PodName": "predictor", "PodNamespace": "ml", "PodUID": "B", "Node": "h"}
        assert service.ask("bind", question).value == {"Error": ""}
        assert free_gpus(service) == 0, "known at once, not when the watch tells"
        late = b'{"type":"DELETED","object":{"metadata":{"name":"predictor","namespace":"ml","uid":"uid-predictor"}}}'
        api.inject("pods", late)
        api.put(node_object("more", 1))
        sees(service, 1)
        api.compact()
        api.drop()
        eventually(lambda: metric(service, "relists_total", kind="pods") >= 3)
        assert free_gpus(service) == 1
        assert service.ask("filter", filter_args(pod_object("c", 1), "h")).value["NodeNames"] == []


@pytest.mark.parametrize("as_event", [False, True])
def test_changes_while_the_watch_is_down_are_found_by_a_list(api, serve, as_event):
    api.put(node_object("a"), node_object("b"), pod_object("p", 3, "a"))
    with serve() as service:
        eventually(lambda: ready(service))
        api.await_watches()
        api.world.expired_as_event = as_event
        api.refuse("watch", "pods", 500, times=2)
        api.refuse("watch", "nodes", 500, times=2)
        api.drop()
        api.delete("pods", "p")
        api.delete("nodes", "b")
        api.compact()
        sees(service, 8)
        assert metric(service, "drifted_objects_total", kind="pods") == 1
        assert metric(service, "drifted_objects_total", kind="nodes") == 1
        assert metric(service, "watch_restarts_total", kind="pods", why="expired") == 1
        assert ready(service)


def test_a_dropped_watch_goes_on_where_it_was_without_a_list(api, serve):
    api.put(node_object("a"))
    with serve() as service:
        eventually(lambda: ready(service))
        for number in range(3):
            api.await_watches()
            api.drop()
            api.put(pod_object(f"p{number}", 1, "a"))
            sees(service, 7 - number)
        assert len(api.asked("list", "pods")) == 1


def test_a_half_open_watch_is_given_up(api, serve):
    api.put(node_object("a"))
    with serve(GPU_EXTENDER_CLUSTER__SILENCE_SECONDS="1.0") as service:
        eventually(lambda: ready(service))
        api.await_watches()
        api.go_deaf()
        api.put(pod_object("p", 2, "a"))
        eventually(lambda: metric(service, "watch_restarts_total", kind="pods", why="lost") >= 1)
        api.go_deaf(deaf=False)
        sees(service, 6)


def test_events_in_pieces_bookmarks_errors_and_rubbish(api, serve):
    api.put(node_object("a"))
    api.world.in_pieces = True
    with serve() as service:
        eventually(lambda: ready(service))
        api.put(pod_object("p", 2, "a"))
        sees(service, 6)
        api.bookmark("pods")
        eventually(lambda: metric(service, "watch_events_total", kind="pods", type="BOOKMARK") == 1)
        bad = b'{"type":"MODIFIED","object":{"metadata":{"name":"odd","namespace":"ml"},"spec":{"nodeName":7}}}'
        api.inject("pods", bad)
        eventually(lambda: metric(service, "unreadable_objects_total", kind="pods") == 1)
        assert service.logged("pod ml/odd: ")
        api.error_event("pods")
        eventually(lambda: metric(service, "relists_total", kind="pods") == 2)
        api.inject("nodes", b"this is no JSON")
        eventually(lambda: metric(service, "relists_total", kind="nodes") == 2)
        api.put(pod_object("q", 1, "a"))
        sees(service, 5)


def test_a_list_that_expires_half_way_is_begun_anew(api, serve):
    api.put(*(node_object(f"n{i}") for i in range(15)))
    api.world.expire_second_page = 2
    with serve() as service:
        eventually(lambda: ready(service))
        assert free_gpus(service) == 15 * 8


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (403, 'nodes is forbidden: User "x" cannot list resource "nodes"', "cannot list nodes: forbidden"),
        (429, "too many requests", "cannot list nodes: refused (429): too many requests"),
    ],
)
def test_what_the_api_server_refuses_is_said_in_one_line(api, serve, status, message, words):
    api.refuse("list", "nodes", status, message, times=3)
    with serve() as service:
        assert any(words in line and message.split(":")[0] in line for line in service.logged(words))
        eventually(lambda: ready(service))


def test_wrong_credentials_and_nobody_there_are_said_and_survived(api, tmp_path):
    with started("--kubeconfig", str(api.kubeconfig(tmp_path, token="old")), env=QUICK) as service:
        assert service.logged("the credentials are not accepted (401)")
        api.kubeconfig(tmp_path)  # replaced under our feet: read anew
        eventually(lambda: ready(service))
    nobody = api.kubeconfig(tmp_path, server="http://127.0.0.1:1")
    with started("--kubeconfig", str(nobody), env=QUICK) as service:
        assert service.logged("Connection refused")
        assert service.get("/healthz").status == 200
        assert service.stop() == 0


def test_it_ends_soon_though_watches_are_open(api, serve):
    with serve() as service:
        eventually(lambda: ready(service))
        api.await_watches()
        begun = time.monotonic()
        assert service.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kubeconfig", "/nowhere"], "kubeconfig /nowhere"),
        (["--kubeconfig", "{config}", "--context", "third"], "there is no context 'third', only 'good', 'other'"),
        (["--kubeconfig", "{config}", "--demo"], "--kubeconfig and --context are for a live cluster"),
    ],
)
def test_a_way_in_that_cannot_be_used_is_an_error_at_the_start(api, tmp_path, arguments, words):
    config = str(api.kubeconfig(tmp_path))
    command = [sys.executable, "-m", "extender", "serve", *(a.format(config=config) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


# -- bind ----------------------------------------------------------------------------------------------------------


def asked_to_bind(name, node="a", uid=None):
    return {"PodName": name, "PodNamespace": "ml", "PodUID": uid or f"uid-{name}", "Node": node}


@pytest.fixture
def bound(api, serve):
    """Return a service whose cluster has two nodes, and pods in every state."""
    leaving = pod_object("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(node_object("a"), node_object("b"), pod_object("p"), leaving)
    api.put(pod_object("retry", 1, "a"), pod_object("stolen", 1, "b"))
    with serve() as service:
        eventually(lambda: ready(service))
        yield service


def test_a_binding_carries_the_uid_and_is_known_at_once(api, bound):
    assert bound.ask("bind", asked_to_bind("p")).value == {"Error": ""}
    posted = api.asked("bind", "pods")[-1].body
    assert posted["metadata"] == {"name": "p", "namespace": "ml", "uid": "uid-p"}
    assert posted["target"]["name"] == "a"
    assert free_gpus(bound) == 16 - 3


@pytest.mark.parametrize(
    ("name", "uid", "error"),
    [
        ("p", "uid-former", "pod ml/p has UID uid-p, which differs from the UID uid-former to be bound"),
        ("retry", None, ""),
        ("stolen", None, "pod ml/stolen is already assigned to b"),
        ("leaving", None, "pod is being deleted: ml/leaving"),
    ],
)
def test_cases_087_and_089_a_binding_that_cannot_be_made(bound, name, uid, error):
    answer = bound.ask("bind", asked_to_bind(name, uid=uid))
    assert (answer.status, answer.value) == (200, {"Error": error})
    assert free_gpus(bound) == 16 - 2


def test_a_pod_that_is_gone_and_a_right_that_is_missing(api, bound):
    assert "not found" in bound.ask("bind", asked_to_bind("nobody")).value["Error"]
    api.refuse("bind", "pods", 403, 'cannot create resource "pods/binding"')
    assert 'cannot create resource "pods/binding"' in bound.ask("bind", asked_to_bind("p")).value["Error"]


def test_a_binding_without_an_answer_is_looked_up(api, bound):
    api.world.bind_outcome = "lost"
    assert bound.ask("bind", asked_to_bind("p")).value["Error"].startswith("pod ml/p is not bound: ")
    assert free_gpus(bound) == 16 - 2
    api.world.bind_outcome = "done and lost"
    assert bound.ask("bind", asked_to_bind("p")).value == {"Error": ""}
    assert free_gpus(bound) == 16 - 3
