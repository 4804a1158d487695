"""The YAML of docs/install.md, as people copy it from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from controlplane.api import Manifest

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "install.md"
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_COLLECTIONS: Final = {
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}
ACCOUNTS: Final = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
"""Kinds that say who may do what: they are there from the start, see `Plane`."""


@cache
def _documents() -> tuple[Manifest, ...]:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return tuple(document for block in blocks for document in yaml.safe_load_all(block))


def objects() -> Iterator[tuple[str, Manifest]]:
    """Yield all objects of the page, each with the path of its collection, in the page's order."""
    for document in _documents():
        if "kind" in document:
            namespace = document["metadata"].get("namespace")
            yield _COLLECTIONS[document["kind"]].format(namespace=namespace), document


def find(kind: str, name: str) -> tuple[str, Manifest]:
    """Return one object, with the path of its collection."""
    (found,) = [
        (path, document)
        for path, document in objects()
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    ]
    return found


def fragments() -> list[Manifest]:
    """Return what is no object: parts of objects that others have made."""
    return [document for document in _documents() if "kind" not in document]


def rights(kind: str, name: str) -> set[tuple[str, str]]:
    """Return (resource, verb) of a role's rules."""
    _, role = find(kind, name)
    return {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
