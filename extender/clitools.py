"""What the commands share: options, the configuration, and input from files. Output is `extender.terminal`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from extender.config import Config, load_config
from extender.dump import ClusterDump, PodDump, read_dumps, read_pods
from extender.errors import DumpError, InputError
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY
from extender.packing.types import PodInfo
from extender.spelling import closest
from extender.terminal import note

STDIN: Final = "-"
_PASSING: Final = "/dev/"
"""Where names of pipes begin, what a shell makes of `<(kubectl ...)` among them: they are gone with the command."""
_BOTH: Final = "`kubectl get nodes,pods -A -o json` prints both"
# Names of pods are long and much alike.
_ALIKE: Final = 0.75

config_option = click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="The program's YAML configuration."
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
cluster_option = click.option(
    "--cluster", "clusters", multiple=True, required=True, metavar="FILE",
    help="What `kubectl get nodes,pods -A -o json` (or yaml) prints; may be repeated; - is standard input.",
)  # fmt: skip
scheduler_option = click.option(
    "--scheduler", "schedulers", multiple=True, metavar="NAME",
    help="Queue of this scheduler only; may be repeated. Default: all but those of other batch schedulers.",
)  # fmt: skip


def read_source(name: str) -> tuple[str, bytes]:
    """Read a file, or standard input for ``-``.

    Raises:
        DumpError: when it cannot be read.
    """
    source = "standard input" if name == STDIN else name
    if name == STDIN and sys.stdin is None:
        raise DumpError(f"{source}: is closed")
    try:
        return source, sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise DumpError(f"{source or 'the empty name'}: {getattr(error, 'strerror', None) or error}") from error


def load(config_file: Path | None, **overrides: object) -> Config:
    """Load the configuration from file, environment and flags."""
    return load_config(config_file, env=os.environ, overrides=overrides, known_policies=REGISTRY)


def read_cluster(clusters: Sequence[str], config: Config) -> ClusterDump:
    """Read and merge the dumps; what they lack is said on standard error."""
    once(clusters)
    dump = read_dumps([read_source(name) for name in clusters], GpuRules.of(config.gpus))
    if not dump.nodes:
        note(f"the dump has no nodes; {_BOTH}")
    return dump


def read_given(name: str | None, config: Config, dump: ClusterDump) -> PodDump:
    """Read the pods that a question brings to a cluster; without a file there are none."""
    sources = [] if name is None else [read_source(name)]
    return read_pods(sources, GpuRules.of(config.gpus), dump.pod_groups)


def note_with_nodes(pods: Iterable[PodInfo], given: PodDump, how: str) -> None:
    """Say on standard error which of these pods have a node where they are written, since they are taken as new."""
    names = [pod.key for pod in pods if pod.key in given.nodes]
    if len(names) == 1:
        note(f"pod {names[0]} is on node {given.nodes[names[0]]} where it is written; {how} as if it had none")
    elif names:
        note(f"{len(names)} pods have nodes where they are written; {how} as if they had none")


def note_without_pods(dump: ClusterDump) -> None:
    """Say on standard error that a dump has nodes and no pods, and what prints both."""
    if dump.nodes and not dump.pods:
        note(f"the dump has no pods, so every GPU counts as free; {_BOTH}")


def command_about(command: str, pod: str, files: Sequence[str], config_file: Path | None = None) -> str:
    """Return the command that answers about one pod of some dumps, as one types it; "" when a dump cannot be reread."""
    if any(name == STDIN or name.startswith(_PASSING) for name in files):
        return ""
    clusters = [word for name in files for word in ("--cluster", name)]
    config = ["--config", str(config_file)] if config_file else []
    return shlex.join(["gpu-extender", command, *clusters, *config, "--pod", pod])


def once(names: Sequence[str]) -> None:
    """Refuse to read standard input twice.

    Raises:
        InputError: when ``-`` is named more than once.
    """
    if names.count(STDIN) > 1:
        raise InputError("standard input (-) can be read once only")


def named_pods(pods: Sequence[PodInfo], names: Sequence[str]) -> Sequence[PodInfo]:
    """Return the pods called ``NS/NAME`` (or NAME) in the order of the names, each once; all of them without a name.

    Raises:
        InputError: when there is none of one of the names.
    """
    found = {pod.key: pod for name in names for pod in _named(pods, name)}
    return list(found.values()) if names else pods


def _named(pods: Sequence[PodInfo], name: str) -> Sequence[PodInfo]:
    found = [pod for pod in pods if name in (pod.key, pod.name)]
    if not found:
        meant = _meant(pods, name)
        hint = f"did you mean {meant}?" if meant else "give NS/NAME (finished pods are left out)"
        raise InputError(f"--pod {name}: there is no such pod in the input; {hint}")
    return found


def _meant(pods: Sequence[PodInfo], name: str) -> str | None:
    """Return the pod of that name in another namespace, else the one with a name most like it, None without any."""
    namespace, _, bare = name.rpartition("/")
    elsewhere = min((pod.key for pod in pods if pod.name == bare), default=None)
    return elsewhere or closest(name, {pod.key if namespace else pod.name for pod in pods}, _ALIKE)
