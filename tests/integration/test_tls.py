"""TLS and client certificates on the scheduler's listener; the operators' listener stays plain for probes."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.harness import ROOT, cluster, filter_args, node_object, pod_object, running

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parent / "tls"
CLUSTER = cluster(node_object("a"))
GOOD = filter_args(pod_object("p"), "a")
SERVER = {
    "GPU_EXTENDER_SERVER__TLS__CERT_FILE": str(FOLDER / "server.pem"),
    "GPU_EXTENDER_SERVER__TLS__KEY_FILE": str(FOLDER / "server.pem"),
}
MUTUAL = {
    **SERVER,
    "GPU_EXTENDER_SERVER__TLS__CLIENT_CA_FILE": str(FOLDER / "ca.pem"),
    "GPU_EXTENDER_SERVER__OPERATORS_LISTEN": "127.0.0.1:0",
}


def context(certificate: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=FOLDER / "ca.pem")
    if certificate is not None:
        made.load_cert_chain(FOLDER / certificate)
    return made


def test_the_schedulers_listener_speaks_tls():
    with running(CLUSTER, env=SERVER) as service:
        client = service.client(context())
        for _ in range(3):
            assert client.post("filter", GOOD).value["NodeNames"] == ["a"]
        assert client.get("/readyz").status == 200
        client.close()
        plain = service.client()
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.get("/readyz")
        plain.close()


def test_with_a_client_ca_only_its_certificates_get_in():
    with running(CLUSTER, env=MUTUAL) as service:
        for certificate in (None, "stranger.pem"):
            refused = service.client(context(certificate))
            with pytest.raises((OSError, http.client.HTTPException)):
                refused.post("filter", GOOD)
            refused.close()
        client = service.client(context("client.pem"))
        assert client.post("filter", GOOD).value["NodeNames"] == ["a"]
        client.close()
        for path in ("/readyz", "/healthz", "/metrics"):
            assert service.get(path, listener="operators").status == 200
        assert service.logged("Traceback", within=0) == []


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GPU_EXTENDER_SERVER__TLS__CERT_FILE", "/nowhere.pem", "server.tls: No such file"),
        ("GPU_EXTENDER_SERVER__TLS__KEY_FILE", str(FOLDER / "ca.pem"), "server.tls: "),
        ("GPU_EXTENDER_SERVER__LISTEN", "192.0.2.1:1", "server.listen 192.0.2.1:1: "),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line_at_start(tmp_path, variable, value, said):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(node_object("a"), pod_object("p"))))
    done = subprocess.run(
        [sys.executable, "-m", "extender", "serve", "--cluster", str(path)],
        cwd=ROOT, env={**SERVER, "GPU_EXTENDER_SERVER__LISTEN": "127.0.0.1:0", variable: value},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_address_that_is_taken_is_trouble_of_the_surroundings():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "extender", "serve", "--demo"],
            cwd=ROOT, env={**SERVER, "GPU_EXTENDER_SERVER__LISTEN": address},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: server.listen {address}: another program listens there already; stop it, or choose")
