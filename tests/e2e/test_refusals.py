"""Pods that wait, live: told why in one readable event, let in by themselves, nobody evicted in vain, no ghost kept."""

import pytest

from controlplane.counting import name_of, uid_of
from controlplane.kubelet import Kubelet
from controlplane.objects import A100, H100, L40S, PRODUCT, gfd_node, node_of, phase_of, pod
from controlplane.processes import wait_for
from tests.e2e.scenarios import live_extender, registered, running, wait_agreed, wait_event, wait_known

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WITHOUT_PREEMPT = {"    preemptVerb: preempt\n": ""}


def labelled(model):
    """Return the patch that makes a node one of this model's."""
    return {"metadata": {"labels": {PRODUCT: model.product}}}


def wants(name, gpus, types, **spec):
    return pod(name, gpus, annotations={"gpu-extender.io/types": types}, **spec)


# ---------------------------------------------------------------- refused everywhere


@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_a_pod_refused_everywhere_is_told_why_and_gets_in_by_itself(plane, cluster, tmp_path, minor):
    h100s = [gfd_node(f"h100-{n}") for n in range(3)]
    cluster.create_nodes([*h100s, *(gfd_node(f"l40s-{n}", L40S, 4) for n in range(2)), gfd_node("a100", A100)])
    with running(plane, cluster, tmp_path, minor) as (extender, _):
        holder = cluster.create_pod(wants("holder", 6, "A100"))
        assert cluster.wait_bound([holder]) == {"holder": "a100"}
        waiting = cluster.create_pod(wants("waiting", 4, "A100"))
        text = wait_event(cluster, "waiting", "GPU model")
        # One part per reason with a count, as kube-scheduler's own are.
        assert text.startswith("0/6 nodes are available: ")
        assert "1 Insufficient nvidia.com/gpu" in text
        assert "3 GPU model NVIDIA-H100-80GB-HBM3 is not one of A100" in text
        assert "2 GPU model NVIDIA-L40S is not one of A100" in text
        assert node_of(cluster.pod("waiting")) == ""
        cluster.set_phase(holder, "Succeeded")
        assert cluster.wait_bound([waiting], 15) == {"waiting": "a100"}
        wait_agreed(extender, cluster)


@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_a_pod_no_model_suits_gets_in_when_such_a_node_joins(plane, cluster, tmp_path, minor):
    cluster.create_nodes([gfd_node(f"h100-{n}") for n in range(2)])
    with running(plane, cluster, tmp_path, minor):
        waiting = cluster.create_pod(wants("waiting", 2, "A100"))
        text = wait_event(cluster, "waiting", "GPU model")
        assert "2 GPU model NVIDIA-H100-80GB-HBM3 is not one of A100" in text
        cluster.create_nodes([gfd_node("a100", A100)])
        assert cluster.wait_bound([waiting], 15) == {"waiting": "a100"}


def test_a_label_that_comes_later_lets_a_pod_in(plane, cluster, tmp_path):
    # The device plugin is there before GPU Feature Discovery: another model first, then the right one.
    cluster.create_nodes([gfd_node("h100-0"), gfd_node("late")])
    with running(plane, cluster, tmp_path):
        waiting = cluster.create_pod(wants("waiting", 2, "L40S"))
        wait_event(cluster, "waiting", "GPU model")
        cluster.patch_node("late", labelled(L40S))
        assert cluster.wait_bound([waiting], 15) == {"waiting": "late"}


# ---------------------------------------------------------------- preemption


def fill(cluster, *nodes):
    """Fill nodes with pods of low priority, bound already: (node, how many, their priority)."""
    pods = []
    for node, count, value in nodes:
        low = cluster.priority_class(f"low-{value}", value)
        pods += [pod(f"low-{node}-{n}", 8 // count, nodeName=node, priorityClassName=low) for n in range(count)]
    return cluster.create_pods(pods)


def test_nobody_is_evicted_from_a_node_of_the_wrong_type(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("h100"), gfd_node("a100", A100)])
    # kube-scheduler would rather empty h100: its victims have the lower priority.
    fill(cluster, ("h100", 2, 1), ("a100", 2, 10))
    with running(plane, cluster, tmp_path) as (extender, recorder):
        high = cluster.create_pod(wants("high", 8, "A100", priorityClassName=cluster.priority_class("high", 1000)))
        assert cluster.wait_bound([high], 20) == {"high": "a100"}
        left = {name_of(one): node_of(one) for one in cluster.pods() if name_of(one) != "high"}
        assert left == {"low-h100-0": "h100", "low-h100-1": "h100"}
        (asked,) = {tuple(sorted(call.question["NodeNameToMetaVictims"])) for call in recorder.of("preempt")}
        assert asked == ("a100", "h100")
        wait_agreed(extender, cluster)


def test_where_no_node_has_the_type_nobody_is_evicted_at_all(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("h100-0"), gfd_node("h100-1")])
    low = fill(cluster, ("h100-0", 1, 1), ("h100-1", 2, 1))
    with running(plane, cluster, tmp_path) as (_, recorder):
        cluster.create_pod(wants("high", 8, "A100", priorityClassName=cluster.priority_class("high", 1000)))
        wait_for(lambda: recorder.of("preempt"), "preempt is asked")
        wait_event(cluster, "high", "preemption")
        assert cluster.events("Preempted") == []
        kept = {name_of(one) for one in cluster.pods() if not one["metadata"].get("deletionTimestamp")}
        assert kept == {"high", *(name_of(one) for one in low)}


def test_without_the_verb_the_wrong_node_is_emptied(plane, cluster, tmp_path):
    # What the two tests above protect from (kubernetes#139270).
    cluster.create_nodes([gfd_node("h100"), gfd_node("a100", A100)])
    fill(cluster, ("h100", 2, 1), ("a100", 2, 10))
    with running(plane, cluster, tmp_path, changes=WITHOUT_PREEMPT):
        cluster.create_pod(wants("high", 8, "A100", priorityClassName=cluster.priority_class("high", 1000)))
        wait_for(lambda: cluster.events("Preempted"), "somebody is evicted")
        assert {event["involvedObject"]["name"] for event in cluster.events("Preempted")} & {"low-h100-0", "low-h100-1"}


# ---------------------------------------------------------------- what the watch has not told yet


@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_a_node_that_has_just_joined_takes_the_pod_that_fits_nowhere_else(plane, cluster, tmp_path, minor):
    cluster.create_nodes([gfd_node("h100-0")])
    with running(plane, cluster, tmp_path, minor):
        for number in range(5):
            name = f"new-{number}"
            cluster.create_nodes([gfd_node(name, A100)])
            cluster.create_pod(pod(f"only-{number}", 8, nodeSelector={"kubernetes.io/hostname": name}))
        where = cluster.wait_bound([pod(f"only-{number}", 8) for number in range(5)], 20)
        assert where == {f"only-{number}": f"new-{number}" for number in range(5)}


OPENED = [
    pytest.param({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}, id="uncordoned"),
    pytest.param(
        {"spec": {"taints": [{"key": "repair", "effect": "NoSchedule"}]}}, {"spec": {"taints": None}}, id="untainted"
    ),
    pytest.param(
        {"metadata": {"labels": {"queue": None}}}, {"metadata": {"labels": {"queue": "train"}}}, id="labelled"
    ),
    pytest.param(labelled(L40S), labelled(H100), id="of another model"),
]


@pytest.mark.parametrize(("shut", "opened"), OPENED)
def test_a_node_that_opens_lets_the_waiting_pod_in(plane, cluster, tmp_path, shut, opened):
    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("elsewhere")])
    changed = opened.get("metadata", {}).get("labels", {})
    selector = {"kubernetes.io/hostname": "gpu-0"} | {key: value for key, value in changed.items() if key != PRODUCT}
    with running(plane, cluster, tmp_path) as (extender, _):
        # Several times: kube-scheduler asks within milliseconds, and now and then its watch is ahead of ours.
        for number in range(8):
            cluster.patch_node("gpu-0", shut)
            if PRODUCT in changed:
                # Not judged by kube-scheduler: until we have seen it, the node would still be good.
                wait_known(extender, L40S.product)
            waiting = cluster.create_pod(wants(f"waiting-{number}", 8, "H100", nodeSelector=selector))
            wait_event(cluster, name_of(waiting), "0/2 nodes are available")
            cluster.patch_node("gpu-0", opened)
            assert cluster.wait_bound([waiting], 15) == {name_of(waiting): "gpu-0"}
            cluster.delete_pod(waiting)
            wait_for(lambda: not cluster.pods(), "it has gone")


def test_nodes_labelled_at_this_moment_take_the_pods_that_wait_for_them(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n}") for n in range(6)])
    names = [name_of(node) for node in cluster.nodes()]
    with running(plane, cluster, tmp_path) as (extender, _):
        waiting = cluster.create_pods([wants(f"waiting-{n}", 8, "A100") for n in range(3)])
        for one in waiting:
            wait_event(cluster, name_of(one), "0/6 nodes are available")
        cluster.api.many(lambda name: cluster.patch_node(name, labelled(A100)), names)
        fresh = cluster.create_pods([wants(f"fresh-{n}", 8, "A100") for n in range(3)])
        where = cluster.wait_bound([*waiting, *fresh], 15)
        assert sorted(where.values()) == names
        assert extender.metric("refusal_waits_total") > 0


def test_a_pod_deleted_before_it_is_bound_keeps_no_place(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n}") for n in range(4)])
    with running(plane, cluster, tmp_path) as (extender, recorder):

        def delete_ghost(call):
            if call.verb == "prioritize" and call.question["Pod"]["metadata"]["name"] == "ghost":
                cluster.delete_pod(call.question["Pod"])

        recorder.before_answer = delete_ghost
        # Deleted once it has got its best node, and before kube-scheduler hears which.
        ghost = cluster.create_pod(pod("ghost", 8))
        wait_for(lambda: recorder.best(uid_of(ghost)), "the ghost is scored")
        wait_for(lambda: not cluster.pods(), "the ghost is gone")
        wait_agreed(extender, cluster)
        (heir,) = cluster.create_pods([pod("heir", 8)])
        # The same place as before: no booking is left of the ghost's.
        assert cluster.wait_bound([heir]) == {"heir": recorder.best(uid_of(ghost))}


def test_the_same_name_with_another_uid_is_another_pod(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n}") for n in range(2)])
    with running(plane, cluster, tmp_path) as (extender, recorder):
        seen: list[str] = []

        def replace_first(call):
            if call.verb == "filter" and not seen:
                seen.append(call.pod)
                cluster.delete_pod(call.question["Pod"])
                cluster.create_pod(pod("again", 8))

        recorder.before_answer = replace_first
        first = cluster.create_pod(pod("again", 3))
        where = cluster.wait_bound([first], 30)
        now = cluster.pod("again")
        assert seen == [uid_of(first)] != [uid_of(now)]
        assert recorder.of("filter", uid_of(now))
        wait_agreed(extender, cluster)
        assert extender.metric("gpus", state="allocated") == 8
        # Nothing is left of the three GPUs of the first: the other node takes eight, too.
        (other,) = cluster.create_pods([pod("other", 8)])
        assert set(cluster.wait_bound([other]).values()) | set(where.values()) == {"gpu-0", "gpu-1"}


# ---------------------------------------------------------------- holds


# The large pod is in back-off for 4 s after it was refused, as a pod is that has waited for long. A scheduler from 1.33
# on cuts the back-off short while its queue is empty, which it is in a test and is not in a busy cluster.
SLOW = {"leaderElection:": "podInitialBackoffSeconds: 4\npodMaxBackoffSeconds: 4\nleaderElection:"}


def test_a_block_that_opens_is_held_for_the_large_pod_in_back_off(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0")])
    with running(plane, cluster, tmp_path, "1.29", changes=SLOW) as (extender, recorder):
        old = cluster.create_pods([pod(f"old-{n}", 2) for n in range(4)])
        cluster.wait_bound(old)
        large = cluster.create_pod(pod("large", 8))
        wait_event(cluster, "large", "Insufficient nvidia.com/gpu")
        for one in old:
            cluster.set_phase(one, "Succeeded")
        wait_for(lambda: extender.metric("held_nodes") == 1, "the node is held")
        small = cluster.create_pod(pod("small", 1))
        # It waits for seconds, and is told for what.
        assert "1 of 1 are held for a larger pod that waits" in wait_event(cluster, "small", "held")
        assert cluster.wait_bound([large], 15) == {"large": "gpu-0"}
        wait_for(lambda: extender.metric("held_nodes") == 0, "nothing is held")
        cluster.wait_pod("large", lambda found: phase_of(found) == "Running", "runs")  # or its kubelet starts it again
        cluster.set_phase(large, "Succeeded")
        assert cluster.wait_bound([small], 15) == {"small": "gpu-0"}
        assert recorder.of("filter", uid_of(small))


def test_without_holds_the_small_pod_breaks_the_block(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0")])
    with (
        live_extender(plane, tmp_path, VERBS__HOLD_SECONDS="0") as extender,
        registered(plane, tmp_path, "1.29", extender.url, changes=SLOW),
        Kubelet(cluster.api),
    ):
        old = cluster.create_pods([pod(f"old-{n}", 2) for n in range(4)])
        cluster.wait_bound(old)
        cluster.create_pod(pod("large", 8))
        wait_event(cluster, "large", "Insufficient nvidia.com/gpu")
        for one in old:
            cluster.set_phase(one, "Succeeded")
        wait_for(lambda: extender.metric("gpus", state="free") == 8, "the node is empty")
        small = cluster.create_pod(pod("small", 1))
        assert cluster.wait_bound([small], 4) == {"small": "gpu-0"}
        assert node_of(cluster.pod("large")) == ""
