"""Service accounts as pods have them, and what the API server's audit log says that they have asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from controlplane.extenderprocess import ExtenderProcess, ListeningProcess
from controlplane.plane import Plane
from controlplane.processes import LOOPBACK

NAMESPACE: Final = "kube-system"
_SECONDS: Final = 3600


class Account:
    """A service account of docs/install.md; its rights are those of the page and no others."""

    def __init__(self, plane: Plane, name: str) -> None:
        self._plane = plane
        self._name = name
        self.user = f"system:serviceaccount:{NAMESPACE}:{name}"

    def token(self) -> str:
        """Return a new token, as a kubelet gets it for a pod."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{self._name}/token"
        answer = self._plane.api.create(path, {"spec": {"expirationSeconds": _SECONDS}})
        token: str = answer["status"]["token"]
        return token

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig with a new token."""
        path = folder / f"{self._name}.kubeconfig"
        path.write_text(json.dumps(self._plane.kubeconfig_with(self.token())), encoding="utf-8")
        return path

    def mounted(self, folder: Path) -> Path:
        """Return a folder with what a pod finds under /var/run/secrets/kubernetes.io/serviceaccount."""
        mounted = folder / f"account-{self._name}"
        mounted.mkdir()
        (mounted / "token").write_text(self.token(), encoding="utf-8")
        (mounted / "ca.crt").write_bytes(self._plane.authority.read_bytes())
        return mounted

    def pod_environment(self) -> dict[str, str]:
        """Return the variables by which a process knows that it is in a pod."""
        where = {"KUBERNETES_SERVICE_HOST": LOOPBACK, "KUBERNETES_SERVICE_PORT": str(self._plane.api_port)}
        return {**where, "KUBECONFIG": ""}

    def asked_for(self) -> set[tuple[str, str]]:
        """Return (resource, verb) of all that this account has ever asked the API server for."""
        return {
            ("/".join(filter(None, (what["resource"], what.get("subresource")))), line["verb"])
            for line in map(json.loads, self._plane.audit.read_text(encoding="utf-8").splitlines())
            if line["user"]["username"] == self.user and (what := line.get("objectRef"))
        }


class ExtenderInPod(ExtenderProcess):
    """`gpu-extender serve` that believes to be in a pod with this account."""

    def __init__(self, folder: Path, account: Account, *arguments: str, **settings: str) -> None:
        """Start it and wait until it listens; `arguments` are more than `--listen`."""
        env = {f"GPU_EXTENDER_{key.upper()}": value for key, value in settings.items()} | account.pod_environment()
        mounted = account.mounted(folder)
        command = ["tests.e2e.incluster", str(mounted), "serve", *arguments, "--listen", f"{LOOPBACK}:0"]
        ListeningProcess.__init__(self, "in-pod", command, folder, env)
