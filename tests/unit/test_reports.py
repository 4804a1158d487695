from __future__ import annotations

import json
from dataclasses import replace

import pytest

from extender.packing.gpu import GpuRequest
from extender.packing.policies.best_fit import BestFit
from extender.packing.snapshot import Snapshot
from extender.reports import fit_report, gpus_report, requests_by_unit
from tests.builders import GPU, H100, h100, node, pod, term

MIG = "nvidia.com/mig-1g.10gb"


def fit(pods, nodes, asked):
    return fit_report(Snapshot.of(nodes, pods), [asked])["pods"][0]


# ---------------------------------------------------------------- gpus


def test_a_row_in_full():
    one = h100("n").resource(GPU, 7, withdrawn=1).build()
    held = [pod("b").gpus(2).on("n"), pod("a").gpus(1).on("n").terminating(), pod("c").cpu(1).on("n")]
    report = gpus_report(Snapshot.of([one], [p.build() for p in held]), ["node n: odd"])
    assert report["nodes"] == [
        {
            "node": "n",
            "resource": GPU,
            "model": H100,
            "exclusive": True,
            "schedulable": True,
            "closed": None,
            "capacity": 8,
            "allocatable": 7,
            "used": 3,
            "free": 4,
            "withdrawn": 1,
            "overcommitted": 0,
            "releasing": 1,
            "pods": [{"pod": "ml/a", "gpus": 1}, {"pod": "ml/b", "gpus": 2}],
        }
    ]
    assert report["warnings"] == ["node n: odd"]
    json.dumps(report)


def test_capacity_is_never_less_than_what_can_be_allocated():
    one = replace(h100("n").build(), capacity={})
    report = gpus_report(Snapshot.of([one]))
    assert [(row["capacity"], row["allocatable"], row["withdrawn"]) for row in report["nodes"]] == [(8, 8, 0)]
    assert report["summary"][0]["capacity"] == 8


def test_rows_stand_in_order_of_node_and_resource_zeros_too():
    nodes = [h100("b").build(), h100("a", 0).gpus(7, None, resource=MIG, whole=False).build(), node("cpu").build()]
    rows = gpus_report(Snapshot.of(nodes))["nodes"]
    assert [(row["node"], row["resource"], row["capacity"]) for row in rows] == [
        ("a", GPU, 0),
        ("a", MIG, 7),
        ("b", GPU, 8),
    ]


@pytest.mark.parametrize(
    ("allocatable", "used", "free", "overcommitted"), [(8, 0, 8, 0), (8, 8, 0, 0), (3, 4, 0, 1), (0, 8, 0, 8)]
)
def test_free_is_never_below_zero_and_overcommit_is_counted(allocatable, used, free, overcommitted):
    one = h100("n").resource(GPU, allocatable, withdrawn=8 - allocatable).build()
    held = [pod("p").gpus(used).on("n").build()] if used else []
    (row,) = gpus_report(Snapshot.of([one], held))["nodes"]
    assert (row["free"], row["overcommitted"]) == (free, overcommitted)
    assert row["capacity"] == row["used"] + row["free"] + row["withdrawn"] - row["overcommitted"]


@pytest.mark.parametrize("closed", [h100("n").cordoned(), h100("n").unready()])
def test_what_is_free_on_a_closed_node_cannot_be_had(closed):
    report = gpus_report(Snapshot.of([closed.build()]))
    assert not report["nodes"][0]["schedulable"]
    (model,) = report["summary"]
    assert (model["free"], model["unschedulable"], model["largest_free"]) == (0, 8, 0)


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (h100("a"), None),
        (h100("a").cordoned(), "cordoned"),
        (h100("a").unready(), "not ready"),
        (h100("a").unready().cordoned(), "cordoned, not ready"),
    ],
)
def test_why_a_node_takes_no_pods_is_said(built, why):
    (row,) = gpus_report(Snapshot.of([built.build()]))["nodes"]
    assert (row["closed"], row["schedulable"]) == (why, why is None)


def test_the_summary_is_by_resource_and_model():
    nodes = [
        h100("a"),
        h100("b"),
        h100("c", 0),
        node("d").gpus(4),
        node("e").gpus(8, "X", exclusive=False, whole=False),
    ]
    held = [pod("p").gpus(3).on("a"), pod("q").gpus(1).on("b")]
    summary = gpus_report(Snapshot.of([n.build() for n in nodes], [p.build() for p in held]))["summary"]
    assert [(row["model"], row["exclusive"], row["nodes"], row["free"]) for row in summary] == [
        (None, True, 1, 4),
        (H100, True, 2, 12),
        ("X", False, 1, 8),
    ]
    # 5 and 7 are free: 5//2 + 7//2 = 2 + 3, 5//4 + 7//4 = 1 + 1
    assert summary[1]["startable"] == {"1": 12, "2": 5, "4": 2, "8": 0}
    assert summary[1]["largest_free"] == 7


def test_a_cluster_without_gpus_has_no_rows():
    assert gpus_report(Snapshot.of([node("n").build()])) == {"nodes": [], "summary": [], "warnings": []}


# ---------------------------------------------------------------- fit


def test_every_node_is_in_one_of_three():
    nodes = [h100("free").build(), h100("full").build(), node("cpu").build(), h100("off").cordoned().build()]
    row = fit([pod("r").gpus(8).on("full").build()], nodes, pod("p").gpus(4).cpu(2).memory(1).build())
    assert row == {
        "pod": "ml/p",
        "requests": {"cpu_milli": 2000, "memory_bytes": 2**30, GPU: 4},
        "gated": False,
        "fits": ["free"],
        "busy": {"full": f"Insufficient {GPU}"},
        "never": {"cpu": f"Insufficient {GPU}", "off": "node(s) were unschedulable"},
        "verdict": "fits: 1 of 4 nodes can take it now",
        "remedy": None,
        "group": None,
    }


def test_a_running_pod_is_judged_as_if_it_were_not_there():
    running = pod("p").gpus(8).on("n").build()
    assert fit([running], [h100("n").build()], running)["fits"] == ["n"]


def test_a_pod_that_comes_anew_is_judged_as_if_the_one_that_runs_were_not_there():
    runs = pod("p").gpus(8).on("n").build()
    anew = replace(pod("p").gpus(8).build(), uid="another")
    assert fit([runs], [h100("n").build()], anew)["fits"] == ["n"]


def test_a_pod_does_not_wait_for_its_own_nomination():
    waiting = pod("p").gpus(8).nominated("n").build()
    assert fit([waiting], [h100("n").build()], waiting)["fits"] == ["n"]


def test_a_gated_pod_is_shown_as_gated():
    row = fit([], [h100("n").build()], pod("p").gpus(1).gated().build())
    assert row["gated"]
    assert row["fits"] == ["n"]
    assert row["verdict"] == "gated: waits outside the queue; 1 of 1 nodes could take it"
    assert "gates" in (row["remedy"] or "")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (pod("p").gpus(8), f"b comes closest, it lacks 1 {GPU}"),
        (pod("p").gpus(7).cpu(95), "b comes closest, it lacks 1.5 cpu"),  # 95 - 93.5 free
        (pod("p").gpus(2).memory(1000), "b comes closest, it lacks 2 GiB memory"),
    ],
)
def test_a_busy_pod_is_told_what_is_missing_where(asked, words):
    held = [pod("x").gpus(3).on("a").build(), pod("y").gpus(1).cpu(2.5).memory(2).on("b").build()]
    nodes = [h100("a").resource("memory", 500 * 2**30).build(), h100("b").build()]
    row = fit(held, nodes, asked.build())
    assert row["verdict"].startswith("busy: ")
    assert words in (row["remedy"] or "")


def test_room_that_is_held_for_a_nominated_pod_is_said_to_be():
    first = pod("first").gpus(8).nominated("n").priority(10).build()
    row = fit([first], [h100("n").build()], pod("p").gpus(8).build())
    assert row["busy"] == {"n": f"Insufficient {GPU}"}
    assert row["remedy"] == "wait: what is free on n is held for pods that were nominated to it"


def test_a_node_that_is_not_labelled_yet_is_waited_for():
    row = fit([], [node("n").gpus(8).build()], pod("p").gpus(1).types("H100").build())
    assert row["busy"] == {"n": "GPU model of the node is not known yet"}
    assert row["remedy"] == "wait until the nodes' GPU labels are there"


def test_a_pod_that_is_too_large_does_not_wait_for_labels():
    nodes = [node("new").gpus(8).build(), h100("old", 4, memory_mib=81_559).build()]
    row = fit([], nodes, pod("p").gpus(16).wish(min_memory_mib=40_000).build())
    assert row["verdict"] == "never: none of 2 nodes can take it, whatever leaves"
    assert row["remedy"] == (
        f"the largest node it may use has 8 {GPU} (new), a request for 16 {GPU} can never fit: "
        "split it into pods of at most 8"
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            pod("p").gpus(9),
            f"the largest node it may use has 8 {GPU} (a), a request for 9 {GPU} can never fit: split it into",
        ),
        (pod("p").gpus(1).cpu(200), "has 96 cpu (a), a request for 200 cpu can never fit: ask for less"),
        (pod("p").gpus(1, "amd.com/gpu"), "no node has any amd.com/gpu to allocate"),
        (
            pod("p").gpus(1).select("nvidia.com/gpu.product", "T4"),
            'nvidia.com/gpu.product: no node has the value "T4", nodes have ' + H100,
        ),
        (pod("p").gpus(1).select("zone", "x"), 'zone: no node has the value "x", nodes have no such label'),
        (
            pod("p").gpus(1).select("nvidia.com/gpu.product", "NVIDIA H100 80GB HBM3"),
            "is not a valid label value; nearest",
        ),
        (pod("p").gpus(1).types("T4"), f"1 x GPU model {H100} is not one of T4: widen its GPU annotations"),
        (pod("p").gpus(1).require(term("zone", "Exists")), "change its node selector or affinity"),
    ],
)
def test_a_pod_that_can_never_start_is_told_why(asked, words):
    row = fit([], [h100("a").build(), node("cpu").build()], asked.build())
    assert row["fits"] == []
    assert row["busy"] == {}
    assert row["verdict"] == "never: none of 2 nodes can take it, whatever leaves"
    assert words in (row["remedy"] or "")


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        (
            h100("n").cordoned().taint("k", "v"),
            "unschedulable: uncordon one and add the toleration, or remove the taint",
        ),
        (h100("n").taint("k", "v"), "untolerated taint {k: v}: add the toleration, or remove the taint"),
    ],
)
def test_what_keeps_a_pod_off_the_nodes_that_are_large_enough(closed, words):
    remedy = fit([], [closed.build(), node("cpu").build()], pod("p").gpus(8).build())["remedy"] or ""
    assert remedy.startswith("of the 1 nodes that are large enough: 1 x node(s)")
    assert words in remedy


@pytest.mark.parametrize(
    ("asked", "cure", "not_said"),
    [
        # Uncordoning h would not make it an H1000; of a pod that may use any, it would.
        (pod("p").gpus(8).types("H1000"), "widen its GPU annotations; no node has GPUs of model H1000", "uncordon"),
        (pod("p").gpus(8).types("H100"), "uncordon h, which would take it now", "widen its GPU annotations"),
        (
            pod("p").gpus(8).types("H100").select("zone", "x"),
            ": uncordon one and change its node selector",
            " or widen",
        ),
        (
            pod("p").gpus(8).types("B200").select("zone", "x"),
            "label the nodes and widen its GPU annotations",
            "uncordon",
        ),
    ],
)
def test_only_what_helps_is_named_as_a_cure(asked, cure, not_said):
    nodes = [h100("h").cordoned().build(), node("a").gpus(8, "NVIDIA-A100-SXM4-80GB").build()]
    remedy = fit([], nodes, asked.build())["remedy"] or ""
    assert cure in remedy
    assert not_said not in remedy


def test_tolerating_a_taint_does_not_uncordon():
    nodes = [h100("a").cordoned().taint("k").build(), h100("b", 4).taint("k").build()]
    remedy = fit([], nodes, pod("p").gpus(8).build())["remedy"] or ""
    assert remedy.endswith("node(s) were unschedulable: uncordon one and add the toleration, or remove the taint")


def test_a_cordoned_node_that_would_take_the_pod_now_is_the_first_cure():
    held = [pod("x").gpus(5).on("a").build(), pod("y").gpus(1).on("full").build()]
    shut = [h100(name).cordoned().build() for name in ("full", "idle", "next")]
    row = fit(held, [h100("a").build(), *shut], pod("p").gpus(8).build())
    assert row["verdict"].startswith("busy: 1 of 4 nodes")
    assert (row["remedy"] or "").startswith("uncordon idle or next, which would take it now; or wait for")
    assert fit([], shut, pod("p").gpus(8).build())["remedy"] == (
        "uncordon full, idle or another, which would take it now"
    )
    assert "uncordon" not in (fit(held, [h100("a").build(), shut[0]], pod("p").gpus(8).build())["remedy"] or "")


def test_preemption_is_named_where_it_could_let_the_pod_in():
    held = [pod("low").gpus(5).on("a").build(), pod("high").gpus(5).priority(2000).on("b").build()]
    nodes = [h100("a").build(), h100("b").build()]
    asked = pod("p").gpus(8).priority(1000)
    words = "let kube-scheduler preempt: it may evict pods of lower priority on a; or wait for pods to leave"
    assert (fit(held, nodes, asked.build())["remedy"] or "").startswith(words)
    assert "preempt" not in (fit(held, nodes, pod("p").gpus(8).build())["remedy"] or "")
    assert "preempt" not in (fit(held, nodes, replace(asked.build(), may_preempt=False))["remedy"] or "")


def test_nodes_kept_off_by_one_taint_are_counted_together():
    nodes = [h100("a").taint("k").build(), h100("b").taint("k").taint("more").build()]
    remedy = fit([], nodes, pod("p").gpus(8).build())["remedy"] or ""
    assert remedy == (
        "of the 2 nodes that are large enough: 2 x node(s) had untolerated taint {k: }: add the toleration, "
        "or remove the taint"
    )


def test_a_pod_whose_gpus_cannot_be_read_fits_nowhere_and_is_told_the_field():
    unread = f"spec.containers[0].resources.limits[{GPU}]: 'eight' is not a quantity"
    asked = replace(pod("p").build(), gpu=GpuRequest(unread=unread))
    (row,) = fit_report(Snapshot.of([h100("a").build()]), [asked])["pods"]
    assert (row["fits"], row["never"], row["verdict"]) == ([], {"a": unread}, f"never: {unread}")
    assert row["remedy"] == "write a whole number there, such as 8; the API server takes no other"


def test_a_misspelt_model_is_said():
    remedy = fit([], [h100("n").build()], pod("p").gpus(1).types("H1000").build())["remedy"] or ""
    assert remedy.endswith(f"no node has GPUs of model H1000, nodes have {H100}; did you mean H100?")


def test_the_command_that_finds_moves_is_named_where_moves_can_help():
    nodes = [h100("a").build(), h100("b").build()]
    snapshot = Snapshot.of(nodes, [pod("x").gpus(2).on("a").build(), pod("y").gpus(3).on("b").build()])
    asked = [pod("whole").gpus(8).build(), pod("z").gpus(8).on("a").build()]
    report = fit_report(snapshot, asked, finding_moves=lambda p: f"move for {p.name}")
    remedies = [row["remedy"] or "" for row in report["pods"]]
    assert remedies[0].endswith(f"a comes closest, it lacks 2 {GPU}; which to move: move for whole")
    assert "move for" not in remedies[1]  # it runs: `defrag` is for pods that wait


def test_moves_are_not_advised_where_all_nodes_together_have_too_little():
    nodes = [h100("a").build(), h100("b").build()]
    snapshot = Snapshot.of(nodes, [pod("x").gpus(5).on("a").build(), pod("y").gpus(6).on("b").build()])
    report = fit_report(snapshot, [pod("p").gpus(8).build()], finding_moves=lambda _: "move")
    words = f"wait for pods to leave: a comes closest, it lacks 5 {GPU}; moving pods would not do: all nodes together"
    assert report["pods"][0]["remedy"] == f"{words} have 5 {GPU} free"
    overcommitted = Snapshot.of([h100("a").build()], [pod("x").gpus(12).on("a").build()])
    (row,) = fit_report(overcommitted, [pod("p").gpus(8).build()])["pods"]
    assert (row["remedy"] or "").endswith(f"all nodes together have 0 {GPU} free")


def test_a_node_that_lost_devices_is_named():
    one = h100("n").resource(GPU, 7, withdrawn=1).build()
    remedy = fit([], [one], pod("p").gpus(8).build())["remedy"] or ""
    assert remedy.endswith("split it into pods of at most 7, or repair n, where 1 of 8 are withdrawn")


def test_enough_of_each_but_not_on_one_node():
    nodes = [h100("a", 4).build(), node("b").gpus(8).resource("cpu", 4000).build()]
    row = fit([], nodes, pod("p").gpus(8).cpu(8).build())
    assert row["remedy"] is not None
    assert row["never"] == {"a": f"Insufficient {GPU}", "b": "Insufficient cpu"}


def test_what_is_not_modelled_is_a_warning_of_the_pod_asked_about():
    asked = replace(pod("p").gpus(1).build(), unmodelled=("volumes", "host ports"))
    report = fit_report(Snapshot.of([h100("n").build()]), [asked], ["node n: odd"])
    assert report["warnings"] == [
        "node n: odd",
        'pod ml/p: kube-scheduler looks at its volumes, host ports, too; "fits" leaves them out',
    ]


def test_one_node_is_the_only_one():
    row = fit([], [h100("n").build()], pod("p").gpus(9).build())
    assert row["verdict"] == "never: the only node cannot take it, whatever leaves"


def test_a_cluster_without_nodes_has_an_answer():
    row = fit([], [], pod("p").gpus(1).build())
    assert row["verdict"] == "never: none of 0 nodes can take it, whatever leaves"
    assert row["remedy"] == "the input has no nodes; `kubectl get nodes,pods -A -o json` prints nodes and pods"


def test_requests_name_their_units():
    assert requests_by_unit({"memory": 5, "ephemeral-storage": 7, GPU: 1}) == {
        "cpu_milli": 0,
        "memory_bytes": 5,
        "ephemeral-storage": 7,
        GPU: 1,
    }


def test_nodes_that_fit_are_listed_as_the_policy_would_choose_them():
    nodes = [h100(name).build() for name in ("a", "b", "c")]
    running = [pod("x").gpus(6).on("c").build(), pod("y").gpus(2).on("b").build()]
    asked = pod("p").gpus(1).build()
    # Free: a 8, b 6, c 2. The tightest is c.
    report = fit_report(Snapshot.of(nodes, running), [asked], policy=BestFit())
    assert report["pods"][0]["fits"] == ["c", "b", "a"]
    assert fit_report(Snapshot.of(nodes, running), [asked])["pods"][0]["fits"] == ["a", "b", "c"]
    assert fit_report(Snapshot.of(nodes), [pod("q").gpus(9).build()], policy=BestFit())["pods"][0]["fits"] == []


def test_of_several_scarce_resources_those_are_named_that_never_suffice():
    small = node("small").gpus(2, H100).resource("cpu", 4000).build()
    large = h100("large").build()
    running = [pod("x").gpus(8).cpu(90).on("large").build(), pod("y").gpus(2).cpu(4).on("small").build()]
    row = fit(running, [small, large], pod("p").gpus(4).cpu(4).build())
    assert row["busy"] == {"large": f"Insufficient {GPU}"}
    assert row["never"] == {"small": f"Insufficient cpu, Insufficient {GPU} (never enough {GPU})"}
    row = fit(running, [small], pod("p").gpus(4).cpu(5).build())
    assert row["never"] == {"small": f"Insufficient cpu, Insufficient {GPU} (never enough cpu, {GPU})"}
