"""The command line as people type it: exit codes, one clear line for bad input, the keys of the contract."""

import json
import os
import shlex
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


def run(*arguments, stdin=b"", **env):
    command = [sys.executable, "-m", "extender", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, check=False, timeout=120, env={**os.environ, **env}
    )


A_JOB = b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"ml"}}'
POD_BIG = b'{"kind":"Pod","metadata":{"name":"big","namespace":"ml"},"spec":{"containers":[]}}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "cluster.json"
    path.write_bytes(run("synthetic", "--pods", 0).stdout)
    return path


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "arrivals.json"
    path.write_bytes(run("synthetic", "--pods", 30).stdout)
    return path


def test_gpus_has_the_keys_of_the_contract(cluster):
    done = run("gpus", "--cluster", cluster, "-o", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(report) == {"nodes", "summary", "warnings"}
    assert set(report["nodes"][0]) == {
        "node", "resource", "model", "exclusive", "schedulable", "closed", "capacity", "allocatable", "used", "free",
        "withdrawn", "overcommitted", "releasing", "pods",
    }  # fmt: skip


def test_fit_says_no_with_one_and_names_the_nodes(cluster, arrivals, tmp_path):
    pod = json.loads(arrivals.read_bytes())["items"][0]
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "64"}}
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    done = run("fit", "--cluster", cluster, "--pod-file", path, "-o", "json")
    row = json.loads(done.stdout)["pods"][0]
    assert done.returncode == 1
    assert set(row) == {"pod", "requests", "gated", "fits", "busy", "never", "verdict", "remedy", "group"}
    assert row["fits"] == []
    assert len(row["never"]) == 240


def test_fit_names_the_command_that_finds_moves(tmp_path):
    """The command is the one to type: it is run here."""
    amounts = {"nvidia.com/gpu": "2", "pods": "110"}
    nodes = [{"kind": "Node", "metadata": {"name": n}, "status": {"allocatable": amounts}} for n in ("a", "b")]
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pods = [
        {"kind": "Pod", "metadata": {"name": f"on-{n}"}, "spec": {"nodeName": n, "containers": [container]}}
        for n in ("a", "b")
    ]
    cluster, waiting = tmp_path / "it's a dump.json", tmp_path / "pod.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    asked = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    waiting.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "w", "namespace": "ml"}, "spec": asked}))
    done = run("fit", "--cluster", cluster, "--pod-file", waiting, "-o", "json")
    command = json.loads(done.stdout)["pods"][0]["remedy"].partition("which to move: ")[2]
    narrow = run("fit", "--cluster", cluster, "--pod-file", waiting, COLUMNS="40").stdout.decode()
    assert f"    {command}\n" in narrow
    program, *arguments = shlex.split(command)
    assert (program, arguments[0]) == ("gpu-extender", "defrag")
    done = run(*arguments)
    assert done.returncode == 0, done.stdout
    assert b"after 1 move" in done.stdout


def test_fit_says_no_to_pods_that_fit_alone_but_not_with_their_group(tmp_path):
    """The exit code is that of the group; PodGroups of the cluster count for pods of a file, too."""
    amounts = {"nvidia.com/gpu": "8", "pods": "110"}
    nodes = [{"kind": "Node", "metadata": {"name": n}, "status": {"allocatable": amounts}} for n in ("a", "b")]
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    pods = [{"kind": "Pod", "metadata": {"name": f"p{i}", "labels": labels}, "spec": spec} for i in range(3)]
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    cluster, waiting = tmp_path / "cluster.json", tmp_path / "pods.json"
    waiting.write_text(json.dumps({"kind": "List", "items": pods}))
    for members, code in ((4, 1), (3, 1), (2, 0)):
        cluster.write_text(json.dumps({"kind": "List", "items": [*nodes, group | {"spec": {"minMember": members}}]}))
        done = run("fit", "--cluster", cluster, "--pod-file", waiting, "-o", "json")
        rows = json.loads(done.stdout)["pods"]
        assert [sorted(row["fits"]) for row in rows] == [["a", "b"]] * 3
        assert {(row["group"]["needed"], row["group"]["starts"]) for row in rows} == {(members, not code)}
        assert done.returncode == code, done.stderr
        assert run("simulate", "--cluster", cluster, "--arrivals", waiting, "-o", "json").stdout.count(
            b'"node": "'
        ) == (0 if code else 2)


def test_simulate_places_arrivals_and_reads_standard_input(cluster, arrivals):
    done = run("simulate", "--cluster", "-", "--arrivals", arrivals, "-o", "json", stdin=cluster.read_bytes())
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(report) == {"placements", "summary", "warnings"}
    assert all(set(row) == {"pod", "node", "reason"} for row in report["placements"])
    assert report["summary"]["placed"] == 30


def test_plan_has_the_keys_of_the_contract_and_ends_with_one_while_a_pod_has_no_place(cluster, arrivals, tmp_path):
    done = run("plan", "--cluster", cluster, "--cluster", arrivals, "-o", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(report) == {"placements", "placed", "placed_gpus", "status", "bound", "unplaced", "warnings"}
    assert (report["placed"], report["status"], report["unplaced"]) == (30, "OPTIMAL", [])
    pod = json.loads(arrivals.read_bytes())["items"][0]
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "64"}}
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    done = run("plan", "--cluster", cluster, "--cluster", path)
    assert done.returncode == 1
    assert b"0 of 1 pods placed" in done.stdout
    command = done.stdout.decode().partition("what would help:\n")[2].splitlines()[0]
    assert run(*shlex.split(command)[1:]).stdout.startswith(f"ml/{pod['metadata']['name']} ".encode())


def test_plan_tells_who_would_rather_be_elsewhere(tmp_path):
    amounts = {"nvidia.com/gpu": "8", "pods": "110"}
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": model}},
            "status": {"allocatable": amounts},
        }
        for name, model in (("a", "NVIDIA-A100-SXM4-80GB"), ("h", "NVIDIA-H100-80GB-HBM3"))
    ]
    limits = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    ladders = {"one": "H100, A100=5", "two": "H100, A100=5", "three": "A100, H100=5"}
    pods = [
        {"kind": "Pod", "metadata": {"name": name, "annotations": {"gpu-extender.io/types": types}}, "spec": limits}
        for name, types in ladders.items()
    ]
    dump = json.dumps({"kind": "List", "items": [*nodes, *pods]}).encode()
    done = run("plan", "--cluster", "-", "-o", "json", stdin=dump)
    assert {row["node"] for row in json.loads(done.stdout)["placements"]} == {"h"}
    assert done.stderr.startswith(b"note: default/three prefers another node than the plan gives")


@pytest.mark.parametrize("command", [["fit"], ["gpus"], ["buy"], ["plan"], ["defrag", "--hole", "8"]])
def test_what_an_incomplete_dump_lacks_is_said_with_what_prints_it(command):
    a_node = b'{"kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"nvidia.com/gpu":"8","pods":"9"}}}'
    both = b"`kubectl get nodes,pods -A -o json` prints both\n"
    assert run(*command, "--cluster", "-", stdin=a_node).stderr == (
        b"note: the dump has no pods, so every GPU counts as free; " + both
    )
    assert run(*command, "--cluster", "-", stdin=POD_BIG).stderr == b"note: the dump has no nodes; " + both


def test_the_warnings_of_a_plan_are_in_the_report_and_below_the_table(cluster):
    meta = {"name": "p", "annotations": {"gpu-extender.io/type": "H100"}}
    pod = {"kind": "Pod", "metadata": meta, "spec": {"containers": [], "volumes": [{"ephemeral": {}}]}}
    arguments = ("plan", "--cluster", cluster, "--cluster", "-")
    report = json.loads(run(*arguments, "-o", "json", stdin=json.dumps(pod).encode()).stdout)
    assert [line.partition(": ")[0] for line in report["warnings"]] == ["pod default/p"] * 2
    assert "gpu-extender.io/type is ignored" in report["warnings"][0]
    assert "volumes" in report["warnings"][1]
    done = run(*arguments, stdin=json.dumps(pod).encode())
    assert done.stdout.count(b"warning: ") == 2
    assert b"warning: " not in done.stderr


def test_simulate_takes_the_stock_scheduler_and_any_policy(cluster, arrivals):
    for policy in ("kube-scheduler", "kube-scheduler-most-allocated", "first-fit", "fgd"):
        done = run("simulate", "--cluster", cluster, "--arrivals", arrivals, "--policy", policy)
        assert done.returncode == 0, done.stderr
        assert b"30 of 30 pods placed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (["gpus", "--cluster", "/no/such/file"], b"", "/no/such/file: No such file"),
        (["gpus", "--cluster", "-"], b"{", "standard input"),
        (["gpus", "--cluster", "-"], b"", "standard input"),
        (["gpus", "--cluster", "-"], b"\xff\xfe", "standard input"),
        (["gpus", "--cluster", "-"], b'{"kind":"List","items":[{"kind":"Node","metadata":{"name":5}}]}', "name"),
        (["simulate", "--cluster", "-"], b'{"kind":"List","items":[]}', "--arrivals"),
        (["simulate", "--cluster", "-", "--policy", "optimal", "--queue"], b"{}", "not one of balance+fgd, "),
        (["simulate", "--cluster", "-", "--policy", "optimal", "--queue"], b"{}", "kube-scheduler-most-allocated"),
        (["simulate", "--cluster", "-", "--policy", "fdg", "--queue"], b"{}", "did you mean fgd?"),
        (
            ["fit", "--cluster", "docs/examples/in-pieces.yaml", "--pod-file", "-"],
            A_JOB,
            "item 1 (Job of batch/v1 ml/j)",
        ),
        (["fit", "--cluster", "-", "--pod", "a/b"], b'{"kind":"List","items":[]}', "there is no such pod"),
        (["fit", "--cluster", "-", "--pod", "ml/bigg"], POD_BIG, "; did you mean ml/big?"),
        (["fit", "--cluster", "-", "--pod", "default/big"], POD_BIG, "; did you mean ml/big?"),
        (["defrag", "--cluster", "-", "--pod", "bigg"], POD_BIG, "; did you mean big?"),
        (["fit", "--cluster", "-", "--pod", "other"], POD_BIG, "give NS/NAME"),
        (["defrag", "--cluster", "-", "--pod", "a", "--pod=b"], POD_BIG, "--pod: given 2 times; defrag takes one"),
        (["config", "check", "-", "-o", "json", "-o", "json"], b"", "-o: given 2 times; check takes one"),
        (["serve"], b"", "--cluster"),
        (["serve", "--demo", "--cluster", "x"], b"", "not both"),
        (["fit", "--cluster", "-", "--pod-file", "-"], b"", "read once only"),
        (["config", "check", "/no/such/file"], b"", "/no/such/file"),
        (["config", "check", "-"], b"\xff", "UTF-8"),
        (["serve", "--kubeconfig", "/dev/stdin"], b"a: " + b"[" * 5000, "kubeconfig /dev/stdin: "),
        (["serve", "--kubeconfig", "/dev/stdin"], b"contexts: [5]\ncurrent-context: c\n", "kubeconfig /dev/stdin: "),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_two(arguments, stdin, words):
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 2, done.stdout
    lines = [line for line in done.stderr.decode().splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert words in lines[0]
    assert b"Traceback" not in done.stderr


def test_warnings_about_the_pods_of_a_file_are_reported(cluster, tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(
        "kind: Pod\nmetadata: {name: p, namespace: ml, annotations: {gpu-extender.io/types: 'H100=x'}}\n"
        "spec: {containers: [{resources: {limits: {nvidia.com/gpu: '1'}}}]}\n"
    )
    report = json.loads(run("fit", "--cluster", cluster, "--pod-file", path, "-o", "json").stdout)
    assert [w for w in report["warnings"] if w.startswith("pod ml/p: ") and "gpu-extender.io/types" in w]


def test_usage_errors_are_click_s_and_exit_with_two():
    assert run("gpus").returncode == 2
    assert run("no-such-command").returncode == 2


def test_a_fault_in_the_configuration_stops_every_command(cluster, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("scoring: {policy: best}\nserver: {thread: 4}\n")
    done = run("gpus", "--cluster", cluster, "--config", path)
    assert done.returncode == 2
    assert b"scoring.policy" in done.stderr
    assert b"server.thread" in done.stderr


def test_config_check_judges_the_shipped_files():
    for path in ("policy/scheduler-policy.json", "policy/kube-scheduler-config.yaml"):
        done = run("config", "check", path, "-o", "json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert set(report) == {"kind", "faults", "consequences", "warnings"}
        assert report["warnings"] == []


def test_the_demo_ends_by_itself_and_shows_the_comparison():
    done = run("demo", "--pods", 60)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    for words in (
        "GPUs allocated",
        "8-GPU pods refused",
        "GPUs stranded for 8-GPU pods",
        "evicted in vain",
        "make run",
    ):
        assert words in text
