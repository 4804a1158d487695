"""A real control plane on loopback: etcd, kube-apiserver and any of several kube-schedulers.

    with Plane(folder) as plane, plane.scheduler("1.37", config=path): ...

Certificates, tokens and data are made anew for each plane and live in its folder, and so do all logs. There is no
kubelet (`controlplane.kubelet` plays all of them) and no controller manager: owners, garbage collection, taints by node
condition and PDB status are the test's to write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import urllib3

from controlplane import build, installpage, releases
from controlplane.api import Api, ApiError, Manifest
from controlplane.processes import LOOPBACK, Ports, Process
from controlplane.schedulerprocess import SchedulerProcess

ADMIN: Final = "admin"
SCHEDULER_USER: Final = "system:kube-scheduler"
SECOND_SCHEDULER_USER: Final = "gpu-scheduler"
EXTENDER_USER: Final = "gpu-extender"
NAMESPACE: Final = "ml"

_USERS: Final = MappingProxyType(
    {ADMIN: "system:masters", SCHEDULER_USER: "", SECOND_SCHEDULER_USER: "", EXTENDER_USER: ""}
)
_AUDIT: Final = MappingProxyType(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": ({"level": "Metadata", "userGroups": ("system:serviceaccounts",)}, {"level": "None"}),
    }
)
"""What service accounts ask for is written down."""
_TAILS: Final = 4
_POLICY_MINOR: Final = "1.22"
"""The last kube-scheduler that reads a Policy; older flags, and an API of its time that is gone from the server."""


class Plane:
    """etcd and kube-apiserver; schedulers come and go."""

    def __init__(self, folder: Path) -> None:
        """Prepare; `folder` is empty and the plane's own."""
        self.folder = folder
        self._programs = build.programs(releases.NEWEST)
        self._ports = Ports()
        self._processes: list[Process] = []
        self._tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._certificates = folder / "certificates"
        self.authority = self._certificates / "apiserver.crt"
        self.audit = folder / "audit.log"
        self._schedulers = 0
        self._etcd_url = f"http://{LOOPBACK}:{self._ports.take()}"
        self.api_port: int = self._ports.take()
        self.api = self.client()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    # -- for tests ---------------------------------------------------------------------------------------------

    def kubeconfig(self, user: str) -> Path:
        """Return the path of a user's kubeconfig."""
        return self.folder / f"{user.replace(':', '-')}.kubeconfig"

    def free_port(self) -> int:
        """Return a port on loopback that nobody else is given while the plane lives."""
        return self._ports.take()

    def client(self, user: str = ADMIN) -> Api:
        """Return a client of the API server; close it in the end."""
        return Api(self.api_port, self._tokens[user], self.authority)

    def kubeconfig_with(self, token: str) -> Manifest:
        """Return the kubeconfig of whoever has this token."""
        server = f"https://{LOOPBACK}:{self.api_port}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
            "current-context": "e2e",
        }

    @contextmanager
    def scheduler(
        self,
        minor: str,
        *,
        config: Path | None = None,
        policy: Path | None = None,
        user: str = SCHEDULER_USER,
        flags: Sequence[str] | None = None,
    ) -> Iterator[SchedulerProcess]:
        """Run a kube-scheduler of a release.

        `config` is a KubeSchedulerConfiguration; 1.22 takes a legacy Policy, too, or neither. `flags` stand in for all
        of these.

        Raises:
            ProcessError: when it does not start: its text has the scheduler's reason.
        """
        process = self.start_scheduler(minor, config=config, policy=policy, user=user, flags=flags)
        try:
            yield process
        finally:
            process.kill()
            # Or the next one would wait 15 s for the lease to run out.
            self.api.delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")

    def start_scheduler(
        self,
        minor: str,
        *,
        config: Path | None = None,
        policy: Path | None = None,
        user: str = SCHEDULER_USER,
        flags: Sequence[str] | None = None,
    ) -> SchedulerProcess:
        """Start a kube-scheduler and wait until it is healthy; the caller ends it."""
        self._schedulers += 1
        name = f"kube-scheduler-{minor}-{self._schedulers}"
        port = self._ports.take()
        program = build.programs(releases.release(minor))[releases.SCHEDULER]
        if flags is None:
            flags = _scheduler_flags(minor, self.kubeconfig(user), config, policy)
        own = [f"--secure-port={port}", f"--cert-dir={self.folder / name}", "--v=2"]
        process = SchedulerProcess(name, [program, *flags, *own], self.folder, port, self._tokens[ADMIN])
        self._processes.append(process)
        try:
            process.wait_ready(process.is_healthy)
        except BaseException:
            process.kill()
            raise
        return process

    def cpu_seconds(self) -> float:
        """Return the CPU time that API server and etcd have used so far."""
        return self._api_server.cpu_seconds() + self._etcd.cpu_seconds()

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready."""
        self._api_server = self._run_api_server()
        self._api_server.wait_ready(self.authority.exists)
        self._api_server.wait_ready(self._is_ready)

    def stop_api_server(self) -> None:
        """Kill the API server; what it knew is in etcd."""
        self._api_server.kill()

    def tails(self) -> str:
        """Return the last lines of the logs of what was started last."""
        return "\n\n".join(f"---- {process.name}\n{process.tail()}" for process in self._processes[-_TAILS:])

    # -- starting and ending -----------------------------------------------------------------------------------

    def _start(self) -> None:
        self._write_credentials()
        self._run_etcd()
        self.start_api_server()
        for path, body in _first_objects():
            self.api.create(path, body)

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.kill()
        self.api.close()
        self._ports.close()

    def _is_ready(self) -> bool:
        try:
            self.api.get("/readyz")
            self.api.get("/api/v1/namespaces/kube-system")
            self.api.get("/api/v1/namespaces/default")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True

    def _run_etcd(self) -> None:
        client, peer = self._etcd_url, f"http://{LOOPBACK}:{self._ports.take()}"
        flags = [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self._etcd = Process("etcd", [self._programs[releases.ETCD], *flags], self.folder)
        self._processes.append(self._etcd)

    def _run_api_server(self) -> Process:
        # The server makes its own certificate; its key signs the tokens of service accounts, too.
        key = self._certificates / "apiserver.key"
        flags = [
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.api_port}",
            f"--cert-dir={self._certificates}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--audit-policy-file={self.folder / 'audit-policy.json'}",
            f"--audit-log-path={self.audit}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Nobody runs the controllers that make default service accounts and take the not-ready taint away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
        ]
        process = Process("kube-apiserver", [self._programs[releases.API_SERVER], *flags], self.folder)
        self._processes.append(process)
        return process

    def _write_credentials(self) -> None:
        self._certificates.mkdir()
        lines = [
            f'{token},{user},{user},"{_USERS[user]}"' if _USERS[user] else f"{token},{user},{user}"
            for user, token in self._tokens.items()
        ]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for user in _USERS:
            document = self.kubeconfig_with(self._tokens[user])
            self.kubeconfig(user).write_text(json.dumps(document, indent=1), encoding="utf-8")
        (self.folder / "audit-policy.json").write_text(json.dumps(dict(_AUDIT)), encoding="utf-8")


def _scheduler_flags(minor: str, kubeconfig: Path, config: Path | None, policy: Path | None) -> list[str]:
    flags = [
        f"--bind-address={LOOPBACK}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--config={config}" if config is not None else f"--kubeconfig={kubeconfig}",
    ]
    if policy is not None:
        flags += [f"--policy-config-file={policy}", "--use-legacy-policy-config"]
    if minor == _POLICY_MINOR:
        flags += ["--port=0", "--feature-gates=CSIStorageCapacity=false"]
    return flags


def _first_objects() -> Iterator[tuple[str, Manifest]]:
    """Yield the namespace of the tests, and what the extender and a second scheduler are allowed to do by our page."""
    yield "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}
    yield from ((path, found) for path, found in installpage.objects() if found["kind"] in installpage.ACCOUNTS)
    # The same for users of that name, who are easier to have than service accounts.
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    yield f"{rbac}/clusterrolebindings", _binding(EXTENDER_USER, EXTENDER_USER, "ClusterRole")
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        yield f"{rbac}/clusterrolebindings", _binding(SECOND_SCHEDULER_USER, role, "ClusterRole")
    system = f"{rbac}/namespaces/kube-system"
    yield f"{system}/rolebindings", _binding(SECOND_SCHEDULER_USER, SECOND_SCHEDULER_USER, "Role")
    yield f"{system}/rolebindings", _binding(SECOND_SCHEDULER_USER, "extension-apiserver-authentication-reader", "Role")


def _binding(user: str, role: str, kind: str) -> Manifest:
    return {
        "metadata": {"name": f"{user}-{role}".replace(":", "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
