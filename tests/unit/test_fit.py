"""What kube-scheduler does in the corners, written down by hand; the Filter and its oracle both have to say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.packing.fit import MAX_REASON, Cause, filter_nodes
from extender.packing.selectors import Operator, Requirement, Taint, Term, Toleration
from extender.packing.snapshot import Snapshot
from extender.packing.types import Phase
from tests.builders import node, pod, term
from tests.oracle import World, judge

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
CORDON = "node(s) were unschedulable"


def field(operator, *values, key="metadata.name"):
    return Term(fields=(Requirement(key, Operator(operator), values),))


def verdict(info, asked, *others):
    """Return (text, never) for one node; fails when Filter and oracle differ."""
    verdicts = filter_nodes(Snapshot.of([info], others), asked)
    found = verdicts.reason(0).text, bool(verdicts.never[0])
    expected = judge(World([info], others), asked, info)
    assert found == (expected.text, expected.never)
    return found


LABELLED = node("n1").label("gen", "7").label("zone", "a").label("odd", "08.5")


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        # Gt and Lt compare int64, as strconv.ParseInt reads them: leading zeros are fine, 7 = 007
        pytest.param([term("gen", "Gt", "06")], True, id="7 > 06"),
        pytest.param([term("gen", "Gt", "007")], False, id="7 is not > 007"),
        pytest.param([term("gen", "Lt", "0010")], True, id="7 < 0010"),
        pytest.param([term("gen", "Gt", "6.5")], False, id="a limit that is no integer matches nothing"),
        pytest.param([term("odd", "Gt", "1")], False, id="a label that is no integer is not greater"),
        pytest.param([term("odd", "Lt", "100")], False, id="... nor less"),
        pytest.param([term("gone", "Lt", "100")], False, id="an absent label is not less"),
        pytest.param([term("gen", "Lt", "99999999999999999999")], False, id="beyond int64"),
        pytest.param([term("gen", "Gt", "1", "2")], False, id="two limits match nothing"),
        pytest.param([term("gone", "NotIn", "x")], True, id="NotIn holds for an absent key"),
        pytest.param([term("zone", "NotIn", "b")], True, id="NotIn another value"),
        pytest.param([term("zone", "NotIn", "a")], False, id="NotIn its value"),
        pytest.param([term("zone", "NotIn")], False, id="NotIn without values matches nothing"),
        pytest.param([term("zone", "In", "b", "a")], True, id="In one of several"),
        pytest.param([term("gen", "In", "007")], False, id="In compares text, not numbers"),
        pytest.param([term("gone", "DoesNotExist")], True, id="DoesNotExist"),
        pytest.param([term("zone", "DoesNotExist")], False, id="DoesNotExist of a present key"),
        pytest.param([term("zone", "Exists")], True, id="Exists"),
        pytest.param([term("zone", "Exists", "a")], False, id="Exists with a value matches nothing"),
        pytest.param([term("zone", "Near", "a")], False, id="an unknown operator matches nothing"),
        pytest.param([term("zone", "NotIn", "Tesla K80")], False, id="a value no label can have matches nothing"),
        pytest.param([Term()], False, id="an empty term matches nothing"),
        pytest.param([], False, id="no terms at all match nothing"),
        pytest.param([Term(), term("zone", "Exists")], True, id="terms are alternatives"),
        pytest.param([field("In", "n1")], True, id="matchFields on the name"),
        pytest.param([field("NotIn", "n1")], False, id="matchFields away from the name"),
        pytest.param([field("In", "n1", "n2")], False, id="matchFields takes exactly one value"),
        pytest.param([field("Exists")], False, id="matchFields knows In and NotIn only"),
        pytest.param([field("In", "n1", key="metadata.uid")], False, id="matchFields on anything else"),
        pytest.param([term("metadata.name", "In", "n1")], False, id="metadata.name is no label"),
    ],
)
def test_required_affinity(terms, fits):
    expected = ("", False) if fits else (AFFINITY, True)
    assert verdict(LABELLED.build(), pod("p").require(*terms).build()) == expected


def test_expressions_and_fields_of_a_term_must_all_match():
    both = Term(term("zone", "In", "a").expressions, field("In", "n2").fields)
    assert verdict(LABELLED.build(), pod("p").require(both).build()) == (AFFINITY, True)


TAINTED = "node(s) had untolerated taint {gpu: a100}"


@pytest.mark.parametrize(
    ("effect", "toleration", "expected"),
    [
        ("NoSchedule", None, (TAINTED, True)),
        ("NoExecute", None, (TAINTED, True)),
        ("PreferNoSchedule", None, ("", False)),
        ("SomethingNew", None, ("", False)),
        ("NoSchedule", Toleration(exists=True), ("", False)),
        ("NoSchedule", Toleration(exists=True, effect="NoExecute"), (TAINTED, True)),
        ("NoSchedule", Toleration("gpu", exists=True), ("", False)),
        ("NoSchedule", Toleration("gpu", value="a100"), ("", False)),
        ("NoSchedule", Toleration("gpu", value="h100"), (TAINTED, True)),
        # an empty key is any key
        ("NoSchedule", Toleration("", value="a100"), ("", False)),
        ("NoSchedule", Toleration(""), (TAINTED, True)),
    ],
)
def test_taints(effect, toleration, expected):
    asked = pod("p") if toleration is None else pod("p").tolerate(toleration)
    assert verdict(node("n1").taint("gpu", "a100", effect).build(), asked.build()) == expected


def test_cordon_and_its_toleration():
    cordoned = node("n1").cordoned()
    key = "node.kubernetes.io/unschedulable"
    assert verdict(cordoned.build(), pod("p").build()) == (CORDON, True)
    assert verdict(cordoned.build(), pod("p").tolerate(Toleration(key, exists=True)).build()) == ("", False)
    # the taint that a cordon brings is named as the cordon; alone it is a taint
    assert verdict(cordoned.taint(key).build(), pod("p").build()) == (CORDON, True)
    assert verdict(node("n1").taint(key).build(), pod("p").build())[0] == f"node(s) had untolerated taint {Taint(key)}"


def test_filters_run_in_kube_schedulers_order():
    all_wrong = node("n1").cordoned().taint("gpu").gpus(0, "T4")
    asked = pod("p").gpus(1).types("H100").select("zone", "a")
    steps = [
        (all_wrong, asked, CORDON),
        (node("n1").taint("gpu").gpus(0, "T4"), asked, "node(s) had untolerated taint {gpu: }"),
        (node("n1").gpus(0, "T4"), asked, AFFINITY),
        (node("n1").gpus(0, "T4").label("zone", "a"), asked, "GPU model T4 is not one of H100"),
        (node("n1").gpus(0, "H100").label("zone", "a"), asked, "Insufficient nvidia.com/gpu"),
    ]
    assert [verdict(n.build(), p.build())[0] for n, p, _ in steps] == [text for _, _, text in steps]


@pytest.mark.parametrize(
    ("gpus", "asked", "expected"),
    [
        (8, pod("p").gpus(16), ("Insufficient nvidia.com/gpu", True)),
        (0, pod("p").gpus(1), ("Insufficient nvidia.com/gpu", True)),
        (8, pod("p").gpus(8).cpu(400), ("Insufficient cpu, Insufficient nvidia.com/gpu", True)),
        # what departures would free waits for the label, too
        (8, pod("p").gpus(8), ("GPU memory of the node is not known yet", False)),
        (8, pod("p").gpus(7), ("GPU memory of the node is not known yet", False)),
    ],
)
def test_a_label_that_may_come_makes_no_node_larger(gpus, asked, expected):
    wishing = asked.wish(min_memory_mib=80_000).build()
    assert verdict(node("n1").gpus(gpus).build(), wishing, pod("x").gpus(1).on("n1").build()) == expected


def test_asking_for_nothing_fits_an_overcommitted_node():
    full = pod("full").cpu(200).gpus(9).on("n1").build()
    info = node("n1").gpus(8).build()
    assert verdict(info, pod("p").memory(1).build(), full) == ("", False)
    assert verdict(info, pod("p").resource("nvidia.com/gpu", 0).resource("cpu", 0).build(), full) == ("", False)
    # 96 cores - 200 < 1: busy, as an empty node would do
    assert verdict(info, pod("p").cpu(1).build(), full) == ("Insufficient cpu", False)


def test_resources_are_listed_pods_first_and_one_hopeless_one_makes_it_never():
    info = node("n1").resource("pods", 1).build()
    asked = pod("p").cpu(95).memory(2000).gpus(1).build()
    running = pod("r").cpu(2).on("n1").build()
    # cpu: 96 - 2 < 95 (busy); memory: 1000 GiB < 2000 and no GPU at all (never); pods: 1 of 1 (busy)
    assert verdict(info, asked, running) == (
        "Too many pods, Insufficient cpu, Insufficient memory, Insufficient nvidia.com/gpu",
        True,
    )


@pytest.mark.parametrize(("priority", "fits"), [(0, False), (5, False), (6, True)])
def test_a_nominated_pod_holds_its_room_against_equal_and_lower_priority(priority, fits):
    rival = pod("rival").gpus(8).priority(5).nominated("n1").build()
    asked = pod("p").gpus(1).priority(priority).build()
    expected = ("", False) if fits else ("Insufficient nvidia.com/gpu", False)
    assert verdict(node("n1").gpus(8).build(), asked, rival) == expected


def test_finished_pods_hold_nothing_and_terminating_ones_do():
    info = node("n1").gpus(8).build()
    finished = pod("f").gpus(8).on("n1")._with(phase=Phase.SUCCEEDED).build()
    leaving = pod("l").gpus(8).on("n1").terminating().build()
    assert verdict(info, pod("p").gpus(1).build(), finished) == ("", False)
    assert verdict(info, pod("p").gpus(1).build(), leaving) == ("Insufficient nvidia.com/gpu", False)


@pytest.mark.parametrize(
    ("asked", "cause", "never"),
    [
        (pod("p").gpus(1).types("H100"), Cause.GPU_MODEL, True),
        (pod("p").gpus(1).types("H100,any"), Cause.NONE, False),
        (pod("p").gpus(1).wish(min_memory_mib=80_000), Cause.GPU_MODEL, True),
        (pod("p").gpus(1).wish(min_cuda=(12, 0)), Cause.GPU_MODEL, False),
        (pod("p").cpu(1), Cause.NONE, False),
    ],
    ids=["another model", "any model will do", "too little memory", "CUDA level unknown: may turn up", "no GPU wishes"],
)
def test_gpu_wishes(asked, cause, never):
    info = node("n1").gpus(8, "Tesla-T4", memory_mib=15_360).build()
    verdicts = filter_nodes(Snapshot.of([info]), asked.build())
    assert (verdicts.reason(0).cause, bool(verdicts.never[0])) == (cause, never)
    verdict(info, asked.build())


def test_a_reason_is_never_longer_than_a_few_names():
    asked = pod("p").resource(f"example.com/{'x' * 100_000}", 1).build()
    text = filter_nodes(Snapshot.of([node("n1").build()]), asked).reason(0).text
    assert text.startswith("Insufficient example.com/xxx")
    assert text.endswith("xxx...")
    assert len(text) == MAX_REASON


def test_every_scarce_resource_has_its_own_name_however_many_are_asked_for():
    names = [f"example.com/r{at:03d}" for at in range(200)]
    asked, info, other = pod("p"), node("n1"), node("n2")
    for name in names:
        asked, info, other = asked.resource(name, 1), info.resource(name, 1), other.resource(name, 1)
    nodes = [info.resource(names[150], 0).build(), other.resource(names[3], 0).resource(names[199], 0).build()]
    verdicts = filter_nodes(Snapshot.of([*nodes, replace(info.build(), name="n3")]), asked.build())
    texts = [verdicts.reason(row).text for row in range(3)]
    assert texts == [f"Insufficient {names[150]}", f"Insufficient {names[3]}, Insufficient {names[199]}", ""]


def test_many_scarce_resources_are_counted():
    asked = pod("p")
    for at in range(30):
        asked = asked.resource(f"r{at:02d}", 1)
    text = filter_nodes(Snapshot.of([node("n1").build()]), asked.build()).reason(0).text
    assert text.startswith("Insufficient r00, Insufficient r01, ")
    assert text.endswith(", Insufficient r19 and 10 more")
