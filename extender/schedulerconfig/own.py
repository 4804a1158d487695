"""Says what our own configuration means: only what surprises, the rest is in docs/configuration.md. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from extender.config import Config, split_address
from extender.schedulerconfig.values import Finding, note

_GO_IDLE_SECONDS = 90
_LARGEST_SEEN_BYTES = 100 * 10**6


def consequences(config: Config) -> Iterator[Finding]:
    """Yield the consequences of a valid configuration."""
    server, verbs = config.server, config.verbs
    if server.tls.cert_file is None and not _is_loopback(split_address(server.listen)[0]):
        yield note("server.listen", f"{server.listen} is open to the network without TLS: anybody may ask and read.")
    if server.tls.client_ca_file is not None and server.operators_listen is None:
        yield note("server.tls.client_ca_file", "probes and Prometheus need a certificate too; see operators_listen.")
    if server.keep_alive_seconds <= _GO_IDLE_SECONDS:
        yield note(
            "server.keep_alive_seconds",
            f"{server.keep_alive_seconds}: kube-scheduler keeps connections {_GO_IDLE_SECONDS} s; closing first "
            "now and then loses a pod its attempt.",
        )
    if server.max_body_bytes < _LARGEST_SEEN_BYTES:
        yield note("server.max_body_bytes", "5,000 full nodes are up to 100 MB; larger bodies are turned away (413).")
    if verbs.bind:
        yield note(
            "verbs.bind", "on: needs bindVerb in kube-scheduler's configuration and the right to create bindings."
        )
    if verbs.counts == "own":
        yield note(
            "verbs.counts",
            "own: nodes our watch still thinks full are rejected; kube-scheduler may know better.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
