"""Which programs of which Kubernetes release the end-to-end tests run; one folder with a Go module for each release."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

HERE: Final = Path(__file__).resolve().parent

SCHEDULER: Final = "kube-scheduler"
API_SERVER: Final = "kube-apiserver"
ETCD: Final = "etcd"

PACKAGES: Final = MappingProxyType(
    {
        SCHEDULER: "k8s.io/kubernetes/cmd/kube-scheduler",
        API_SERVER: "k8s.io/kubernetes/cmd/kube-apiserver",
        ETCD: "go.etcd.io/etcd/server/v3",
    }
)
"""The Go package of each program."""


@dataclass(frozen=True)
class Release:
    """Programs that are built from one Go module.

    Attributes:
        kubernetes: version of `k8s.io/kubernetes`, with its `v`.
        programs: what is built, cheapest way first: a later one finds most packages compiled.
        etcd: version of `go.etcd.io/etcd/server/v3`, "" when the release is no server.
    """

    kubernetes: str
    programs: tuple[str, ...] = (SCHEDULER,)
    etcd: str = ""

    @cached_property
    def minor(self) -> str:
        """Return the minor version, `1.37`: what tests call the release by."""
        return ".".join(self.kubernetes.removeprefix("v").split(".")[:2])

    @property
    def module(self) -> Path:
        """Return the folder of the Go module."""
        return HERE / f"v{self.minor}"

    @property
    def staging_version(self) -> str:
        """Return the version under which the parts of this Kubernetes are published as modules (`v0.37.2`)."""
        return re.sub(r"^v1\.", "v0.", self.kubernetes)

    def version(self, program: str) -> str:
        """Return the version of the module that holds a program."""
        return self.etcd if program == ETCD else self.kubernetes


# The API server of the newest release serves every scheduler: 1.22 is the last that reads a Policy file, 1.29 the first
# that requeues what an extender rejected.
NEWEST: Final = Release("v1.37.2", (SCHEDULER, API_SERVER, ETCD), "v3.7.3")
RELEASES: Final = (NEWEST, Release("v1.29.6"), Release("v1.22.17"))


def release(minor: str) -> Release:
    """Return a release by its minor version, `1.37`.

    Raises:
        LookupError: when there is no such release.
    """
    for known in RELEASES:
        if known.minor == minor:
            return known
    raise LookupError(f"no Kubernetes {minor} here, only {', '.join(known.minor for known in RELEASES)}")
