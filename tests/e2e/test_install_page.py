"""docs/install.md, as written: its rights suffice and none is idle, its manifests are accepted, its schedulers run."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from controlplane import installpage
from controlplane.api import Manifest
from controlplane.objects import A100, gfd_node, pod
from controlplane.plane import SCHEDULER_USER
from controlplane.processes import wait_for
from controlplane.schedulerfiles import KUBECONFIG, POLICY
from controlplane.schedulerfiles import shipped as shipped_file
from extender.config import load_config
from tests.e2e.accounts import Account, ExtenderInPod
from tests.e2e.scenarios import DECIDES, live_extender, registered

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BINDS = {"    preemptVerb: preempt\n": "    preemptVerb: preempt\n    bindVerb: bind\n"}
SHELL = re.compile(r"^kubectl --namespace (\S+) create configmap (\S+) \\\n  --from-file (\S+)=(\S+)$", re.MULTILINE)


def accepted(plane, kind, name):
    """Have the API server check an object of the page, every field, and return what it makes of it."""
    path, manifest = installpage.find(kind, name)
    return plane.api.request("POST", path, manifest, dryRun="All", fieldValidation="Strict")


def container(workload, name):
    """Return a container of a workload's pods."""
    (found,) = [one for one in workload["spec"]["template"]["spec"]["containers"] if one["name"] == name]
    return found


def listens(extender):
    """Return where the extender of a manifest listens."""
    return extender["args"][extender["args"].index("--listen") + 1]


def test_every_block_of_the_page_is_tried_here():
    tried = {
        ("DaemonSet", "gpu-extender"), ("Deployment", "gpu-scheduler"), ("Pod", "train"),
        ("ServiceAccount", "gpu-extender"), ("ClusterRole", "gpu-extender"), ("ClusterRoleBinding", "gpu-extender"),
        ("ClusterRole", "gpu-extender-bind"), ("ClusterRoleBinding", "gpu-extender-bind"),
        ("ServiceAccount", "gpu-scheduler"), ("ClusterRoleBinding", "gpu-scheduler"),
        ("ClusterRoleBinding", "gpu-scheduler-volumes"), ("Role", "gpu-scheduler"), ("RoleBinding", "gpu-scheduler"),
        ("RoleBinding", "gpu-scheduler-authentication"),
    }  # fmt: skip
    assert {(found["kind"], found["metadata"]["name"]) for _, found in installpage.objects()} == tried
    assert len(installpage.fragments()) == 1


# ---------------------------------------------------------------- rights


def test_the_rights_suffice_and_none_is_idle(plane, cluster, tmp_path):
    account = Account(plane, "gpu-extender")
    path, train = installpage.find("Pod", "train")
    cluster.create_nodes([gfd_node("h100"), gfd_node("a100", A100), gfd_node("also-a100", A100)])
    daemons = accepted(plane, "DaemonSet", "gpu-extender")
    assert daemons["spec"]["template"]["spec"]["serviceAccountName"] == "gpu-extender"
    assert container(daemons, "gpu-extender")["args"] == ["serve", "--listen", "127.0.0.1:8888"]
    with (
        ExtenderInPod(tmp_path, account, verbs__bind="true") as extender,
        registered(plane, tmp_path, "1.37", extender.url, changes=BINDS),
    ):
        extender.wait_synced()
        pods = [plane.api.create(path, train), *cluster.create_pods([pod(f"p{n}", 8) for n in range(2)])]
        where = cluster.wait_bound(pods)
        assert where["train"] == "h100", "the first of its types"
        assert extender.asked("bind") == len(pods)
        # The answer was lost, and kube-scheduler asks again: the pod is looked up.
        again = {key: pods[1]["metadata"][field] for key, field in (("PodName", "name"), ("PodUID", "uid"))}
        assert extender.post("bind", {**again, "PodNamespace": "ml", "Node": where["p0"]}) == {"Error": ""}
        assert "forbidden" not in extender.text()
    given = installpage.rights("ClusterRole", "gpu-extender") | installpage.rights("ClusterRole", "gpu-extender-bind")
    assert account.asked_for() == given


def test_a_token_in_a_kubeconfig_does_as_well(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0")])
    with live_extender(plane, tmp_path, kubeconfig=Account(plane, "gpu-extender").kubeconfig(tmp_path)) as extender:
        assert extender.metric("gpus", state="free") == 8
        assert "forbidden" not in extender.text()


# ---------------------------------------------------------------- a second scheduler


def test_the_second_scheduler_of_the_page_runs_with_its_own_rights(plane, cluster, tmp_path):
    account = Account(plane, "gpu-scheduler")
    deployment = accepted(plane, "Deployment", "gpu-scheduler")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "gpu-scheduler"
    config, text = config_map(plane)
    scheduler = container(deployment, "kube-scheduler")
    (mount,) = scheduler["volumeMounts"]
    assert f"--config={mount['mountPath']}/{config}" in scheduler["command"]
    registration = yaml.safe_load(text)["extenders"][0]
    address = listens(container(deployment, "gpu-extender"))
    assert registration["urlPrefix"].startswith(f"http://{address}/")
    sidecar = container(deployment, "gpu-extender")
    env = {one["name"]: one["value"] for one in sidecar["env"]}
    settings = load_config(None, env=env, overrides={}, known_policies=["planned"])
    (port,) = sidecar["ports"]
    assert settings.server.operators_listen == f"0.0.0.0:{port['containerPort']}"
    assert {sidecar[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {
        port["containerPort"]
    }

    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("gpu-1")])
    kubeconfig = account.kubeconfig(tmp_path)
    with live_extender(plane, tmp_path, kubeconfig=kubeconfig) as extender:
        text = text.replace(f"http://{address}", extender.url)
        path = tmp_path / config
        path.write_text(f"{text}\nclientConnection:\n  kubeconfig: {kubeconfig}\n", encoding="utf-8")
        # In a pod the last two are the default.
        flags = [f"--config={path}", "--bind-address=127.0.0.1"]
        flags += [f"--{way}-kubeconfig={kubeconfig}" for way in ("authentication", "authorization")]
        with plane.scheduler("1.37", flags=flags) as process:
            pods = [pod(f"p{n}", 4, schedulerName="gpu-scheduler") for n in range(3)]
            assert len(set(cluster.wait_bound(cluster.create_pods(pods)).values())) == 2
            assert extender.asked("filter") == 3
            wait_for(lambda: ("leases", "update") in account.asked_for(), "the lease is renewed")
            assert "forbidden" not in process.text()
        assert "forbidden" not in extender.text()
    asked = account.asked_for()
    assert installpage.rights("Role", "gpu-scheduler") <= asked
    assert ("configmaps", "watch") in asked, "extension-apiserver-authentication"
    assert ("persistentvolumes", "watch") in asked, "volumes"


def config_map(plane):
    """Make the ConfigMap by the page's command; return its key and text."""
    found = SHELL.search(installpage.PAGE.read_text(encoding="utf-8"))
    assert found is not None
    namespace, name, key, file = found.groups()
    assert Path(file).parent.name == POLICY.name
    manifest = {"metadata": {"name": name}, "data": {key: (POLICY / Path(file).name).read_text(encoding="utf-8")}}
    created = plane.api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", manifest, dryRun="All")
    _, deployment = installpage.find("Deployment", "gpu-scheduler")
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == created["metadata"]["name"]
    return key, created["data"][key]


# ---------------------------------------------------------------- the default scheduler


KUBEADM: Final[Manifest] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
    "spec": {
        "hostNetwork": True,
        "containers": [
            {
                "name": "kube-scheduler",
                "image": "registry.k8s.io/kube-scheduler:v1.37.2",
                "command": [
                    "kube-scheduler",
                    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
                    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
                    "--bind-address=127.0.0.1",
                    "--kubeconfig=/etc/kubernetes/scheduler.conf",
                    "--leader-elect=true",
                ],
                "volumeMounts": [
                    {"name": "kubeconfig", "mountPath": "/etc/kubernetes/scheduler.conf", "readOnly": True}
                ],
            }
        ],
        "volumes": [
            {"name": "kubeconfig", "hostPath": {"path": "/etc/kubernetes/scheduler.conf", "type": "FileOrCreate"}}
        ],
    },
}
"""The static pod that kubeadm writes, as far as it matters here."""


def patched():
    """Return kubeadm's static pod with the page's patch, merged as a strategic merge patch is."""
    (patch,) = installpage.fragments()
    manifest = copy.deepcopy(KUBEADM)
    (target,), (change,) = manifest["spec"]["containers"], patch["spec"]["containers"]
    assert change["name"] == target["name"]
    target["command"] = change["command"]
    target["volumeMounts"] += change["volumeMounts"]
    manifest["spec"]["volumes"] += patch["spec"]["volumes"]
    return manifest


def test_the_static_pod_with_the_pages_patch_runs(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0")])
    made = plane.api.request(
        "POST", "/api/v1/namespaces/kube-system/pods", patched(), dryRun="All", fieldValidation="Strict"
    )
    (scheduler,) = made["spec"]["containers"]
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in scheduler["command"][1:])
    assert flags["config"] in {mount["mountPath"] for mount in scheduler["volumeMounts"]}
    daemons = accepted(plane, "DaemonSet", "gpu-extender")
    shipped = yaml.safe_load((POLICY / DECIDES).read_text(encoding="utf-8"))
    assert shipped["extenders"][0]["urlPrefix"].startswith(f"http://{listens(container(daemons, 'gpu-extender'))}/")
    assert shipped["clientConnection"]["kubeconfig"] == flags["authentication-kubeconfig"] == KUBECONFIG
    with live_extender(plane, tmp_path) as extender:
        flags["config"] = str(shipped_file(plane, DECIDES, tmp_path, extender.url))
        here = {name: value.replace(KUBECONFIG, str(plane.kubeconfig(SCHEDULER_USER))) for name, value in flags.items()}
        with plane.scheduler("1.37", flags=[f"--{name}={value}" for name, value in here.items()]):
            cluster.wait_bound(cluster.create_pods([pod("one", 1)]))
            assert extender.asked("filter") == 1
