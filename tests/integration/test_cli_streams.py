"""The command line on streams that are closed, full, narrow, or left by their reader: never a traceback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.apiobjects import GPU, a_node, a_pod, listing
from tests.commandline import run

pytestmark = pytest.mark.integration

NAMES = ("nöde", "[/x]", "[red]b", "e\x1b[31m\x07", "n\nerror: forged", "ri\u202eght", "c1\x9b31m", ":smile:")
CLUSTER = listing(
    *({**a_node(name), "status": {"capacity": {GPU: "8", "pods": "9"}}} for name in NAMES),
    a_pod("p\x1b]0;t\x07", 1, "[/x]", phase="Running"),
    *(a_pod(f"w{name}", 1) for name in NAMES),
    a_pod("big", 99),
)
COMMANDS = (
    ("gpus",), ("gpus", "-o", "json"), ("fit",), ("fit", "-o", "json"), ("simulate", "--queue"),
    ("simulate", "--queue", "-o", "json"),
)  # fmt: skip


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(CLUSTER)
    return path


def shell(script, cluster):
    """Run a line of sh in which `$X` is the command and `$C` the cluster's file."""
    variables = {**os.environ, "X": f"{sys.executable} -m extender", "C": str(cluster)}
    return subprocess.run(["sh", "-c", script], capture_output=True, check=False, timeout=120, env=variables)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_no_name_is_more_than_text_whatever_the_encoding(command, encoding):
    done = run(*command, "--cluster", "-", stdin=CLUSTER, encoding=encoding)
    assert done.code in {0, 1}, done
    text = done.out.decode(encoding)
    assert text.replace("\n", "").isprintable()
    assert not any(line.startswith("error: ") for line in text.splitlines())
    if "json" in command:
        assert "nöde" in json.dumps(json.loads(text), ensure_ascii=False)
    else:
        assert "[/x]" in text


def test_half_a_character_is_read_as_go_reads_it():
    dump = listing(a_node("n\ud800"), {"kind": "Pod", "metadata": {"name": "p", "\udc00": 1}})
    report = json.loads(run("gpus", "--cluster", "-", "-o", "json", stdin=dump).out)
    assert report["nodes"][0]["node"] == "n\ufffd"
    assert run("gpus", "--cluster", "-", stdin=listing("\ud800")).errors == [
        "error: standard input: item 1 (no kind without a name): Expected object, got str"
    ]


def test_names_of_the_command_line_are_text_too():
    done = run("fit", "--cluster", "-", "--pod", "a\x1b[31mb\udcff", stdin=CLUSTER)
    assert done.code == 2
    assert done.err.startswith(r"error: --pod a\x1b[31mb\udcff: there is no such pod")
    for arguments in (("gpus", "--no\x1b[31m"), ("co\x07mmand",), ("gpus", "--cluster", "-", "-o", "\x1b")):
        done = run(*arguments)
        assert done.code == 2
        assert done.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "--cluster", "-", "--queue", "--seed", "-1"), "'--seed'"),
        (("simulate", "--cluster", "-", "--queue", "--weight", 10**30), "'--weight'"),
        (("simulate", "--cluster", "-", "--queue", "--weight", 10**16), "'--weight'"),
        (("demo", "--seed", "-1"), "'--seed'"),
        (("synthetic", "--seed", "-1"), "'--seed'"),
    ],
)
def test_numbers_out_of_range_are_usage_errors(arguments, words):
    done = run(*arguments, stdin=CLUSTER)
    assert done.code == 2
    assert words in done.err.splitlines()[-1]


def test_the_largest_weight_and_seed_are_taken():
    done = run("simulate", "--cluster", "-", "--queue", "--weight", 10**15, "--seed", 10**40, stdin=CLUSTER)
    assert done.code == 1, done


def test_a_flood_of_bad_amounts_is_a_few_lines_and_nothing_is_lost_in_json():
    dump = listing(a_node("n"), *(a_pod(f"p{number}", f"x{number}") for number in range(2000)))
    assert len(run("gpus", "--cluster", "-", stdin=dump).out) < 2000
    assert len(json.loads(run("gpus", "--cluster", "-", "-o", "json", stdin=dump).out)["warnings"]) == 2000


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ("$X gpus --cluster - <&-", 2, b"error: standard input: is closed\n"),
        ("$X gpus --cluster $C >&-", 3, b"error: standard output is closed\n"),
        ("$X fit --cluster $C >/dev/full", 3, b"error: standard output: No space left on device\n"),
        ("$X fit --cluster $C -o json >/dev/full", 3, b"error: standard output: No space left on device\n"),
        ("$X --help >/dev/full", 3, b"error: No space left on device\n"),
        ("$X demo --pods 1 >/dev/full", 3, b"error: No space left on device\n"),
        ("$X gpus --cluster /none 2>/dev/full", 2, b""),
        ("$X gpus --cluster /none 2>&-", 2, b""),
        ("$X gpus 2>/dev/full", 2, b""),
        # What the reader no longer reads changes no answer.
        ("($X fit --cluster $C; echo $? >&2) | true", 0, b"1\n"),
        ("($X synthetic --pods 5000; echo $? >&2) | head -c 1", 0, b"0\n"),
        ("($X --help; echo $? >&2) | true", 0, b"0\n"),
        ("($X demo --pods 1; echo $? >&2) | head -1", 0, b"0\n"),
    ],
)
def test_streams_that_do_not_take_or_give(cluster, script, code, error):
    done = shell(script, cluster)
    assert (done.returncode, done.stderr) == (code, error)


def test_an_error_fits_the_terminal_and_is_one_line_elsewhere():
    path = "/no/such/folder/" + "long-name/" * 9
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "extender", "gpus", "--cluster", path],
        env={**os.environ, "COLUMNS": "40", "TERM": "xterm", "NO_COLOR": "1"}, stderr=theirs, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    lines = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert done.returncode == 2
    assert lines[0].startswith("error: /no/such")
    assert len(lines) > 2
    assert all(len(line) <= 40 for line in lines)
    assert run("gpus", "--cluster", path, env={"COLUMNS": "40"}).err.count("\n") == 1


@pytest.mark.parametrize("columns", ["0", "1"])
def test_an_error_can_be_read_on_a_terminal_that_is_said_to_have_no_width(columns):
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "extender", "gpus", "--cluster", "/no"],
        env={**os.environ, "COLUMNS": columns, "NO_COLOR": "1"}, stderr=theirs, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 2
    assert said.startswith("error: /no: No such")


def test_a_terminal_that_knows_ascii_alone(cluster):
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "100"}
    command = [sys.executable, "-m", "extender", "fit", "--cluster", str(cluster)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env) as process:
        os.close(theirs)
        said = b"".join(iter(lambda: _read(ours), b""))
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    assert process.returncode == 1
    assert rb"n\xf6de" in said
    assert b"\x1b]0;" not in said
    assert b"\x07" not in said


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
