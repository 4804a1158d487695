"""The command line. Each subcommand reads its input, calls one part of the program, and prints what it returns.

Exit codes: 0 ok / every pod asked about fits; 1 no; 2 bad input (one clear line); 3 internal trouble (one line, too).
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

import extender
from extender import cli_capacity, intree, reports, schedulerconfig, simulate, synthetic, tables, terminal, whatif
from extender import demo as demonstration
from extender.cli_group import Commands
from extender.cli_plan import plan_command
from extender.clitools import (
    cluster_option,
    command_about,
    config_option,
    load,
    named_pods,
    note_with_nodes,
    note_without_pods,
    once,
    output_option,
    read_cluster,
    read_given,
    read_source,
    scheduler_option,
)
from extender.dump import superseded
from extender.errors import ExtenderError, InputError
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY
from extender.packing.policies.planned import Planned
from extender.packing.problem import queue_order
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.printable import printable_lines
from extender.scoring import make_policy
from extender.simulation_report import simulation_report
from extender.spelling import nearest
from extender.terminal import finish, note, print_json, warn

# Ways to simulate kube-scheduler without an extender.
STOCK_PROFILES: Final[Mapping[str, intree.Profile]] = MappingProxyType(
    {
        "kube-scheduler": intree.STOCK,
        "kube-scheduler-most-allocated": intree.most_allocated_profile(["nvidia.com/gpu"]),
    }
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(extender.__version__, prog_name="gpu-extender")
def cli() -> None:
    """Pack pods onto exclusive GPUs: a scheduler extender for Kubernetes, and the same answers from a dump."""


@cli.command()
@click.option(
    "--cluster", "clusters", multiple=True, metavar="FILE", help="Serve an embedded cluster read from a dump."
)
@click.option("--demo", is_flag=True, help="Serve the synthetic cluster of `gpu-extender demo`, with bind on.")
@click.option("--kubeconfig", metavar="FILE", help="Way to the live cluster (configuration: cluster.kubeconfig).")
@click.option("--context", metavar="NAME", help="Its context (configuration: cluster.context).")
@click.option("--listen", metavar="HOST:PORT", help="Address of the verbs (configuration: server.listen).")
@config_option
def serve(
    clusters: tuple[str, ...],
    demo: bool,  # noqa: FBT001 - a flag
    kubeconfig: str | None,
    context: str | None,
    listen: str | None,
    config_file: Path | None,
) -> None:
    """Answer kube-scheduler over HTTP.

    Without --cluster and --demo a live cluster is followed: the one of --kubeconfig, else of $KUBECONFIG, else the
    one we run in, else of ~/.kube/config.
    """
    # Flask and gunicorn cost the other commands a third of a second.
    from extender import app  # noqa: PLC0415

    if (clusters or demo) and (kubeconfig or context):
        raise InputError("--kubeconfig and --context are for a live cluster, --cluster and --demo for another one")
    if demo and clusters:
        raise InputError("serve takes --cluster FILE or --demo, not both")
    overrides = {"server.listen": listen, "cluster.kubeconfig": kubeconfig, "cluster.context": context}
    config = load(config_file, **overrides, **({"verbs.bind": True} if demo else {}))
    if not clusters and not demo:
        app.serve_live(config)
        return
    dump = demonstration.cluster_dump(GpuRules.of(config.gpus)) if demo else read_cluster(clusters, config)
    warn(dump.warnings)
    app.serve(config, dump)


@cli.command()
@cluster_option
@config_option
@output_option
def gpus(clusters: tuple[str, ...], config_file: Path | None, output: str) -> None:
    """Show every node's GPUs: how many, whose, and what is free."""
    dump = read_cluster(clusters, load(config_file))
    note_without_pods(dump)
    report = reports.gpus_report(Snapshot.of(dump.nodes, dump.pods), dump.warnings)
    finish(report, output, tables.render_gpus)


@cli.command()
@cluster_option
@click.option(
    "--pod",
    "names",
    multiple=True,
    metavar="NS/NAME",
    help="This pod of the dump, waiting or running; may be repeated.",
)
@click.option("--pod-file", metavar="FILE", help="Pods from a file instead of the dump's queue.")
@config_option
@output_option
def fit(
    clusters: tuple[str, ...], names: tuple[str, ...], pod_file: str | None, config_file: Path | None, output: str
) -> None:
    """Tell for each waiting GPU pod which nodes could run it now, later or never, and what would help.

    Nodes that can run it now are listed as the policy (scoring.policy) would choose them, the best first. Of a pod
    that starts only together with others of its group it is told as well whether these fit together.
    """
    files = [*clusters, *([pod_file] if pod_file else [])]
    once(files)
    config = load(config_file)
    dump = read_cluster(clusters, config)
    given = read_given(pod_file, config, dump)
    if pod_file is None:
        note_without_pods(dump)
    pods = _asked_pods(dump.pods, names) if pod_file is None else named_pods(given.pods, names)
    note_with_nodes(pods, given, "judged")
    warnings = (*dump.warnings, *given.warnings)
    snapshot = Snapshot.of(dump.nodes, dump.pods)
    report = reports.fit_report(
        snapshot,
        pods,
        warnings,
        make_policy(config),
        # `defrag` reads the file as what the cluster is: there the pod has its node.
        finding_moves=lambda pod: (
            "" if pod.key in given.nodes else command_about("defrag", pod.key, files, config_file)
        ),
        groups=_groups(snapshot, pods),
    )
    finish(
        report,
        output,
        tables.render_fit,
        ok=all(_starts(row) for row in report["pods"] if not row["gated"]),
    )


def _groups(snapshot: Snapshot, pods: Sequence[PodInfo]) -> Mapping[str, reports.GroupRow]:
    """Return what is known of the pods' groups."""
    if not whatif.members_of(snapshot, pods):
        return {}
    # OR-Tools costs half a second that only the answer about a group needs.
    from extender.group_fit import group_rows  # noqa: PLC0415

    return group_rows(snapshot, pods)


def _starts(row: reports.FitRow) -> bool:
    return bool(row["fits"]) and (row["group"] is None or bool(row["group"]["starts"]))


def _asked_pods(pods: Sequence[PodInfo], names: Sequence[str]) -> Sequence[PodInfo]:
    if names:
        return named_pods(pods, names)
    return sorted((pod for pod in pods if pod.waiting and pod.gpu.asked), key=queue_order)


@cli.command("simulate")
@cluster_option
@click.option("--arrivals", metavar="FILE", help="Pods that arrive one after the other, in the file's order.")
@click.option("--queue", is_flag=True, help="Let the dump's own pending pods arrive (first).")
@scheduler_option
@click.option(
    "--policy",
    help="Policy to score with (configuration: scoring.policy). kube-scheduler alone: `kube-scheduler`, "
    "`kube-scheduler-most-allocated`.",
)
@click.option(
    "--weight",
    type=click.IntRange(1, simulate.MAX_WEIGHT),
    default=simulate.SHIPPED_WEIGHT,
    show_default=True,
    help="Weight of the extender.",
)
@click.option(
    "--percentage",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="percentageOfNodesToScore; 0 is adaptive.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of kube-scheduler's random choice among equal scores.",
)
@config_option
@output_option
def simulate_command(  # noqa: PLR0913, PLR0917 - one argument per option
    clusters: tuple[str, ...],
    arrivals: str | None,
    queue: bool,  # noqa: FBT001 - a flag
    schedulers: tuple[str, ...],
    policy: str | None,
    weight: int,
    percentage: int,
    seed: int,
    config_file: Path | None,
    output: str,
) -> None:
    """Place arriving pods as kube-scheduler would with this extender beside it."""
    profile = STOCK_PROFILES.get(policy or "")
    if policy is not None and policy not in {*STOCK_PROFILES, *REGISTRY}:
        names = ", ".join([*sorted(REGISTRY), *STOCK_PROFILES])
        meant = nearest(policy, [*REGISTRY, *STOCK_PROFILES])
        raise InputError(f"--policy {policy}: {f'there is no such policy{meant}' if meant else f'not one of {names}'}")
    config = load(config_file, **{"scoring.policy": None if profile else policy})
    if arrivals is None and not queue:
        raise InputError("simulate needs --arrivals FILE, or --queue to take the dump's pending pods")
    once([*clusters, *([arrivals] if arrivals else [])])
    dump = read_cluster(clusters, config)
    given = read_given(arrivals, config, dump)
    # Pending pods hold nominations only when they take part.
    arriving = whatif.arriving(given.pods)
    present, twice = superseded((pod for pod in dump.pods if queue or pod.holds), arriving)
    waiting = present if queue else []
    for line in whatif.left_out(waiting, schedulers, given.pods):
        note(line)
    pods = [*whatif.queued(waiting, schedulers), *arriving]
    note_with_nodes(given.pods, given, "placed")
    chosen = None if profile else simulate.PolicyExtender(make_policy(config))
    setup = simulate.SchedulerConfig(profile or intree.STOCK, weight, percentage, seed)
    scheduler = _simulated(Snapshot.of(dump.nodes, present), chosen, setup)
    unknown = whatif.unknown_schedulers(dump.pods, schedulers)
    report = simulation_report(scheduler, pods, [*dump.warnings, *given.warnings, *twice, *unknown])
    finish(report, output, tables.render_simulation, ok=report["summary"]["refused"] == 0)


def _simulated(
    start: Snapshot, extender: simulate.PolicyExtender | None, setup: simulate.SchedulerConfig
) -> simulate.KubeScheduler:
    """Return the scheduler to simulate, with a planner beside it if the policy listens to one."""
    if extender is None or not isinstance(extender.policy, Planned):
        return simulate.KubeScheduler(start, extender, setup)
    # The solver libraries cost a third of a second, which only who needs them shall pay.
    from extender.replanning import Replanning  # noqa: PLC0415

    return Replanning(start, extender, setup, extender.policy)


cli.add_command(plan_command)
cli.add_command(cli_capacity.buy)
cli.add_command(cli_capacity.defrag)


@cli.group()
def config() -> None:
    """Check configurations."""


@config.command("check")
@click.argument("file")
@output_option
def config_check(file: str, output: str) -> None:
    """Judge FILE: our configuration, a scheduler Policy or a KubeSchedulerConfiguration."""
    source, content = read_source(file)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: is not UTF-8 text ({error.reason} at byte {error.start})") from error
    verdict = schedulerconfig.judge(text, source=source, known_policies=REGISTRY)
    if verdict.kind == schedulerconfig.UNKNOWN:
        raise InputError(f"{source}: {verdict.faults[0] if verdict.faults else 'is empty'}")
    if output == "json":
        texts = {"faults": verdict.faults, "consequences": verdict.consequences, "warnings": verdict.warnings}
        print_json({"kind": verdict.kind, **{key: list(sentences) for key, sentences in texts.items()}})
    else:
        terminal.write(printable_lines(schedulerconfig.render_verdict(verdict, terminal.columns())))
    raise SystemExit(0 if verdict.ok else 1)


@cli.command()
@click.option(
    "--pods",
    type=click.IntRange(1, synthetic.MAX_PODS),
    default=demonstration.PODS,
    show_default=True,
    help="Pods that arrive.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=demonstration.SEED,
    show_default=True,
    help="Of cluster, arrivals and ties.",
)
def demo(pods: int, seed: int) -> None:
    """Run the main job on a synthetic cluster: the real service over HTTP, beside kube-scheduler alone."""
    demonstration.run(pods, seed)


@cli.command("synthetic")
@click.option(
    "--pods",
    type=click.IntRange(0, synthetic.MAX_PODS),
    default=0,
    show_default=True,
    help="Pods to generate instead of the cluster.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=demonstration.SEED, show_default=True, help="Of the generator."
)
def synthetic_command(pods: int, seed: int) -> None:
    """Print the demo's cluster (or its arrivals) as `kubectl get -o json` would."""
    items = demonstration.arrival_manifests(pods, seed) if pods else demonstration.cluster_manifests(seed)
    print_json(synthetic.as_list(items))


def main() -> None:
    """Run the command line; trouble becomes one line on standard error and an exit code."""
    terminal.prepare()
    try:
        cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise SystemExit(error.exit_code) from None
    except click.ClickException as error:
        terminal.complain_of_usage(error)
        raise SystemExit(error.exit_code) from None
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except ExtenderError as error:
        terminal.complain(error)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        terminal.complain(": ".join(filter(None, (error.filename, error.strerror or str(error)))))
        terminal.silence()
        raise SystemExit(3) from None
    except Exception as error:  # noqa: BLE001 - a bug of ours
        terminal.complain(_bug(error))
        raise SystemExit(3) from None


def _bug(error: Exception) -> str:
    """Return what a report needs: the exception, and where in the program it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"{extender.__name__}/" in f.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-3:]))
    return (
        f"this is a bug in gpu-extender {extender.__version__}, please report it with the input: "
        f"{type(error).__name__}: {error} ({where})"
    )
