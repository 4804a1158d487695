from __future__ import annotations

import io

import pytest
from rich.console import Console

from extender.packing.snapshot import Snapshot
from extender.reports import fit_report, gpus_report
from extender.simulate import KubeScheduler
from extender.simulation_report import simulation_report
from extender.tables import render_fit, render_gpus, render_simulation
from extender.terminal import plain
from tests.builders import GPU, H100, h100, node, pod


def printed(renderable, width=200):
    paper = io.StringIO()
    Console(file=paper, width=width).print(renderable, crop=False)
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


def test_names_are_never_markup_nor_escape_sequences_on_paper():
    nodes = [node("[/x]").gpus(8, "[red]m").build(), node("e\x1b[31m").gpus(8, "m").build()]
    pods = [pod("[/y]").gpus(1).build(), pod("n\nerror: forged").gpus(99).build()]
    snapshot = Snapshot.of(nodes)
    simulation = simulation_report(KubeScheduler(snapshot), pods, ["[bold]w"])
    for page in (
        render_simulation(plain(simulation)),
        render_fit(plain(fit_report(snapshot, pods))),
        render_gpus(plain(gpus_report(snapshot))),
    ):
        text = printed(page)
        assert r"e\x1b[31m" in text
        assert "[/" in text or "[red]m" in text
        assert "\x1b" not in text
        assert "\nerror: forged" not in text


def test_a_flood_of_warnings_is_a_few_lines_and_says_where_all_are():
    text = printed(render_fit({"pods": [], "warnings": [f"pod ml/p{n}: spec: 'x{n}' is odd" for n in range(10_000)]}))
    assert text.count("warning: ") == 5
    assert "(and 9,995 more like this)" in text
    assert "-o json lists all 10,000 warnings" in text


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_terminal_gets_lines_and_no_broken_word(width):
    broken = node("u").gpus(3, H100).resource(GPU, 3, withdrawn=1).build()
    nodes = [h100("a").build(), h100("off").cordoned().build(), broken]
    pods = [pod(f"training-run-{number}").gpus(1).on("a").build() for number in range(5)]
    text = printed(render_gpus(gpus_report(Snapshot.of(nodes, pods))), width)
    assert max(map(len, text.splitlines())) <= width
    assert "  3 nodes, capacity 20: 5 used, 6 free, 8 off, 1 withdrawn; " in text
    assert "  pods of 1/2/4/8: 6/2/0/0" in text
    assert f"a  {H100}  5 of 8 used, 3 free" in text
    assert f"{H100}  0 of 8 used, 8 free, off (cordoned)" in text
    for name in ("ml/training-run-0=1,", "ml/training-run-3=1", H100):
        assert name in text.split()


def test_a_wide_terminal_gets_the_tables():
    text = printed(render_gpus(gpus_report(Snapshot.of([h100("a").build()]))), 100)
    assert text.startswith("model")
    assert "pods of 1/2/4/8" in text


@pytest.mark.parametrize("width", range(76, 140, 4))
def test_no_width_breaks_the_name_of_a_model(width):
    nodes = [h100(f"gpu-{number}").build() for number in range(2)]
    pods = [pod(f"a-pod-with-a-name-{number}").gpus(1).on("gpu-0").build() for number in range(4)]
    text = printed(render_gpus(gpus_report(Snapshot.of(nodes, pods))), width)
    assert text.count(H100) == 3


def test_without_gpus_there_is_no_table():
    assert printed(render_gpus(gpus_report(Snapshot.of([node("plain").build()])))) == "No node has GPUs.\n"


def test_what_is_left_free_is_of_use_to_pods_that_exist():
    waiting = [pod("p").gpus(4).cpu(16).build()]
    start = Snapshot.of([h100("n").build()], [pod("hog").cpu(94).on("n").build(), *waiting])
    report = simulation_report(KubeScheduler(start), waiting, ())
    assert (report["summary"]["stranded_gpus"]["16"], report["summary"]["largest_node"]) == (8, 8)
    text = printed(render_simulation(report))
    assert "8 whole GPUs left free; of these are in pieces too small: none.\n" in text
    assert "8 of the free ones lack the CPU or memory that pods here typically ask for per GPU.\n" in text


@pytest.mark.parametrize("width", [80, 60, 40])
def test_broken_lines_of_fit_go_on_below_their_text(width):
    nodes = [h100(f"node-{number}", 4).build() for number in range(9)]
    running = [pod(f"p{number}").gpus(1).on(f"node-{number}").build() for number in range(9)]
    asked = pod("waiting").gpus(4).cpu(2000).build(), pod("big").gpus(4).build()
    command = "gpu-extender defrag --cluster a-file-with-a-long-name.json --pod ml/big"
    text = printed(render_fit(fit_report(Snapshot.of(nodes, running), asked, finding_moves=lambda _: command)), width)
    assert f"    {command}\n" in text  # never broken: it is copied
    lines = text.replace(f"    {command}\n", "").splitlines()
    assert all(line.startswith("  ") for line in lines if line and not line.startswith(("ml/", "warning")))
    long = next(number for number, line in enumerate(lines) if line.startswith("    busy   "))
    assert lines[long + 1].startswith(" " * 11)
