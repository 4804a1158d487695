"""What the commands share: options, input from files, output for people and machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from rich.console import Console, RenderableType

from extender.config import Config, load_config
from extender.dump import ClusterDump, read_dumps
from extender.errors import DumpError, InputError
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY
from extender.packing.types import PodInfo

STDIN: Final = "-"
PIPE_COLUMNS: Final = 220

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
    if name == STDIN:
        return "standard input", sys.stdin.buffer.read()
    try:
        return name, Path(name).read_bytes()
    except OSError as error:
        raise DumpError(f"{name}: {error.strerror or error}") from error


def load(config_file: Path | None, **overrides: object) -> Config:
    """Load the configuration from file, environment and flags."""
    return load_config(config_file, env=os.environ, overrides=overrides, known_policies=REGISTRY)


def read_cluster(clusters: Sequence[str], config: Config) -> ClusterDump:
    """Read and merge the dumps; what they lack is said on standard error."""
    once(clusters)
    dump = read_dumps([read_source(name) for name in clusters], GpuRules.of(config.gpus))
    if not dump.nodes:
        note("the dump has no nodes")
    return dump


def once(names: Sequence[str]) -> None:
    """Refuse to read standard input twice.

    Raises:
        InputError: when ``-`` is named more than once.
    """
    if names.count(STDIN) > 1:
        raise InputError("standard input (-) can be read once only")


def note(line: str) -> None:
    """Print a remark on standard error."""
    click.secho(f"note: {line}", fg="cyan", err=True)


def print_json(value: object) -> None:
    """Print JSON for machines, which people can read as well."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def show(page: RenderableType) -> None:
    """Print to the terminal, or for a pipe on a page so wide that cells are not broken (COLUMNS says otherwise)."""
    if sys.stdout.isatty():
        Console(highlight=False).print(page)
        return
    console = Console(width=None if "COLUMNS" in os.environ else PIPE_COLUMNS, highlight=False)
    with console.capture() as captured:
        console.print(page)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for line in warnings:
        click.secho(f"warning: {line}", fg="yellow", err=True)


def finish(
    report: Mapping[str, Any], output: str, rendered: Callable[[], RenderableType], *, ok: bool = True
) -> NoReturn:
    """Print a report and end with 0 or 1."""
    if output == "json":
        print_json(report)
    else:
        show(rendered())
    raise SystemExit(0 if ok else 1)


def named_pods(pods: Sequence[PodInfo], name: str | None) -> Sequence[PodInfo]:
    """Return the pod called ``NS/NAME`` (or NAME), all of them without a name.

    Raises:
        InputError: when there is none of that name.
    """
    found = [pod for pod in pods if name is None or name in (pod.key, pod.name)]
    if name is not None and not found:
        raise InputError(f"--pod {name}: there is no such pod in the input; give NS/NAME (finished pods are left out)")
    return found
