"""`defrag` and `buy` as people type them: exit codes, one clear line for bad input, the keys of the contract."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


def run(*arguments, stdin=b""):
    command = [sys.executable, "-m", "extender", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120)


def node(name, gpus=8):
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


def pod(name, gpus, node_name=None, **meta):
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"containers": [container], **({"nodeName": node_name} if node_name else {})}
    status = {"phase": "Running" if node_name else "Pending"}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ml", **meta}, "spec": spec, "status": status}


OWNED = {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}


@pytest.fixture(scope="module")
def cluster():
    pods = [pod("a", 1, "n1", **OWNED), pod("b", 2, "n2", **OWNED), pod("big", 8), pod("huge", 16)]
    return json.dumps({"kind": "List", "items": [node("n1"), node("n2"), *pods]}).encode()


def test_defrag_prints_the_moves(cluster):
    done = run("defrag", "--cluster", "-", "--pod", "ml/big", "-o", "json", stdin=cluster)
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(report) == {
        "possible", "moves", "cost", "status", "goal", "bound", "node", "reason", "vetoes", "warnings",
    }  # fmt: skip
    (move,) = report["moves"]
    assert move == {"pod": "ml/a", "from": "n1", "to": "n2", "step": 1, "gpus": 1, "gpu_hours": 0.0}
    table = run("defrag", "--cluster", "-", "--hole", "8", stdin=cluster)
    assert table.returncode == 0
    words = " ".join(table.stdout.decode().split())  # however wide the terminal is
    assert "Room on n1 after 1 move" in words
    assert "proved: no plan has fewer moves" in words


def test_defrag_says_no_with_one_and_why(cluster):
    done = run("defrag", "--cluster", "-", "--hole", "9", "-o", "json", stdin=cluster)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["possible"], report["moves"], report["status"]) == (False, [], "INFEASIBLE")
    assert report["reason"] == "never: no node has 9 GPUs; the largest has 8 (n1)"
    table = run("defrag", "--cluster", "-", "--pod", "ml/huge", stdin=cluster)
    assert table.returncode == 1
    assert table.stdout.startswith(b"never: ")


def test_buy_prints_nodes_by_type(cluster):
    done = run("buy", "--cluster", "-", "-o", "json", stdin=cluster)
    report = json.loads(done.stdout)
    assert done.returncode == 1  # nothing takes 16 GPUs
    assert set(report) == {
        "possible", "nodes", "buy", "status", "bound", "options", "unplaced", "min_nodes_for_running", "warnings",
    }  # fmt: skip
    assert [(row["like"], row["nodes"]) for row in report["buy"]] == [("n1", 1)]
    assert [row["pod"] for row in report["unplaced"]] == ["ml/huge"]
    assert report["min_nodes_for_running"]["nodes"] == 1


def test_buy_takes_node_types_from_a_file(cluster, tmp_path):
    path = tmp_path / "types.json"
    path.write_text(json.dumps(node("dgx", 16)))
    done = run("buy", "--cluster", "-", "--node-file", path, stdin=cluster)
    assert done.returncode == 0, done.stderr
    assert b"16 x GPU" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["defrag", "--cluster", "-"], "one of them"),
        (["defrag", "--cluster", "-", "--pod", "ml/big", "--hole", "8"], "one of them"),
        (["defrag", "--cluster", "-", "--pod", "ml/nobody"], "there is no such pod"),
        (["defrag", "--cluster", "-", "--pod", "ml/a"], "does not wait, it is on node n1"),
        (["defrag", "--cluster", "-", "--hole", "0"], "--hole 0: give N or N:MODEL"),
        (["defrag", "--cluster", "/no/such/file", "--hole", "8"], "/no/such/file"),
        (["buy", "--cluster", "-", "--like", "n9"], "--like n9"),
        (["buy", "--cluster", "-", "--node-file", "-"], "read once only"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_two(cluster, arguments, words):
    done = run(*arguments, stdin=cluster)
    assert done.returncode == 2, done.stdout
    (line,) = done.stderr.decode().splitlines()
    assert words in line


def test_other_commands_do_without_the_solver():
    code = "import sys, extender.cli, extender.app; print('ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert done.stdout.strip() == b"False", done.stderr
