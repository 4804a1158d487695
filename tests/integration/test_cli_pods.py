"""Pods that a question brings to a cluster: given twice, gated, on their way out, with a node already."""

from __future__ import annotations

import json

import pytest

from tests.commandline import run

pytestmark = pytest.mark.integration

GPU = "nvidia.com/gpu"


def a_node(name):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {GPU: "8", "pods": "110"}}}


def a_pod(name, gpus=4, node="", **metadata):
    spec = {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]} | ({"nodeName": node} if node else {})
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ml", **metadata}, "spec": spec}


def gated(info):
    return info | {"spec": info["spec"] | {"schedulingGates": [{"name": "g"}]}}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes objects to a file and returns its path."""

    def write(name, *items):
        path = tmp_path / name
        path.write_text(json.dumps({"kind": "List", "items": items}))
        return path

    return write


def placed(*arguments):
    done = run("simulate", *arguments, "-o", "json")
    report = json.loads(done.out)
    return [(row["pod"], row["node"]) for row in report["placements"]], report["warnings"], done.err


TWICE = "given more than once; the last one counts"


def test_pods_of_the_queue_that_arrive_anew_count_once(written):
    marker = {"scheduling.x-k8s.io/pod-group": "g"}
    named, api = {"name": "g", "namespace": "ml"}, "scheduling.x-k8s.io/v1alpha1"
    group = {"apiVersion": api, "kind": "PodGroup", "metadata": named, "spec": {"minMember": 2}}
    pods = [a_pod(name, labels=marker) for name in ("w0", "w1")]
    cluster = written("cluster.json", a_node("n"), group, *pods, a_pod("own", 1), a_pod("old", 8, "n"))
    arrivals = written("arrivals.json", *pods, a_pod("old", 1))
    rows, warnings, _ = placed("--cluster", cluster, "--arrivals", arrivals, "--queue")
    assert rows == [("ml/own", "n"), ("ml/w0", None), ("ml/w1", None), ("ml/old", "n")]
    assert warnings == [f"pod ml/{name}: {TWICE}" for name in ("w0", "w1", "old")]
    without = written("arrivals.json", *pods)
    small = written("cluster.json", a_node("n"), group, *pods)
    rows, warnings, _ = placed("--cluster", small, "--arrivals", without, "--queue")
    assert rows == [("ml/w0", "n"), ("ml/w1", "n")]
    # Those that wait in the dump take no part without --queue.
    assert placed("--cluster", small, "--arrivals", without)[:2] == (rows, [])


def test_arrivals_behind_gates_and_on_their_way_out_do_not_arrive(written):
    going = a_pod("going", deletionTimestamp="2026-01-01T00:00:00Z")
    here = gated(a_pod("here"))
    cluster = written("cluster.json", a_node("n"), here)
    arrivals = written("arrivals.json", gated(a_pod("gated")), going, a_pod("p"))
    rows, _, notes = placed("--cluster", cluster, "--arrivals", arrivals, "--queue")
    assert rows == [("ml/p", "n")]
    assert notes.splitlines() == [
        "note: 2 pods behind scheduling gates left out",
        "note: 1 pod with a deletionTimestamp left out",
    ]


def test_a_pod_that_does_not_arrive_takes_the_place_of_none(written):
    cluster = written("cluster.json", a_node("n"), a_pod("r", 8, "n"))
    arrivals = written("arrivals.json", gated(a_pod("r", 8)), a_pod("p"))
    rows, warnings, _ = placed("--cluster", cluster, "--arrivals", arrivals)
    assert (rows, warnings) == ([("ml/p", None)], [])


def test_arrivals_that_have_a_node_are_replayed_and_said(written):
    runs = a_pod("r", 4, "elsewhere", deletionTimestamp="2026-01-01T00:00:00Z")
    cluster = written("cluster.json", a_node("n"))
    rows, _, notes = placed("--cluster", cluster, "--arrivals", written("a.json", runs))
    assert rows == [("ml/r", "n")]
    assert notes == "note: pod ml/r is on node elsewhere where it is written; placed as if it had none\n"
    _, _, notes = placed("--cluster", cluster, "--arrivals", written("a.json", runs, a_pod("s", 4, "n"), a_pod("t")))
    assert notes == "note: 2 pods have nodes where they are written; placed as if they had none\n"


def test_fit_answers_about_each_pod_that_is_named_once(written):
    cluster = written("cluster.json", a_node("n"), a_pod("a"), a_pod("b"), a_pod("c"))
    done = run("fit", "--cluster", cluster, "--pod", "c", "--pod", "ml/a", "--pod", "ml/c", "-o", "json")
    assert [row["pod"] for row in json.loads(done.out)["pods"]] == ["ml/c", "ml/a"]
    unknown = run("fit", "--cluster", cluster, "--pod", "a", "--pod", "d")
    assert (unknown.code, len(unknown.errors)) == (2, 1)
    assert "--pod d: there is no such pod" in unknown.errors[0]


def test_a_mistyped_scheduler_is_a_warning(written):
    cluster = written("cluster.json", a_node("n"), a_pod("a"))
    words = "no pod in the input has scheduler defualt-scheduler; did you mean default-scheduler?"
    for command in (["plan"], ["simulate", "--queue"]):
        done = run(*command, "--cluster", cluster, "--scheduler", "defualt-scheduler", "-o", "json")
        assert json.loads(done.out)["warnings"] == [words]


def test_a_flag_may_be_given_again(written):
    assert (
        run("simulate", "--cluster", written("cluster.json", a_node("n"), a_pod("a")), "--queue", "--queue").code == 0
    )


def test_fit_names_no_command_that_would_not_work(written):
    nodes = [a_node("a"), a_node("b"), a_pod("x", 4, "a"), a_pod("y", 4, "b")]
    cluster, waits = written("cluster.json", *nodes), written("pod.json", a_pod("w", 8))
    which = "which to move"
    assert which in run("fit", "--cluster", cluster, "--pod-file", waits).out.decode()
    done = run("fit", "--cluster", cluster, "--pod-file", written("bound.json", a_pod("w", 8, "a")))
    assert done.err == "note: pod ml/w is on node a where it is written; judged as if it had none\n"
    assert "or move some" in done.out.decode()
    assert which not in done.out.decode()
    assert which not in run("fit", "--cluster", "-", "--pod-file", waits, stdin=cluster.read_bytes()).out.decode()
    assert which not in run("fit", "--cluster", cluster, "--pod-file", "-", stdin=waits.read_bytes()).out.decode()
    lost = run("plan", "--cluster", "-", stdin=json.dumps({"kind": "List", "items": [*nodes, a_pod("w", 16)]}).encode())
    assert lost.code == 1
    assert "gpu-extender fit" not in lost.out.decode()
