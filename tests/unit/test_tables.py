from __future__ import annotations

import io

from rich.console import Console

from extender.packing.snapshot import Snapshot
from extender.reports import fit_report, gpus_report
from extender.tables import render_fit, render_gpus
from tests.builders import GPU, h100, node, pod


def printed(renderable):
    paper = io.StringIO()
    Console(file=paper, width=200).print(renderable)
    return paper.getvalue()


def test_tables_show_what_matters():
    nodes = [h100("a").build(), h100("off").cordoned().build(), node("u").resource(GPU, 3, withdrawn=1).gpus(3).build()]
    text = printed(render_gpus(gpus_report(Snapshot.of(nodes, [pod("p").gpus(3).on("a").build()]), ["node a: odd"])))
    assert "ml/p=3" in text
    assert "unknown" in text
    assert "off" in text
    assert "warning: node a: odd" in text
    assert "\x1b" not in text  # no colour where no terminal is


def test_a_fit_table_groups_nodes_by_reason():
    nodes = [h100(f"n{number}").taint("k").build() for number in range(6)] + [h100("free").build()]
    text = printed(render_fit(fit_report(Snapshot.of(nodes), [pod("p").gpus(1).build()], ["pod ml/p: odd"])))
    assert "6 x node(s) had untolerated taint {k: }: n0, n1, n2, n3 and 2 more" in text
    assert "fits: 1 of 7 nodes can take it now" in text
    assert "warning: pod ml/p: odd" in text


def test_names_with_brackets_are_no_markup():
    text = printed(render_gpus(gpus_report(Snapshot.of([node("n").gpus(1, "[red]x[/red]").build()]), ["[bold]b"])))
    assert "[red]x[/red]" in text
    assert "[bold]b" in text


def test_no_pod_is_said():
    assert "No pod is waiting for GPUs." in printed(render_fit({"pods": [], "warnings": []}))
