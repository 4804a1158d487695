"""Ways to the API server: TLS, plugins, changing tokens, proxies, in the cluster. Each works or says in a line why."""

from __future__ import annotations

import json
import os
import time

import pytest
from kubernetes.config import incluster_config

from extender.errors import ApiError, ClusterError, InputError, UnreachableError
from extender.kube.access import Access
from extender.kube.client import ApiClient
from tests.integration.apihandler import TOKEN
from tests.integration.apiserver import TLS, ApiServer, eventually
from tests.integration.connectproxy import ConnectProxy
from tests.integration.harness import node_object, started

pytestmark = pytest.mark.integration

CA = "apiserver-ca.pem"
CREDENTIAL = "client.authentication.k8s.io/v1"
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def api():
    with ApiServer("apiserver.pem") as server:
        server.put(node_object("a"))
        yield server


class Asker:
    """Lists nodes by one client, as often as it likes."""

    def __init__(self, kubeconfig=None, env=None):
        self.access = Access.find(kubeconfig, None, env or {})
        self.client = ApiClient(self.access.configuration, timeout_seconds=20)

    def names(self):
        raw = self.client.get("/api/v1/nodes", {"limit": "10"}, doing="list nodes")
        return [item["metadata"]["name"] for item in json.loads(raw)["items"]]

    def fault(self, kind=UnreachableError):
        with pytest.raises(kind) as caught:
            self.names()
        text = str(caught.value)
        assert len(text.splitlines()) == 1
        return text


# -- TLS -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "ca", "words"),
    [
        ("apiserver.pem", "ca.pem", "TLS: unable to get local issuer certificate"),
        ("apiserver.pem", "", "TLS: unable to get local issuer certificate"),
        ("apiserver-expired.pem", CA, "TLS: certificate has expired"),
        ("apiserver-elsewhere.pem", CA, "TLS: IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
def test_a_certificate_that_is_not_right_is_said(tmp_path, certificate, ca, words):
    with ApiServer(certificate) as api:
        assert Asker(api.kubeconfig(tmp_path, ca=ca)).fault() == f"cannot list nodes: {api.url}: {words}"
        assert api.world.requests == [], "the token was not sent"


def test_a_server_without_tls_is_said(tmp_path):
    with ApiServer() as api:
        https = api.url.replace("http:", "https:")
        told = Asker(api.kubeconfig(tmp_path, server=https)).fault()
        assert told == f"cannot list nodes: {https}: TLS: wrong version number"


def test_a_certificate_may_be_for_another_name_or_go_unchecked(tmp_path, caplog):
    with ApiServer("apiserver-elsewhere.pem") as api:
        api.put(node_object("a"))
        assert Asker(api.kubeconfig(tmp_path, ca=CA, tls_server_name="kubernetes.example.com")).names() == ["a"]
        assert caplog.messages == []
        unchecked = Asker(api.kubeconfig(tmp_path, insecure_skip_tls_verify=True))
        assert unchecked.names() == unchecked.names() == ["a"]
        assert caplog.messages == [f"{api.url}: its certificate is not verified (insecure-skip-tls-verify)"]


def test_an_authority_that_is_replaced_under_our_feet_is_read_anew(api, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_bytes((TLS / "ca.pem").read_bytes())
    asker = Asker(api.kubeconfig(tmp_path, certificate_authority=str(authority)))
    assert "unable to get local issuer certificate" in asker.fault()
    authority.write_bytes((TLS / CA).read_bytes())
    assert asker.names() == ["a"]


def test_the_service_says_it_where_people_look_and_goes_on(tmp_path):
    quick = {"GPU_EXTENDER_CLUSTER__BACKOFF_FIRST_SECONDS": "0.05", "GPU_EXTENDER_CLUSTER__BACKOFF_MAX_SECONDS": "0.2"}
    with (
        ApiServer("apiserver-expired.pem") as api,
        started("--kubeconfig", str(api.kubeconfig(tmp_path, ca=CA)), env=quick) as service,
    ):
        words = f"cannot list nodes: {api.url}: TLS: certificate has expired"
        eventually(lambda: words in service.get("/readyz").body.decode())
        assert service.logged(words)
        api.kubeconfig(tmp_path, insecure_skip_tls_verify=True)
        eventually(lambda: service.get("/readyz").status == 200)
        assert service.logged("Traceback", within=0) == []
        assert service.logged("InsecureRequestWarning", within=0) == [], "a line of JSON, and not Python's"


# -- exec plugins --------------------------------------------------------------------------------------------------


class Plugin:
    """A credential plugin: prints what is in a file of the test's, and counts."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "runs").touch()
        script = folder / "plugin"
        script.write_text(f"#!/bin/sh\necho run >> {folder}/runs\ncat {folder}/said\n. {folder}/end\n")
        script.chmod(0o755)
        self.user = {"exec": {"apiVersion": CREDENTIAL, "command": str(script), "interactiveMode": "Never"}}

    def say(self, text, end="true"):
        (self.folder / "end").write_text(f"{end}\n")
        (self.folder / "said").write_text(text)

    def give(self, token, seconds=3600.0):
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        status = {"token": token, "expirationTimestamp": moment}
        self.say(json.dumps({"apiVersion": CREDENTIAL, "kind": "ExecCredential", "status": status}))

    def runs(self):
        return len((self.folder / "runs").read_text().splitlines())


@pytest.fixture
def plugin(tmp_path):
    return Plugin(tmp_path)


def test_a_plugin_is_asked_once_and_again_when_its_token_is_over(api, tmp_path, plugin):
    plugin.give(TOKEN)
    asker = Asker(api.kubeconfig(tmp_path, ca=CA, user=plugin.user))
    assert plugin.runs() == 0, "nothing is run before it is needed"
    assert asker.names() == asker.names() == ["a"]
    assert plugin.runs() == 1
    # Revoked before its time: one request is refused, and before the next the plugin is asked.
    api.world.token = "second"
    plugin.give("second", seconds=-1)
    assert asker.fault(ApiError).startswith("cannot list nodes: the credentials are not accepted (401)")
    assert asker.names() == ["a"]
    # Over by its own word: asked before the request, and none is refused.
    api.world.token = "third"
    plugin.give("third")
    runs = plugin.runs()
    assert asker.names() == asker.names() == ["a"]
    assert plugin.runs() == runs + 1


@pytest.mark.parametrize(
    ("said", "end", "words"),
    [
        ("", "echo log in first >&2; exit 3", "exec: process returned 3. log in first"),
        ("no JSON", "true", "exec: failed to decode process output: "),
        (f'{{"apiVersion": "{CREDENTIAL}", "kind": "", "status": {{}}}}', "true", "exec: missing token or "),
        (f'{{"apiVersion": "{CREDENTIAL}"}}', "true", "exec: malformed response. missing key 'kind'"),
    ],
)
def test_a_plugin_that_gives_nothing_is_said(api, tmp_path, plugin, said, end, words):
    plugin.say(said, end)
    path = api.kubeconfig(tmp_path, ca=CA, user=plugin.user)
    asker = Asker(path)
    assert asker.fault(ClusterError).startswith(f"kubeconfig {path}: {words}")
    assert api.world.requests == [], "nobody is asked without credentials"
    plugin.give(TOKEN)
    assert asker.names() == ["a"]


def test_a_plugin_that_fails_later_is_said_too(api, tmp_path, plugin):
    plugin.give(TOKEN, seconds=-1)
    asker = Asker(api.kubeconfig(tmp_path, ca=CA, user=plugin.user))
    assert asker.names() == ["a"]
    api.world.token = "second"
    plugin.say("", "echo the session is over >&2; exit 1")
    assert "(401)" in asker.fault(ApiError)
    assert asker.fault(ClusterError).endswith("exec: process returned 1. the session is over")


def test_a_plugin_that_is_not_there_is_said(api, tmp_path):
    user = {"exec": {"apiVersion": CREDENTIAL, "command": "no-such-plugin", "interactiveMode": "Never"}}
    told = Asker(api.kubeconfig(tmp_path, ca=CA, user=user)).fault(ClusterError)
    assert told.endswith("No such file or directory: 'no-such-plugin'")


# -- proxies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["", "me:p%40ss"])
def test_the_way_leads_through_a_proxy_unless_excepted(api, tmp_path, monkeypatch, user):
    with ConnectProxy(user.replace("%40", "@")) as proxy:
        url = proxy.url.replace("//", f"//{user}@") if user else proxy.url
        path = api.kubeconfig(tmp_path, ca=CA)
        monkeypatch.setenv("HTTPS_PROXY", url)
        assert Asker(path).names() == ["a"]
        assert proxy.asked == [f"127.0.0.1:{api.port}"]
        for excepted in ("127.0.0.1", "10.0.0.0/8,127.0.0.0/8"):
            monkeypatch.setenv("NO_PROXY", excepted)
            assert Asker(path).names() == ["a"]
        monkeypatch.delenv("HTTPS_PROXY")
        monkeypatch.delenv("NO_PROXY")
        assert len(proxy.asked) == 1
        assert Asker(api.kubeconfig(tmp_path, ca=CA, proxy_url=url)).names() == ["a"]
        assert len(proxy.asked) == 2


def test_a_proxy_that_fails_is_said_without_its_password(api, tmp_path):
    words = f"cannot list nodes: {api.url}, by the proxy"
    away = Asker(api.kubeconfig(tmp_path, ca=CA, proxy_url="http://me:secret@127.0.0.1:1"))
    assert away.fault() == f"{words} http://127.0.0.1:1: Connection refused"
    with ConnectProxy("me:right") as proxy:
        wrong = Asker(api.kubeconfig(tmp_path, ca=CA, proxy_url=proxy.url.replace("//", "//me:wrong@")))
        assert wrong.fault().startswith(f"{words} {proxy.url}: Tunnel connection failed: 407")


# -- in the cluster ------------------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path, api, monkeypatch):
    """Return the folder of a pod's service account, and make this process believe that it is in the pod."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_bytes((TLS / CA).read_bytes())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def test_the_account_of_the_pod_is_used_and_its_new_token_too(api, account):
    asker = Asker(env=os.environ)
    assert str(asker.access) == "in-cluster configuration"
    assert asker.names() == ["a"]
    # Kubelets replace the file in time. Should the old token be worth nothing by then, one request is lost.
    api.world.token = "second"
    (account / "token").write_text("second\n")
    assert "(401)" in asker.fault(ApiError)
    assert asker.names() == ["a"]


def test_without_any_way_in_the_ways_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: there is no such file; give --kubeconfig FILE, run in a pod of"):
        Asker(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("token", None, "Service token file does not exist."),
        ("token", "", "Token file exists but empty."),
        ("ca.crt", None, "Service certification file does not exist."),
        ("ca.crt", "", "Cert file exists but empty."),
    ],
)
def test_an_account_that_cannot_be_used_is_one_line_at_the_start(account, name, content, words):
    (account / name).unlink() if content is None else (account / name).write_text(content)
    with pytest.raises(InputError) as caught:
        Asker(env=os.environ)
    hint = "give --kubeconfig, or --cluster to serve a file"
    assert str(caught.value) == f"in-cluster configuration: {words}; {hint}"
