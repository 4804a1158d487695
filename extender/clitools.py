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
from extender.errors import DumpError
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY

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
    chosen = os.environ.get("GPU_EXTENDER_CONFIG")
    path = config_file or (Path(chosen) if chosen else None)
    return load_config(path, env=os.environ, overrides=overrides, known_policies=REGISTRY)


def read_cluster(clusters: Sequence[str], config: Config) -> ClusterDump:
    """Read and merge the dumps."""
    return read_dumps([read_source(name) for name in clusters], GpuRules.of(config.gpus))


def print_json(value: object) -> None:
    """Print JSON for machines, which people can read as well."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def _console() -> Console:
    """Return the terminal, or for a pipe a page wide enough that cells are not broken (COLUMNS says otherwise)."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS, highlight=False)


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
        _console().print(rendered())
    raise SystemExit(0 if ok else 1)
