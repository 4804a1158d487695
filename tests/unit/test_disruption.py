"""Which running pods may be moved, read from a dump, and what a move puts at stake."""

from __future__ import annotations

import json

import pytest

from extender.defrag_report import disruptions_of
from extender.dump import read_dumps
from extender.errors import DumpError
from extender.kube.gpurules import GpuRules
from extender.packing.disruption import priority_weights
from tests.builders import pod

REPLICA_SET = {"kind": "ReplicaSet", "name": "r", "controller": True}


def running(name, *, owners=(REPLICA_SET,), annotations=None, labels=None, **status):
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ml", "ownerReferences": list(owners),
            "annotations": annotations or {}, "labels": labels or {},
        },
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running", **status},
    }  # fmt: skip


def budget(name, selector, allowed, version="policy/v1"):
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    meta = {"name": name, "namespace": "ml"}
    kind = {"apiVersion": version, "kind": "PodDisruptionBudget"}
    return {**kind, "metadata": meta, "spec": {"selector": selector}, "status": status}


def read(*items):
    return read_dumps([("dump.json", json.dumps({"kind": "List", "items": items}).encode())], GpuRules.default())


def veto(*items, bare_pods=False):
    """Return the veto of the first item."""
    dump = read(*items)
    return disruptions_of(dump, bare_pods=bare_pods).veto(dump.pods[0])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"owners": [{"kind": "StatefulSet"}]}, ""),  # `controller` left out, as people do
        ({"owners": [{"kind": "MyJob", "controller": True}]}, ""),
        ({"owners": [{"kind": "Pod"}]}, "no controller"),  # owned for the sake of garbage collection
        ({"owners": [{"kind": "ReplicaSet", "controller": False}]}, "no controller"),
        ({"owners": []}, "no controller"),
        ({"owners": [{"kind": "DaemonSet", "controller": True}]}, "DaemonSet"),
        ({"owners": [{"kind": "Node", "controller": True}]}, "static pod"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "static pod"),
        ({"annotations": {"gpu-extender.io/movable": "false"}}, "gpu-extender.io/movable: false"),
        ({"annotations": {"gpu-extender.io/movable": "true"}}, ""),
        ({"annotations": {"gpu-extender.io/movable": "no"}}, "gpu-extender.io/movable: no"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "safe-to-evict: false"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "do-not-disrupt: true"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "false"}}, ""),
    ],
)
def test_a_pod_is_held_by(fields, words):
    found = veto(running("p", **fields))
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ([budget("b", {"matchLabels": {"app": "x"}}, 0)], "ml/b allows no disruption"),
        ([budget("b", {"matchLabels": {"app": "x"}}, 1)], ""),
        ([budget("b", {"matchLabels": {"app": "y"}}, 0)], ""),
        ([budget("b", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}, 0)], "no disruption"),
        ([budget("b", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, 0)], ""),
        ([budget("b", {}, 0)], "no disruption"),  # policy/v1: every pod of the namespace
        ([budget("b", {}, 0, "policy/v1beta1")], ""),  # policy/v1beta1: none
        ([budget("b", None, 0)], ""),
        ([budget("b", {"matchLabels": {"app": "x"}}, None)], "no disruption"),  # status was never written
        ([budget("b", {}, 5), budget("c", {}, 5)], "two PodDisruptionBudgets"),
    ],
)
def test_budgets_hold_pods(budgets, words):
    found = veto(running("p", labels={"app": "x"}), *budgets)
    assert words in found
    assert bool(words) == bool(found)


def test_a_budget_without_a_status_is_said_and_one_given_twice_counts_once():
    dump = read(running("p"), budget("b", {}, None), budget("b", {}, 3))
    assert [b.allowed for b in dump.budgets] == [3]
    assert any("status.disruptionsAllowed is missing" in line for line in dump.warnings)
    assert any("poddisruptionbudget ml/b: given more than once" in line for line in dump.warnings)
    with pytest.raises(DumpError, match="disruptionsAllowed"):
        read(budget("b", {}, "many"))


def test_bare_pods_are_movable_only_when_the_dump_shows_no_controller_at_all():
    alone = read(running("p", owners=[]))
    assert disruptions_of(alone).veto(alone.pods[0]) == ""
    among = read(running("p", owners=[]), running("q"))
    assert "no controller" in disruptions_of(among).veto(among.pods[0])


def test_work_at_stake_counts_from_start_or_last_checkpoint_to_the_newest_time_of_the_dump():
    checkpoint = {"gpu-extender.io/last-checkpoint": "2026-01-01T09:30:00Z"}
    dump = read(
        running("long", startTime="2026-01-01T00:00:00Z"),
        running("saved", startTime="2026-01-01T00:00:00Z", annotations=checkpoint),
        running("new", startTime="2026-01-01T10:00:00Z"),
        running("unknown"),
        running("odd", annotations={"gpu-extender.io/last-checkpoint": "yesterday"}),
    )
    disruptions = disruptions_of(dump)
    hours = [disruptions.gpu_seconds_at_stake(p) / 3600 for p in dump.pods]
    assert hours == [20, 1, 0, 0, 0]  # 2 GPUs each: 10 h, 0.5 h, none, not known
    assert any("last-checkpoint" in line and "no time" in line for line in dump.warnings)


def test_priorities_weigh_by_rank():
    pods = [pod("a").priority(1_000_000).build(), pod("b").priority(-5).build(), pod("c").priority(0).build()]
    assert priority_weights(pods) == {-5: 1, 0: 2, 1_000_000: 3}


@pytest.mark.parametrize("word", ["no", "falsee", "", "1"])
def test_a_word_that_is_neither_true_nor_false_is_a_veto_and_a_warning(word):
    (line,) = [w for w in read(running("p", annotations={"gpu-extender.io/movable": word})).warnings if "movable" in w]
    assert line.startswith("pod ml/p: annotation gpu-extender.io/movable: ")
    assert f"{word!r} is neither true nor false; taken for false" in line


@pytest.mark.parametrize("word", ["true", " False "])
def test_true_and_false_are_no_warning(word):
    assert not [w for w in read(running("p", annotations={"gpu-extender.io/movable": word})).warnings if "movable" in w]
