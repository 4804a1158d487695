"""The command `plan`. The solver is imported when it runs: it costs a second that no other command should pay."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from extender import plan_report, tables, whatif
from extender.clitools import (
    cluster_option,
    command_about,
    config_option,
    load,
    note_without_pods,
    output_option,
    read_cluster,
    scheduler_option,
)
from extender.packing.equal_plans import settled
from extender.packing.plan import Why
from extender.packing.snapshot import Snapshot
from extender.terminal import finish, note

LIMIT_SECONDS: Final = 10.0


@click.command("plan")
@cluster_option
@scheduler_option
@click.option(
    "--limit",
    type=click.FloatRange(min=0.0, min_open=True),
    default=LIMIT_SECONDS,
    show_default=True,
    help="Time for the solver, in its deterministic seconds (about as long as real ones).",
)
@config_option
@output_option
def plan_command(
    clusters: tuple[str, ...], schedulers: tuple[str, ...], limit: float, config_file: Path | None, output: str
) -> None:
    """Place the dump's whole queue at once, and prove how much of it can be placed.

    By priority, the highest first: as many GPUs as possible, then as few unused nodes opened as possible; what pods
    prefer comes last. Groups of pods (coscheduling, Kueue, Volcano, JobSet, KubeRay, Kubeflow) start as a whole or not
    at all.

    A group is whole with the minMember of its PodGroup when that is in the dump (`kubectl get podgroups -A`): those of
    its pods that run count, fewer are not placed, more follow if there is room. Without a PodGroup all its pods are.
    """
    from extender.packing import planner  # noqa: PLC0415

    dump = read_cluster(clusters, load(config_file))
    note_without_pods(dump)
    for kind in whatif.left_out(dump.pods, schedulers):
        note(kind)
    queue = plan_report.Queue.of(Snapshot.of(dump.nodes, dump.pods), whatif.queued(dump.pods, schedulers))
    found = planner.plan(queue.problem, planner.Limits(deterministic_seconds=limit))
    plan = settled(queue.snapshot, queue.pods, queue.problem, found)
    report = plan_report.plan_report(queue, plan, [*dump.warnings, *whatif.unknown_schedulers(dump.pods, schedulers)])
    if (line := plan_report.order_matters(queue, plan)) is not None:
        note(line)
    if (line := plan_report.preferences_unmet(queue, plan)) is not None:
        note(line)
    lost = next((pod.key for pod in queue.pods if plan.placements[pod.uid].why is Why.NOWHERE), "")
    why = command_about("fit", lost, clusters, config_file) if lost else ""
    finish(report, output, lambda page: tables.render_plan(page, plan, why), ok=not report["unplaced"])
