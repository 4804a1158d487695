"""What to buy for the queue, as a report."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from extender.buy_report import buy_report, nodes_for_running
from extender.dump import ClusterDump
from extender.errors import InputError
from extender.packing.disruption import PodDisruption
from extender.tables_capacity import render_buy
from tests.builders import GPU, H100, h100, node, pod

T4 = "Tesla-T4"


def dump(nodes, pods, facts=None):
    return ClusterDump(tuple(nodes), tuple(pods), (), facts or {})


def t4(name, gpus=2):
    return node(name).gpus(gpus, T4).label("nvidia.com/gpu.product", T4)


def bought(report):
    return {row["like"]: row["nodes"] for row in report["buy"]}


def waiting(count, gpus, model=None):
    pods = [pod(f"w{gpus}-{i}").gpus(gpus) for i in range(count)]
    return [(p.select("nvidia.com/gpu.product", model) if model else p).build() for p in pods]


def test_free_room_is_used_before_nodes_are_bought():
    nodes = [h100("a").build(), t4("t").build()]
    pods = [pod("p").gpus(4).on("a").build(), *waiting(3, 4)]
    report = buy_report(dump(nodes, pods))
    assert bought(report) == {"a": 1}  # one in the free half of a, two on a new one
    assert (report["nodes"], report["status"], report["bound"], report["possible"]) == (1, "OPTIMAL", 1, True)
    assert {row["like"]: row["nodes"] for row in report["options"]} == {"a": 1, "t": None}


def test_of_equally_many_nodes_those_with_fewer_gpus_are_bought():
    # One of 8 goes to a and one of 2 to t; three of 8 need nodes of their own, and the last pod any node.
    report = buy_report(dump([h100("a").build(), t4("t").build()], [*waiting(2, 2), *waiting(4, 8)]))
    assert bought(report) == {"a": 3, "t": 1}
    full = [pod("p").gpus(8).on("a").build(), pod("q").gpus(2).on("t").build()]
    assert bought(buy_report(dump([h100("a").build(), t4("t").build()], [*full, *waiting(1, 2)]))) == {"t": 1}


def test_a_model_that_pods_ask_for_is_bought():
    full = [pod("p").gpus(8).on("a").build(), pod("q").gpus(2).on("t").build()]
    report = buy_report(dump([h100("a").build(), t4("t").build()], [*full, *waiting(3, 2, T4)]))
    assert bought(report) == {"t": 3}


def test_daemon_pods_take_their_part_of_a_new_node():
    nodes = [h100("a").build()]
    pods = [pod("d").cpu(8).on("a").build(), pod("p").gpus(8).on("a").build(), pod("w").gpus(1).cpu(90).build()]
    assert bought(buy_report(dump(nodes, pods))) == {"a": 1}
    report = buy_report(dump(nodes, pods, {"ml/d": PodDisruption("DaemonSet")}))
    assert not report["possible"]
    assert report["unplaced"][0]["pod"] == "ml/w"
    words = "no node type takes it: 1 x Insufficient cpu; of the nodes that are there, busy: 1 of 1 nodes could take it"
    assert report["unplaced"][0]["reason"].startswith(words)


def test_a_broken_gpu_of_one_node_does_not_break_the_type():
    broken = node("a").resource(GPU, 7, withdrawn=1).gpus(7, "X").resource(GPU, 7, withdrawn=1).build()
    nodes = [broken, node("b").gpus(8, "X").build()]
    report = buy_report(dump(nodes, [pod("p").gpus(8).on("b").build(), *waiting(1, 8)]))
    assert bought(report) == {"a": 1}
    assert report["buy"][0]["gpus"] == 8


def test_types_are_chosen_by_a_node_or_given():
    nodes = [h100("a").build(), t4("t").build()]
    pods = [pod("p").gpus(8).on("a").build(), pod("q").gpus(2).on("t").build(), *waiting(4, 1)]
    assert bought(buy_report(dump(nodes, pods), like=["t"])) == {"t": 2}
    assert bought(buy_report(dump(nodes, pods), offered=[node("x").gpus(16).build()])) == {"x": 1}
    assert bought(buy_report(dump(nodes, pods), like=["2 x Tesla-T4, 96 CPUs, 1000 GiB"])) == {"t": 2}
    with pytest.raises(InputError, match="--like nobody"):
        buy_report(dump(nodes, pods), like=["nobody"])
    with pytest.raises(
        InputError, match=r"--like node-01: the input has no such GPU node or type; did you mean node-1\?"
    ):
        buy_report(dump([h100("node-1").build()], []), like=["node-01"])


def test_a_type_that_the_pod_may_not_use_is_the_reason():
    nodes = [h100("a").build(), t4("t").build()]
    pods = [pod("p").gpus(8).on("a").build(), pod("q").gpus(2).on("t").build(), *waiting(1, 2, T4)]
    (row,) = buy_report(dump(nodes, pods), like=["a"])["unplaced"]
    words = "no node type takes it: 1 x node(s) didn't match Pod's node affinity/selector (one like t would); of the"
    assert row["reason"].startswith(f"{words} nodes that are there, busy: 1 of 2 nodes could take it if pods left")


def test_only_warnings_about_gpus_are_kept():
    nodes = [h100("a").build(), node("cpu").build()]
    pods = [*waiting(1, 1), pod("web").on("cpu").build(), pod("job").on("a").build(), pod("small").build()]
    ours = ["node a: odd", "pod ml/w1-0: odd", "pod ml/job: odd", "f.json: ignored 1 items of other kinds: Service 1"]
    others = ["node cpu: odd", "pod ml/web: odd", "pod ml/small: odd", "poddisruptionbudget ml/x: odd"]
    report = buy_report(replace(dump(nodes, pods), warnings=(*others, *ours)))
    assert report["warnings"] == [
        *ours,
        "4 warnings about other nodes and pods; `gpu-extender gpus` shows all",
    ]


def test_an_empty_queue_buys_nothing_and_gated_pods_are_said():
    report = buy_report(dump([h100("a").build()], [pod("g").gpus(8).gated().build()]))
    assert (report["possible"], report["nodes"]) == (True, 0)
    assert report["warnings"] == ["1 GPU pods have scheduling gates and are left out"]
    assert buy_report(dump([], waiting(1, 1)))["possible"] is False


def crowd(extra):
    """Half of each H100 node is free and each T4 node empty; pods that may go anywhere just fill the T4 nodes.

    The others, which fill what is free of the H100 nodes, fit nowhere else, and so do `extra` pods of 8 GPUs. As many
    sorts of pods as here make too many patterns.
    """
    nodes = [h100(f"a{i:02}").build() for i in range(24)] + [t4(f"t{i:02}", 4).build() for i in range(24)]
    half = [pod(f"r{i}").gpus(4).on(f"a{i:02}").build() for i in range(24)]
    sizes = [4] * 12 + [2] * 12 + [1] * 24
    anywhere = [pod(f"any{i}").gpus(gpus).cpu(12 + i % 10).build() for i, gpus in enumerate(sizes)]
    here = [pod(f"h{i}").gpus(gpus).cpu(1 + i % 9) for i, gpus in enumerate(sizes)]
    here += [pod(f"x{i}").gpus(8) for i in range(extra)]
    return dump(nodes, [*half, *anywhere, *(p.select("nvidia.com/gpu.product", H100).build() for p in here)])


@pytest.mark.parametrize("extra", [0, 3])
def test_pods_that_may_go_elsewhere_make_room(extra):
    report = buy_report(crowd(extra))
    assert (report["nodes"], report["status"], report["bound"]) == (extra, "OPTIMAL", extra)
    assert report["possible"]
    options = [(row["like"], row["nodes"], row["status"]) for row in report["options"]]
    assert options == [("a00", extra, "OPTIMAL"), ("t00", None if extra else 0, "OPTIMAL")]


def test_not_enough_is_said_of_a_type_where_it_is_proved():
    report = buy_report(dump([h100("a").build(), t4("t").build()], [*waiting(1, 8), *waiting(1, 4)]))
    option = {row["like"]: row for row in report["options"]}
    assert (option["t"]["nodes"], option["t"]["status"]) == (None, "OPTIMAL")
    assert "\nnot enough " in printed(report)
    option["t"]["status"] = "UNKNOWN"
    option["a"]["status"] = "FEASIBLE"
    text = printed(report)
    assert "\nnone found " in text
    assert "\n1 or fewer " in text


def test_members_without_gpus_make_a_group_complete_and_need_room_too():
    launcher, workers = pod("launch").group("g", 4), [pod(f"w{i}").gpus(4).group("g", 4).build() for i in range(3)]
    nodes = [h100("a").build(), h100("b").build()]
    free = [pod("p").gpus(4).on("a").build()]
    report = buy_report(dump(nodes, [*free, launcher.build(), *workers]))
    assert (report["possible"], report["nodes"]) == (True, 0)
    full = [pod(f"p{name}").gpus(8).on(name).build() for name in "ab"]
    report = buy_report(dump(nodes, [*full, launcher.build(), *workers]))
    assert (report["possible"], report["nodes"], report["status"]) == (True, 2, "OPTIMAL")
    # Nothing is bought for a group that cannot start whatever is bought.
    report = buy_report(dump(nodes, [*full, launcher.cpu(97).build(), *workers, pod("alone").gpus(8).build()]))
    assert (report["possible"], report["nodes"]) == (False, 1)
    reasons = {row["pod"]: row["reason"] for row in report["unplaced"]}
    assert reasons.pop("ml/launch").startswith("no node type takes it: 1 x Insufficient cpu")
    words = "group ml/g starts as a whole or not at all, and others find no place"
    assert reasons == {f"ml/w{i}": words for i in range(3)}
    # Unless it starts without the one that finds no place.
    some = [pod(f"w{i}").gpus(4).group("g", 3).build() for i in range(3)]
    report = buy_report(dump(nodes, [*full, pod("launch").cpu(97).group("g", 3).build(), *some]))
    assert ([row["pod"] for row in report["unplaced"]], report["nodes"]) == (["ml/launch"], 2)
    # A pod without GPUs that starts by itself is none of this.
    assert buy_report(dump(nodes, [*full, pod("web").cpu(97).build()]))["possible"]


def test_a_group_that_lacks_members_is_told_as_plan_tells_it():
    workers = [pod(f"w{i}").gpus(4).group("g", 4).build() for i in range(3)]
    report = buy_report(dump([h100("a").build()], workers))
    assert report["nodes"] == 0
    words = "group ml/g starts as a whole or not at all: of 4 members 3 wait; it waits for 1 more pod"
    assert report["unplaced"] == [{"pod": f"ml/w{i}", "reason": words} for i in range(3)]


def test_what_runs_packed_anew():
    nodes = [h100(f"n{i}").build() for i in range(4)]
    pods = [pod(f"p{i}").gpus(4).on(f"n{i}").build() for i in range(4)]
    assert nodes_for_running(dump(nodes, pods)) == {"nodes": 2, "in_use": 4, "status": "OPTIMAL", "bound": 2}


def test_what_to_buy_is_lines_where_the_terminal_is_narrow():
    report = buy_report(dump([h100("a").build()], waiting(2, 8)))
    text = {width: printed(report, width) for width in (60, 120)}
    assert text[60].startswith("buy 1  8 x NVIDIA-H100-80GB-HBM3, 96 CPUs, 1000 GiB, like a\n")
    assert text[120].startswith("BUY  TYPE")


def test_no_node_to_buy_is_told_from_none_that_helps():
    assert printed(buy_report(dump([h100("a").build()], []))).startswith("No node has to be bought.")
    huge = buy_report(dump([h100("a").build()], waiting(1, 16)))
    assert printed(huge).startswith(
        "No node that could be bought helps.\nml/w16-0 stays out: no node type takes it: 1 x"
    )


def test_types_of_one_name_are_told_apart():
    label = "node.kubernetes.io/instance-type"
    nodes = [h100("a").label(label, "k3s").build(), t4("t").label(label, "k3s").build()]
    full = [pod("p").gpus(8).on("a").build(), pod("q").gpus(2).on("t").build()]
    text = printed(buy_report(dump(nodes, [*full, *waiting(1, 2)])))
    rows = [line.split() for line in text.partition("OF ONE TYPE ALONE")[2].splitlines()[1:3]]
    assert rows == [["1", "k3s", "NVIDIA-H100-80GB-HBM3", "8", "a"], ["1", "k3s", T4, "2", "t"]]


def test_a_cordoned_node_that_would_do_is_said_before_one_is_bought():
    nodes = [h100("a").build(), h100("idle").cordoned().build()]
    report = buy_report(dump(nodes, [pod("p").gpus(5).on("a").build(), *waiting(2, 8), *waiting(1, 3)]))
    assert report["warnings"] == ["before you buy: uncordoning idle would let ml/w8-0 or ml/w8-1 in now"]


def test_who_stays_out_can_be_asked_about():
    text = printed(buy_report(dump([h100("a").build()], waiting(1, 16))), why="gpu-extender fit --pod ml/w16-0")
    assert "\nWhy, node by node, and what would help:\n  gpu-extender fit --pod ml/w16-0\n" in text


def printed(report, width=200, why=""):
    paper = io.StringIO()
    Console(file=paper, width=width).print(render_buy(report, why))
    return paper.getvalue()
