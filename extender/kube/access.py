"""How the API server is reached: kubeconfig, service account, exec plugins and proxies, by the official client's rules.

Nothing is read before it is needed, and all of it again whenever credentials or certificates are not accepted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from extender.errors import ClusterError, InputError

# As many as there may be request threads (`server.threads`): one that is not kept costs the next bind a handshake.
_KEPT_CONNECTIONS: Final = 256
_SHOWN: Final = 400
_WAYS: Final = "give --kubeconfig, or --cluster to serve a file"
# What the official client and PyYAML raise for files that are no kubeconfig: they take every shape for granted.
_UNUSABLE: Final = (
    ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
    RecursionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """How the API server is reached: a kubeconfig, or the service account of the pod we run in.

    Attributes:
        kubeconfig: path or paths (as in `$KUBECONFIG`) of kubeconfig files; None: in the cluster.
        context: the kubeconfig's context, None for its current one.
    """

    kubeconfig: str | None
    context: str | None = None

    @classmethod
    def find(cls, kubeconfig: Path | None, context: str | None, env: Mapping[str, str]) -> Access:
        """Return the way in: the file given, else `$KUBECONFIG`, else in the cluster, else `~/.kube/config`.

        Raises:
            InputError: when none of them can be used.
        """
        inside = "KUBERNETES_SERVICE_HOST" in env and context is None
        named = str(kubeconfig) if kubeconfig is not None else env.get("KUBECONFIG")
        access = cls(named or (None if inside else str(Path("~/.kube/config").expanduser())), context)
        access.check()
        return access

    def check(self) -> None:
        """Find mistakes without asking anybody.

        Raises:
            InputError: when files or context cannot be used.
        """
        try:
            if self.kubeconfig is None:
                load_incluster_config(Configuration())
                return
            if not any(Path(name).expanduser().exists() for name in self.kubeconfig.split(os.pathsep) if name):
                raise InputError(
                    f"{self}: there is no such file; give --kubeconfig FILE, run in a pod of the cluster, or give "
                    "--cluster FILE to serve a dump"
                )
            contexts, _ = list_kube_config_contexts(self.kubeconfig)
            names = [context.get("name") for context in contexts]
        except _UNUSABLE as error:
            raise InputError(f"{self}: {one_line(error)}; {_WAYS}") from error
        if self.context is not None and self.context not in names:
            raise InputError(f"{self}: there is no context {self.context!r}, only {', '.join(map(repr, names))}")

    def configuration(self) -> Configuration:
        """Load credentials and addresses anew.

        Raises:
            ClusterError: when they cannot be used (any more).
        """
        found = Configuration()
        with _plugin_errors() as said:
            try:
                if self.kubeconfig is None:
                    load_incluster_config(found)
                else:
                    load_kube_config(self.kubeconfig, self.context, client_configuration=found)
            except _UNUSABLE as error:
                raise ClusterError(f"{self}: {one_line(error)}") from error
        if said and not (found.api_key or found.cert_file):
            raise ClusterError(f"{self}: {'; '.join(said)}")
        found.retries = False
        if found.proxy and (user := urllib3.util.parse_url(found.proxy).auth):
            found.proxy_headers = urllib3.make_headers(proxy_basic_auth=unquote(user))
        found.connection_pool_maxsize = _KEPT_CONNECTIONS
        return found

    def __str__(self) -> str:
        return "in-cluster configuration" if self.kubeconfig is None else f"kubeconfig {self.kubeconfig}"


@contextmanager
def _plugin_errors() -> Iterator[list[str]]:
    """Collect why an exec plugin gives no credentials: the client only logs it, on the root logger, and goes on."""
    said: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.module == "kube_config":
                said.append(one_line(record.getMessage()))

    collector = Collector(logging.ERROR)
    logging.getLogger().addHandler(collector)
    try:
        yield said
    finally:
        logging.getLogger().removeHandler(collector)


def one_line(error: object) -> str:
    """Return an error's text in one line of bounded length."""
    return " ".join(str(error).split())[:_SHOWN] or type(error).__name__
