"""Plans of moves: direct, chained, with a detour, and none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.defrag_report import defrag_report
from extender.dump import ClusterDump
from extender.packing.defrag import find_moves
from extender.packing.disruption import DisruptionBudget, Disruptions, PodDisruption
from extender.packing.holes import Hole, pod_ask
from extender.packing.move_order import detour_of, order_of
from extender.packing.plan import Status
from extender.packing.relocation import Goal, relocation
from extender.packing.selectors import Operator, Requirement
from extender.packing.snapshot import Snapshot
from tests.builders import H100, h100, node, pod

JOB = PodDisruption("Job")
A100 = "NVIDIA-A100-SXM4-80GB"


def dump(nodes, pods, facts=None, budgets=()):
    known = {p.key: JOB for p in pods if p.holds}
    return ClusterDump(tuple(nodes), tuple(pods), (), {**known, **(facts or {})}, tuple(budgets))


def steps(report):
    return [(row["pod"], row["from"], row["to"]) for row in report["moves"]]


def four(name, **labels):
    built = node(name).gpus(4)
    for key, value in labels.items():
        built = built.label(key, value)
    return built.build()


def test_a_chain_moves_the_small_pod_first():
    # big has 3 of the 4 GPUs of a; b has 2 free and could take it if the single pod went to c.
    nodes = [four("a"), four("b"), node("c").gpus(1).build()]
    pods = [pod("big").gpus(3).on("a").build(), pod("one").gpus(1).on("b").build()]
    pods += [pod("one-more").gpus(1).on("b").build()]
    asked = pod("asked").gpus(4).select("kubernetes.io/hostname", "a").build()
    report = defrag_report(dump(nodes, [*pods, asked]), asked)
    assert report["status"] == "OPTIMAL"
    assert len(report["moves"]) == 2
    assert steps(report)[0][2] == "c"
    assert steps(report)[1] == ("ml/big", "a", "b")


def test_an_exchange_without_room_has_no_order_and_a_third_node_makes_one():
    wanted = pod("x").gpus(2).cpu(1).on("a").build(), pod("y").gpus(2).cpu(2).on("b").build()
    facts = Disruptions({p.key: JOB for p in wanted})
    for spare, expected in ((0, None), (2, 3)):
        nodes = [node("a").gpus(2).build(), node("b").gpus(2).build(), node("c").gpus(spare).build()]
        problem = relocation(Snapshot.of(nodes, wanted), [], facts, Goal.MOVES)
        x, y = problem.residents
        places = {(x.kind, 1): 1, (y.kind, 0): 1}
        direct = order_of(problem, (x, y), places)
        assert direct.steps is None
        assert direct.exhaustive
        found = detour_of(problem, (x, y), places)
        assert (None if found is None else len(found)) == expected


def test_a_pod_without_gpus_is_moved_when_it_holds_the_cpus():
    nodes = [node("a").gpus(4).build(), node("b").build()]
    pods = [pod("web").cpu(90).on("a").build(), pod("log").cpu(1).on("a").build()]
    asked = pod("asked").gpus(4).cpu(32).build()
    report = defrag_report(dump(nodes, [*pods, asked]), asked)
    assert steps(report) == [("ml/web", "a", "b")]


def test_the_cheapest_plan_may_have_more_moves():
    # One pod of 4 GPUs that has worked for a day, or two of 1 GPU that have worked for a minute.
    nodes = [four("a"), four("b"), four("c")]
    pods = [pod("old").gpus(4).on("a").build(), *(pod(f"new{i}").gpus(1).on("b").build() for i in range(2))]
    pods += [pod("wall").gpus(1).on("c").build()]
    day = 86_400.0
    facts = {p.key: PodDisruption("Job", started_seconds=2 * day - 60) for p in pods}
    facts["ml/old"] = PodDisruption("Job", started_seconds=day)
    facts["ml/wall"] = PodDisruption("DaemonSet", started_seconds=2 * day)
    report = defrag_report(dump(nodes, pods, facts), Hole(4), Goal.COST)
    assert [row["pod"] for row in report["moves"]] == ["ml/new0", "ml/new1"]
    assert report["cost"] == pytest.approx(2 / 60, abs=0.01)
    assert report["node"] == "b"


def test_a_budget_counts_over_all_moves():
    nodes = [four("a"), four("b")]
    pods = [pod(f"p{i}").gpus(1).on("a").build() for i in range(2)] + [pod("q").gpus(2).on("b").build()]
    facts = {p.key: PodDisruption("Job", labels={"app": "x"}) for p in pods[:2]}
    facts["ml/q"] = PodDisruption("DaemonSet")
    line = (Requirement("app", Operator.IN, ("x",)),)
    two, one = (
        defrag_report(dump(nodes, pods, facts, [DisruptionBudget("ml", "b", line, allowed)]), Hole(4))
        for allowed in (2, 1)
    )
    assert two["possible"]
    assert (one["possible"], one["status"]) == (False, "INFEASIBLE")


def test_what_holds_the_room_is_named_when_there_is_no_plan():
    nodes = [four("a"), four("b")]
    pods = [pod("p").gpus(1).on("a").build(), pod("q").gpus(2).on("b").build()]
    report = defrag_report(dump(nodes, pods, {p.key: PodDisruption("DaemonSet") for p in pods}), Hole(4))
    assert not report["possible"]
    assert report["vetoes"] == [
        {"pod": "ml/p", "node": "a", "reason": "pod of a DaemonSet"},
        {"pod": "ml/q", "node": "b", "reason": "pod of a DaemonSet"},
    ]
    assert "2 pods must stay (pod of a DaemonSet)" in (report["reason"] or "")


@pytest.mark.parametrize(
    ("hole", "possible", "words"),
    [
        (Hole(8, "H100"), True, None),
        (Hole(8, "A100"), False, "never: no node has GPUs of model A100, nodes have NVIDIA-H100-80GB-HBM3, Tesla-T4"),
        (Hole(9), False, "never: no node has 9 GPUs; the largest has 8"),
        (Hole(7), True, None),
    ],
)
def test_holes_are_of_a_model_and_of_what_a_node_has(hole, possible, words):
    nodes = [h100("a").build(), node("b").gpus(8, "Tesla-T4").build()]
    pods = [pod("p").gpus(1).on("a").build(), pod("q").gpus(8).on("b").build()]
    cluster = dump(nodes, pods) if hole.gpus != 8 else dump([*nodes, h100("c", 1).build()], pods)
    report = defrag_report(cluster, hole)
    assert report["possible"] == possible
    assert words is None or words in (report["reason"] or "")
    assert H100 not in str(report["moves"])


def test_room_that_is_there_needs_no_move():
    report = defrag_report(dump([four("a")], []), Hole(4))
    assert (report["possible"], report["moves"], report["status"], report["node"]) == (True, [], "OPTIMAL", "a")


def test_an_empty_cluster_has_no_plan():
    asked = pod("asked").gpus(1).build()
    for wanted in (Hole(1), asked):
        report = defrag_report(dump([], [asked]), wanted)
        assert not report["possible"]
        assert report["reason"]


def test_cordoned_and_unready_nodes_are_neither_emptied_nor_filled():
    nodes = [node("a").gpus(2).build(), node("b").gpus(2).cordoned().build(), node("c").gpus(2).unready().build()]
    pods = [pod("p").gpus(1).on("a").build(), pod("q").gpus(1).on("b").build()]
    snapshot = Snapshot.of(nodes, pods)
    ask = pod_ask(snapshot, pod("asked").gpus(2).build())
    plan = find_moves(relocation(snapshot, [ask], Disruptions({p.key: JOB for p in pods}), Goal.MOVES), Goal.MOVES)
    assert plan.status is Status.INFEASIBLE


A100 = "NVIDIA-A100-SXM4-80GB"


def a100(name, gpus=8):
    return node(name).gpus(gpus, A100)


@pytest.mark.parametrize(
    ("hole", "reason"),
    [
        (Hole(8, "B200"), f"no node has GPUs of model B200, nodes have {A100}, {H100}"),
        (Hole(8, "H1000"), f"no node has GPUs of model H1000, nodes have {A100}, {H100}; did you mean H100?"),
        (Hole(8, "A100"), "all 3 nodes with 8 GPUs of model A100: 2 cordoned (a1, a2), 1 not ready (a3): uncordon one"),
        (Hole(16, "A100"), "no node has 16 GPUs of model A100; the largest of that model has 8 (a1)"),
        (Hole(16), "no node has 16 GPUs; the largest has 8 (a1)"),
        (Hole(4, "T4"), "the only node with 4 GPUs of model T4: 1 not ready (t)"),
        (Hole(1, "K80"), "no node has whole GPUs of model K80, only shared ones or slices"),
    ],
)
def test_what_no_departure_helps_is_never_and_names_the_real_reason(hole, reason):
    closed = [a100("a1").cordoned().build(), a100("a2").cordoned().build(), a100("a3").unready().build()]
    nodes = [h100("h").build(), *closed, node("t").gpus(4, "T4").unready().build()]
    pods = [pod("p").gpus(1).on("h").build()]
    if hole.model == "K80":
        nodes = [h100("h").build(), node("s").gpus(8, "Tesla-K80", exclusive=False, whole=False).build()]
    known = [n for n in nodes if n.name != "t"] if hole.model in {"B200", "H1000"} else nodes
    report = defrag_report(dump(known, pods), hole)
    assert (report["possible"], report["status"], report["vetoes"]) == (False, "INFEASIBLE", [])
    assert report["reason"] == f"never: {reason}"


def test_a_cluster_without_gpus_is_said():
    assert defrag_report(dump([node("n").build()], []), Hole(1))["reason"] == "never: no node has whole GPUs"


def test_a_hole_behind_a_taint_is_taken_last_and_said():
    tainted = a100("a").taint("maintenance", "yes").build()
    report = defrag_report(dump([tainted, a100("b").build()], []), Hole(8))
    assert (report["node"], report["warnings"]) == ("b", [])
    report = defrag_report(dump([tainted], []), Hole(8))
    words = "node a: has taint {maintenance: yes}; only pods that tolerate it can use the room"
    assert (report["node"], report["warnings"]) == ("a", [words])
    usual = a100("a").taint("nvidia.com/gpu", "present").build()
    assert defrag_report(dump([usual], []), Hole(8))["warnings"] == []


def test_busy_is_told_from_never():
    nodes = [four("a"), four("b")]
    pods = [pod("p").gpus(2).on("a").build(), pod("q").gpus(1).on("b").build()]
    huge, wrong, big = pod("huge").gpus(5).build(), pod("w").gpus(1).select("zone", "x").build(), pod("b").gpus(4)
    never = defrag_report(dump(nodes, [*pods, huge]), huge)
    assert (never["reason"] or "").startswith("never: none of 2 nodes can take it, whatever leaves; the largest node")
    assert never["vetoes"] == []
    reason = defrag_report(dump(nodes, [*pods, wrong]), wrong)["reason"] or ""
    assert reason.startswith("never: none of 2 nodes can take it")
    assert 'zone: no node has the value "x"' in reason
    held = {key: PodDisruption("DaemonSet") for key in ("ml/p", "ml/q")}
    busy = defrag_report(dump(nodes, [*pods, big.build()], held), big.build())
    assert busy["reason"] == (
        "busy: 2 of 2 nodes could take pod ml/b if pods left, but on none of them can enough pods be moved: "
        "2 pods must stay (pod of a DaemonSet)"
    )
    assert len(busy["vetoes"]) == 2


def test_too_little_in_all_is_the_reason_whoever_must_stay():
    pods = [pod("p").gpus(3).on("a").build(), pod("q").gpus(2).on("b").build()]
    report = defrag_report(dump([four("a"), four("b")], pods, {"ml/p": PodDisruption("DaemonSet")}), Hole(4))
    words = "busy: 2 of 2 nodes could take a hole of 4 GPUs if pods left, but moving pods would not do"
    assert report["reason"] == f"{words}: all nodes together have 3 nvidia.com/gpu free"
    assert report["vetoes"] == []


def test_nodes_that_are_not_ready_are_said():
    asked = pod("asked").gpus(1).build()
    report = defrag_report(dump([node("n").gpus(4).unready().build()], [asked]), asked)
    assert "1 of them not ready" in (report["reason"] or "")


def test_a_pod_that_waits_for_labels_alone_is_told_what_fit_tells():
    asked = pod("asked").gpus(2).types("H1000").build()
    nodes = [node("cpu").build(), node("unlabelled").gpus(8).build()]
    reason = defrag_report(dump(nodes, [asked]), asked)["reason"]
    assert reason == "busy: 1 of 2 nodes could take it once their labels say what GPUs they have"


def test_where_no_pod_has_to_stay_none_is_counted():
    asked = pod("asked").gpus(4).build()
    waits = pod("waits").gpus(4).nominated("a").priority(9).build()
    reason = defrag_report(dump([four("a")], [asked, waits]), asked)["reason"] or ""
    assert reason.endswith("on none of them can enough pods be moved")


def test_a_stake_of_nothing_is_explained():
    nodes = [four("a"), four("b")]
    pods = [pod("p").gpus(1).on("a").build(), pod("q").gpus(2).on("b").build()]
    (line,) = [w for w in defrag_report(dump(nodes, pods), Hole(4))["warnings"] if "at stake" in w]
    assert line.startswith("GPU-hours at stake are not known, and count as 0, for pod ml/p: the input has neither")
    day = 86_400.0
    fresh = {"ml/p": PodDisruption("Job", started_seconds=day), "ml/q": PodDisruption("Job", started_seconds=day - 99)}
    (line,) = [w for w in defrag_report(dump(nodes, pods, fresh), Hole(4))["warnings"] if "at stake" in w]
    assert line.startswith("GPU-hours at stake are 0 for pod ml/p: just started")
    assert line.endswith("(1970-01-02T00:00:00Z)")
    old = {key: PodDisruption("Job", started_seconds=day - 3600) for key in ("ml/p", "ml/q")}
    old["ml/elsewhere"] = PodDisruption("Job", started_seconds=day)
    assert not [w for w in defrag_report(dump(nodes, pods, old), Hole(4))["warnings"] if "at stake" in w]


def test_only_warnings_about_what_takes_part_are_kept():
    nodes = [four("a"), four("b"), node("cpu").build()]
    pods = [pod("p").gpus(1).on("a").build(), pod("q").gpus(2).on("b").build(), pod("web").on("cpu").build()]
    ours = ["node a: odd", "pod ml/p: odd", "f.json: ignored 1 items of other kinds: Service 1"]
    others = ["node cpu: odd", "pod ml/web: odd", "pod ml/waits: odd"]
    cluster = replace(dump(nodes, pods), warnings=(*others, *ours))
    warnings = defrag_report(cluster, Hole(4))["warnings"]
    assert warnings[:4] == [
        *ours,
        "3 warnings about other nodes and pods; `gpu-extender gpus` shows all",
    ]
    assert not [line for line in others if line in warnings]


def test_what_the_dump_lacks_is_said_only_of_moves():
    free = defrag_report(dump([four("a")], []), Hole(4))
    assert free["warnings"] == []


@pytest.mark.parametrize("text", ["", "0", "x", "-1", "8.5", ":H100", "1234567", "٣"])
def test_a_hole_is_a_number_and_perhaps_a_model(text):
    with pytest.raises(ValueError, match="give N or N:MODEL"):
        Hole.parse(text)


def test_holes_are_read():
    assert Hole.parse("8") == Hole(8)
    assert Hole.parse("4:NVIDIA-A100") == Hole(4, "NVIDIA-A100")


@pytest.mark.parametrize("other_free", [2, 8])
def test_of_equal_plans_pods_stay_on_their_model(other_free):
    # a is emptied of 2 GPUs. b has another model and fits as tightly or more so, c has the same one.
    nodes = [h100("a").build(), node("b").gpus(other_free, A100).build(), h100("c").build()]
    pods = [pod("runs").gpus(2).on("a").build(), pod("half").gpus(4).on("c").build()]
    report = defrag_report(dump(nodes, pods), Hole(8, "H100"))
    assert steps(report) == [("ml/runs", "a", "c")]


def test_where_its_model_has_no_room_a_pod_that_names_none_goes_to_another():
    nodes = [h100("a").build(), node("b").gpus(2, A100).build(), h100("c").build()]
    pods = [pod("runs").gpus(2).on("a").build(), pod("full").gpus(7).on("c").build()]
    asked = pod("asked").gpus(8).select("kubernetes.io/hostname", "a").build()
    report = defrag_report(dump(nodes, [*pods, asked]), asked)
    assert steps(report) == [("ml/runs", "a", "b")]


def test_a_node_that_is_taken_for_ready_is_said_beside_the_moves():
    lost = replace(h100("b").build(), ready=False)
    asked = pod("asked").gpus(8).build()
    of = replace(dump([h100("a").build(), lost], [pod("runs").gpus(2).on("a").build(), asked]), warnings=("node b: x",))
    assert "node b: x" in defrag_report(of, asked)["warnings"]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, ["is one of 2 waiting pods of group ml/g, of which 2 start together; the room is for this pod alone"]),
        (3, ["of 3 members 2 wait; it waits for 1 more pod; the room is for this pod alone"]),
        (1, []),
    ],
)
def test_room_for_one_pod_of_a_group_is_said_to_be_for_it_alone(size, words):
    pods = [pod(f"g{number}").gpus(4).group("g", size).build() for number in range(2)]
    report = defrag_report(dump([four("a")], pods), pods[0])
    assert report["possible"]
    lines = [line for line in report["warnings"] if line.startswith("pod ml/g0: ")]
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))
