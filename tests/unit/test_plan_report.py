"""The answer of `plan` in words."""

import io

from rich.console import Console

from extender.packing import planner
from extender.packing.snapshot import Snapshot
from extender.plan_report import Queue, order_matters, plan_report
from extender.tables import render_plan
from extender.whatif import arriving, left_out, queued, unknown_schedulers
from tests.builders import h100, node, pod


def planned(nodes, pods):
    queue = Queue.of(Snapshot.of(nodes, pods), queued(pods))
    return queue, planner.plan(queue.problem)


def reasons(nodes, pods):
    return {row["pod"]: row["reason"] for row in plan_report(*planned(nodes, pods))["unplaced"]}


def test_each_pod_without_a_place_is_told_why():
    pods = [
        pod("big").gpus(16).build(),
        pod("first").gpus(8).priority(1).build(),
        pod("second").gpus(1).build(),
        pod("short").gpus(1).group("short", 3).build(),
        *(pod(f"apart{i}").gpus(8).group("apart").build() for i in range(2)),
        pod("member").gpus(1).group("broken").build(),
        pod("lost").gpus(9).group("broken").build(),
    ]
    never = (
        "never: the only node cannot take it, whatever leaves; 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    )
    assert reasons([h100("n1").build()], pods) == {
        "ml/big": never,
        "ml/second": "fits alone on 1 node; the plan uses the room for other pods",
        "ml/short": "group ml/short starts as a whole or not at all: of 3 members 1 wait; it waits for 2 more pods",
        "ml/apart0": "group ml/apart: its pods do not fit together, even if no other pod starts (proved)",
        "ml/apart1": "group ml/apart: its pods do not fit together, even if no other pod starts (proved)",
        "ml/member": f"group ml/broken starts as a whole or not at all; ml/lost: {never}",
        "ml/lost": f"group ml/broken starts as a whole or not at all; ml/lost: {never}",
    }


def test_a_pod_that_fits_nowhere_now_is_busy_or_never():
    held = pod("p").gpus(2).on("n1").build()
    found = reasons([h100("n1").build()], [held, pod("later").gpus(8).build(), pod("huge").gpus(9).build()])
    assert found["ml/later"].startswith("busy: 1 of 1 nodes could take it if pods left; 0/1 nodes are available: 1 In")
    assert found["ml/huge"].startswith("never: the only node cannot take it, whatever leaves; 0/1 nodes are available")


def test_a_group_that_only_others_keep_out_is_told_so():
    pods = [pod("first").gpus(8).priority(1).build(), *(pod(f"g{i}").gpus(4).group("g").build() for i in range(2))]
    assert set(reasons([h100("n1").build()], pods).values()) == {
        "group ml/g: fits together; the plan uses the room for other pods"
    }


def test_a_group_that_starts_with_some_of_its_pods_is_told_so():
    nodes = [h100("n1").build(), h100("n2").build()]
    four = [pod(f"g{i}").gpus(8).group("g", 3).build() for i in range(4)]
    words = "group ml/g: no 3 of its 4 waiting pods fit together, even if no other pod starts (proved)"
    assert set(reasons(nodes, four).values()) == {words}
    lost = [pod("g0").gpus(9).group("g", 2).build(), *(pod(f"g{i}").gpus(9).group("g", 2).build() for i in (1, 2))]
    assert reasons(nodes, lost)["ml/g2"].startswith(
        "group ml/g starts with 2 of its 3 waiting pods or not at all; ml/g0"
    )


def test_of_a_group_that_starts_the_pods_left_over_are_told_of_themselves():
    pods = [pod(f"g{i}").gpus(8).group("g", 1 + (i < 3)).build() for i in range(3)]
    found = reasons([h100("n1").build(), h100("n2").build()], [*pods, pod("huge").gpus(9).group("g", 2).build()])
    assert found.keys() == {"ml/g2", "ml/huge"}
    assert found["ml/g2"] == "fits alone on 2 nodes; the plan uses the room for other pods"
    assert found["ml/huge"].startswith("never: none of 2 nodes can take it")


def test_the_report_has_the_keys_of_the_contract_and_the_order_of_the_queue():
    report = plan_report(
        *planned([h100("n1").build()], [pod("b").gpus(1).build(), pod("a").gpus(8).priority(3).build()])
    )
    assert list(report) == ["placements", "placed", "placed_gpus", "status", "bound", "unplaced", "warnings"]
    assert [(row["pod"], row["node"]) for row in report["placements"]] == [("ml/a", "n1"), ("ml/b", None)]
    assert (report["placed"], report["placed_gpus"], report["status"], report["bound"]) == (1, 8, "OPTIMAL", 8)


def test_gated_pods_and_those_of_other_schedulers_are_left_out():
    volcano = pod("v").gpus(1)
    pods = [pod("g").gpus(1).gated().build(), volcano._with(scheduler_name="volcano").build(), pod("p").gpus(1).build()]
    assert [p.name for p in queued(pods)] == ["p"]
    assert [p.name for p in queued(pods, ["volcano"])] == ["v"]
    assert left_out(pods) == [
        "1 pod behind scheduling gates left out",
        "1 pod of scheduler volcano left out; --scheduler volcano takes them in",
    ]


def test_a_scheduler_that_no_pod_has_is_said():
    volcano = pod("v").gpus(1)._with(scheduler_name="volcano").build()
    pods = [volcano, pod("p").on("n")._with(scheduler_name="gpu").build()]
    assert unknown_schedulers(pods, ["gpu", "volcano"]) == []
    assert unknown_schedulers(pods, ["defualt-scheduler", "default-scheduler", "volcno", "x"]) == [
        "no pod in the input has scheduler defualt-scheduler; did you mean default-scheduler?",
        "no pod in the input has scheduler default-scheduler",
        "no pod in the input has scheduler volcno; did you mean volcano?",
        "no pod in the input has scheduler x",
    ]


def test_of_arrivals_none_is_left_out_for_its_scheduler():
    volcano = pod("v").gpus(1)._with(scheduler_name="volcano").build()
    gated, going = pod("g").gpus(1).gated().build(), pod("t").gpus(1).terminating().build()
    assert arriving([volcano, gated, going]) == [volcano]
    assert left_out([gated, going], (), [volcano, gated]) == [
        "2 pods behind scheduling gates left out",
        "1 pod with a deletionTimestamp left out",
    ]


def test_the_report_says_when_the_order_of_arrival_matters():
    pods = [pod(f"p{i}").gpus(g)._with(created=float(i)).build() for i, g in enumerate((4, 3, 5, 4))]  # case 121
    text = order_matters(*planned([h100("n1").build(), h100("n2").build()], pods))
    assert text is not None
    assert "3 of these 4 pods would be placed, planned together 4" in text
    assert order_matters(*planned([h100("n1").build()], pods[:1])) is None


def printed(nodes, pods):
    queue, plan = planned(nodes, pods)
    paper = io.StringIO()
    Console(file=paper, width=200).print(render_plan(plan_report(queue, plan), plan))
    return paper.getvalue()


def test_the_table_says_what_is_proved():
    text = printed([h100("n1").build(), node("n2").build()], [pod("a").gpus(1).build(), pod("b").gpus(9).build()])
    assert "1 of 2 pods placed, 1 GPUs; proved: no plan places more GPUs, higher priorities first." in text
    assert "1 unused GPU node opened; no such plan opens fewer." in text
    assert printed([], []) == "No pod is waiting to be placed.\n"
