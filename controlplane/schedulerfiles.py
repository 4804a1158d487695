"""Configuration files for kube-scheduler: the shipped ones with a test's addresses, and one without an extender."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from controlplane.plane import SCHEDULER_USER, Plane
from controlplane.processes import LOOPBACK

POLICY: Final = Path(__file__).resolve().parents[1] / "policy"
EXTENDER: Final = "http://127.0.0.1:8888"
KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
INSECURE: Final = "127.0.0.1:10251"


def shipped(
    plane: Plane, name: str, folder: Path, url: str = EXTENDER, user: str = SCHEDULER_USER, **changes: str
) -> Path:
    """Write a file of policy/ anew: the addresses, the kubeconfig's path, and `changes`, nothing else.

    A file without `clientConnection` is for a pod with a service account; here it gets the kubeconfig at its end.
    """
    text = (POLICY / name).read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, new)
    kubeconfig = plane.kubeconfig(user)
    for old, new in {EXTENDER: url, KUBECONFIG: str(kubeconfig), INSECURE: f"{LOOPBACK}:{plane.free_port()}"}.items():
        text = text.replace(old, new)
    if name.endswith(".yaml") and "\nclientConnection:" not in text:
        text += f"\nclientConnection:\n  kubeconfig: {kubeconfig}\n"
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def without_extender(
    plane: Plane, folder: Path, version: str = "v1", changes: Mapping[str, object] = MappingProxyType({})
) -> Path:
    """Write the configuration of a scheduler that stands in nobody's way: no extender, no limit on its requests.

    `changes` are further keys of the document.
    """
    path = folder / f"without-extender-{version}.json"
    document: dict[str, object] = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig(SCHEDULER_USER)), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
    }
    if version != "v1":
        document |= insecure(plane)
    path.write_text(json.dumps({**document, **changes}), encoding="utf-8")
    return path


def registration(url: str, **changes: object) -> dict[str, object]:
    """Return the extender as the shipped configuration registers it, at another address; `changes` are its keys."""
    shipped_document = yaml.safe_load((POLICY / "kube-scheduler-config.yaml").read_text(encoding="utf-8"))
    extender: dict[str, object] = shipped_document["extenders"][0]
    return {**extender, "urlPrefix": str(extender["urlPrefix"]).replace(EXTENDER, url), **changes}


def insecure(plane: Plane) -> dict[str, str]:
    """Return where a kube-scheduler up to 1.22 listens without TLS; two on a machine would meet on port 10251."""
    return dict.fromkeys(("healthzBindAddress", "metricsBindAddress"), f"{LOOPBACK}:{plane.free_port()}")
