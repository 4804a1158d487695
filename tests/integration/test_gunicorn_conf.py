"""gunicorn.conf.py serves the same application."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.integration.harness import ROOT, cluster, node_object

pytestmark = pytest.mark.integration


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(env):
    command = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py"]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, stderr=subprocess.PIPE)


def test_it_serves_the_cluster_the_environment_names(tmp_path):
    path, port = tmp_path / "cluster.json", free_port()
    path.write_text(json.dumps(cluster(node_object("a"))))
    with start({"GPU_EXTENDER_CLUSTER": str(path), "GPU_EXTENDER_SERVER__LISTEN": f"127.0.0.1:{port}"}) as process:
        try:
            assert answered(f"http://127.0.0.1:{port}/readyz") == 200
        finally:
            process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def answered(url):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status
        except urllib.error.URLError:
            time.sleep(0.1)
    return None


def test_without_a_cluster_it_says_what_is_missing():
    with start({}) as process:
        _, told = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"GPU_EXTENDER_CLUSTER must name the dump to serve" in told
