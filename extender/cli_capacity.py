"""The commands about capacity that plan with OR-Tools, `defrag` and `buy`; the solver is imported when one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from extender.clitools import (
    cluster_option,
    command_about,
    config_option,
    load,
    named_pods,
    note_without_pods,
    once,
    output_option,
    read_cluster,
    read_source,
)
from extender.dump import read_dumps
from extender.errors import InputError
from extender.kube.gpurules import GpuRules
from extender.packing.holes import Hole
from extender.packing.types import PodInfo
from extender.terminal import finish

_BARE_PODS: Final[Mapping[str, bool | None]] = MappingProxyType({"auto": None, "keep": False, "move": True})


@click.command()
@cluster_option
@click.option("--pod", "pod_name", metavar="NS/NAME", help="Let this waiting pod of the dump in.")
@click.option("--hole", metavar="N[:MODEL]", help="Free N whole GPUs on one node, of a model (`8:H100`) or of any.")
@click.option(
    "--minimize",
    type=click.Choice(["moves", "cost"]),
    default="moves",
    show_default=True,
    help="Fewest moves, or least work at stake: GPU-hours since start or last checkpoint, weighed by priority.",
)
@click.option(
    "--bare-pods",
    type=click.Choice(["auto", "keep", "move"]),
    default="auto",
    show_default=True,
    help="Pods without a controller; auto moves them only when the dump shows no controller of any pod.",
)
@config_option
@output_option
def defrag(  # noqa: PLR0913, PLR0917 - one argument per option
    clusters: tuple[str, ...],
    pod_name: str | None,
    hole: str | None,
    minimize: str,
    bare_pods: str,
    config_file: Path | None,
    output: str,
) -> None:
    """Find the running pods to move, and in which order, so that a hole opens or a waiting pod fits.

    It only plans. A step needs its free destination at its time; pods of DaemonSets, mirror pods, pods held by a
    PodDisruptionBudget or an annotation, and pods without a controller stay where they are.
    """
    # OR-Tools costs the other commands half a second.
    from extender import defrag_report as moves  # noqa: PLC0415
    from extender import tables_capacity  # noqa: PLC0415
    from extender.packing.relocation import Goal  # noqa: PLC0415

    if (pod_name is None) == (hole is None):
        raise InputError("defrag takes --pod NS/NAME or --hole N[:MODEL], one of them")
    dump = read_cluster(clusters, load(config_file))
    note_without_pods(dump)
    wanted = _hole(hole) if hole is not None else _waiting(dump.pods, pod_name or "")
    report = moves.defrag_report(dump, wanted, Goal(minimize), bare_pods=_BARE_PODS[bare_pods])
    finish(report, output, tables_capacity.render_defrag, ok=report["possible"])


@click.command()
@cluster_option
@click.option(
    "--like", multiple=True, metavar="NODE|TYPE", help="Buy only this type, or that of this node; may be repeated."
)
@click.option("--node-file", metavar="FILE", help="Node types to buy, as nodes in a file, instead of the dump's own.")
@config_option
@output_option
def buy(
    clusters: tuple[str, ...], like: tuple[str, ...], node_file: str | None, config_file: Path | None, output: str
) -> None:
    """Find the fewest nodes, and of which type, that let the waiting GPU pods in; and how few would hold what runs.

    Node types are those of the dump's GPU nodes. A new node is taken to be like the least of its type, with the pods
    of DaemonSets on it.
    """
    # OR-Tools costs the other commands half a second.
    from extender import tables_capacity  # noqa: PLC0415
    from extender.buy_report import buy_report  # noqa: PLC0415

    once([*clusters, *([node_file] if node_file else [])])
    config = load(config_file)
    dump = read_cluster(clusters, config)
    note_without_pods(dump)
    offered = read_dumps([read_source(node_file)], GpuRules.of(config.gpus)).nodes if node_file else None
    report = buy_report(dump, like=like, offered=offered)
    lost = [row["pod"] for row in report["unplaced"]]
    why = command_about("fit", lost[0], clusters, config_file) if lost else ""
    finish(report, output, lambda page: tables_capacity.render_buy(page, why), ok=report["possible"])


def _hole(text: str) -> Hole:
    """Read what `--hole` says."""
    try:
        return Hole.parse(text)
    except ValueError as error:
        raise InputError(f"--hole {text}: {error}") from error


def _waiting(pods: Sequence[PodInfo], name: str) -> PodInfo:
    """Return the one waiting pod of that name."""
    found = named_pods(pods, [name])
    if len(found) > 1:
        raise InputError(f"--pod {name}: there are {len(found)} of that name; give NS/NAME")
    if not found[0].waiting:
        raise InputError(f"--pod {name}: does not wait, it is on node {found[0].node_name}")
    return found[0]
