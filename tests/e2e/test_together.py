"""Several at once, live: two replicas of the service, two schedulers on the same nodes, whole nodes sent or names."""

import pytest

from controlplane.counting import gpus_of, name_of, uid_of, usage
from controlplane.kubelet import Kubelet
from controlplane.objects import A100, gfd_node, needs_model, pod
from controlplane.plane import SECOND_SCHEDULER_USER
from controlplane.schedulerfiles import insecure, shipped, without_extender
from tests.e2e.recorder import recording
from tests.e2e.scenarios import DECIDES, SECOND, UNPLANNED, WHOLE_NODES, live_extender, registered, running, wait_agreed
from tests.e2e.tcpproxy import TcpProxy
from tests.e2e.watchdog import Watchdog
from tests.e2e.worldof16 import play_packing, play_types, play_waiting

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SIZES = (4, 1, 2, 8, 1, 2, 1, 1)  # 20 GPUs
OURS = "gpu-scheduler"


def burst(rounds, prefix="job", **spec):
    return [pod(f"{prefix}-{r:02d}-{n}", gpus, **spec) for r in range(rounds) for n, gpus in enumerate(SIZES)]


def of_two_models(count):
    return [gfd_node(f"gpu-{n:02d}", A100) if n % 2 else gfd_node(f"gpu-{n:02d}") for n in range(count)]


# ---------------------------------------------------------------- two replicas


@pytest.mark.parametrize("minor", ["1.37", "1.22"])
def test_two_replicas_behind_one_address_pack_as_one(plane, cluster, tmp_path, minor):
    cluster.create_nodes(of_two_models(16))
    with (
        live_extender(plane, tmp_path, name="first") as first,
        live_extender(plane, tmp_path, name="second") as second,
        # Not by connection: kube-scheduler keeps one, so that a Service would send all calls to one replica.
        recording(first.url, second.url) as address,
        registered_as_of(plane, tmp_path, minor, address.url),
        Watchdog(cluster),
    ):
        pods = cluster.create_pods(burst(5))
        where = cluster.wait_bound(pods, 60)
        # 100 GPUs are 12.5 nodes. Each replica books only what it has scored itself, and learns the rest by watch.
        found = usage(cluster)
        assert found.gpus == 100
        assert 13 <= found.nodes <= 15
        for replica in (first, second):
            assert replica.asked("filter") >= 10
            wait_agreed(replica, cluster)
            assert replica.metric("internal_errors_total") == 0
        assert len(where) == len(pods)


def test_one_of_two_replicas_is_enough(plane, cluster, tmp_path):
    cluster.create_nodes(of_two_models(16))
    with (
        live_extender(plane, tmp_path, name="first") as first,
        live_extender(plane, tmp_path, name="second") as second,
        TcpProxy(first.url, second.url) as address,
        registered(plane, tmp_path, "1.37", address.url),
        Watchdog(cluster),
    ):
        pods = cluster.create_pods(burst(2))
        cluster.wait_bound(pods[:4])
        first.kill()
        pods += cluster.create_pods(burst(2, "later"))
        cluster.wait_bound(pods, 45)
        wait_agreed(second, cluster)


def registered_as_of(plane, folder, minor, url):
    if minor == "1.22":
        # Of the newer file in its older version: GPUs of today, and pods without them are not sent.
        listens = "".join(f"{key}: {address}\n" for key, address in insecure(plane).items())
        return registered(
            plane, folder, minor, url, changes={"config.k8s.io/v1\n": f"config.k8s.io/v1beta2\n{listens}"}
        )
    return registered(plane, folder, minor, url)


# ---------------------------------------------------------------- two schedulers


def test_two_schedulers_share_the_nodes(plane, cluster, tmp_path):
    cluster.create_nodes(of_two_models(12))
    with live_extender(plane, tmp_path) as extender:
        mine = shipped(plane, SECOND, tmp_path, extender.url, SECOND_SCHEDULER_USER)
        with (
            plane.scheduler("1.37", config=without_extender(plane, tmp_path)),
            plane.scheduler("1.37", config=mine, user=SECOND_SCHEDULER_USER),
            Kubelet(cluster.api),
            Watchdog(cluster),
        ):
            # By the default one two GPUs each on the first six nodes.
            named = [{"kubernetes.io/hostname": f"gpu-{n:02d}"} for n in range(6)]
            theirs = [pod(f"theirs-{n}", 2, nodeSelector=selector) for n, selector in enumerate(named)]
            begun = cluster.wait_bound(cluster.create_pods(theirs))
            wait_agreed(extender, cluster)
            # Pods without GPUs come by the default scheduler all the time, GPU pods by ours.
            cpu_only = cluster.create_pods([pod(f"cpu-{n}", cpu=2) for n in range(30)])
            ours = cluster.create_pods([pod(f"ours-{n}", 6, schedulerName=OURS) for n in range(6)])
            where = cluster.wait_bound([*ours, *cpu_only])
            # 6 = 8 - 2: each fills a node on which the other scheduler has begun; six nodes stay whole.
            assert {where[name_of(one)] for one in ours} == set(begun.values())
            assert usage(cluster).stranded[8] == 0
            wait_agreed(extender, cluster)
            assert extender.asked("filter") >= 6


def test_both_schedulers_may_ask_the_same_extender(plane, cluster, tmp_path):
    cluster.create_nodes(of_two_models(12))
    with live_extender(plane, tmp_path) as extender:
        mine = shipped(plane, SECOND, tmp_path, extender.url, SECOND_SCHEDULER_USER)
        with (
            registered(plane, tmp_path, "1.37", extender.url),
            plane.scheduler("1.37", config=mine, user=SECOND_SCHEDULER_USER),
            Watchdog(cluster),
        ):
            # Each has its model, so that their latest choices, which they do not tell each other, cannot collide.
            default = burst(2, "default", affinity=needs_model(A100.product))
            second = burst(2, "second", affinity=needs_model("NVIDIA-H100-80GB-HBM3"), schedulerName=OURS)
            pods = cluster.create_pods([one for pair in zip(default, second, strict=True) for one in pair])
            cluster.wait_bound(pods, 60)
            # 40 GPUs of each model are five nodes of each, all full.
            found = usage(cluster)
            assert (found.gpus, found.nodes, found.stranded[8]) == (80, 10, 0)
            wait_agreed(extender, cluster)
            assert extender.metric("internal_errors_total") == 0


# ---------------------------------------------------------------- nodes or names


def test_whole_nodes_in_the_question_change_no_placement(plane, cluster, tmp_path):
    placements = []
    for name, changes in (("names", {}), ("nodes", WHOLE_NODES)):
        (tmp_path / name).mkdir()
        cluster.create_nodes(of_two_models(16))
        # All are there from the start, and priorities give them an order.
        pods = burst(4)
        for number, one in enumerate(pods):
            one["spec"]["priorityClassName"] = cluster.priority_class(f"turn-{number}", 1000 - number)
        pods = cluster.create_pods(pods)
        with running(plane, cluster, tmp_path / name, changes=changes, scoring=UNPLANNED) as (extender, recorder):
            where = cluster.wait_bound(pods, 60)
            assert sum(map(gpus_of, pods)) == usage(cluster).gpus
            wait_agreed(extender, cluster)
        questions = [call.question for call in recorder.of("prioritize")]
        assert {question["Nodes"] is None for question in questions} == {not changes}
        asked = list(dict.fromkeys(call.pod for call in recorder.of("filter")))
        names = {uid_of(one): name_of(one) for one in pods}
        placements.append([(names[uid], where[names[uid]]) for uid in asked])
        cluster.clear()
    assert placements[0] == placements[1]


@pytest.mark.parametrize("minor", ["1.37", "1.22"])
def test_the_best_alone_is_placed_as_of_a_whole_ranking(plane, cluster, tmp_path, minor):
    placements = []
    for limit in ("1000", "0"):
        (tmp_path / limit).mkdir()
        cluster.create_nodes(of_two_models(16))
        pods = burst(3)
        for number, one in enumerate(pods):
            one["spec"]["priorityClassName"] = cluster.priority_class(f"turn-{number}", 1000 - number)
        pods = cluster.create_pods(pods)
        with (
            live_extender(plane, tmp_path / limit, verbs__ranked_up_to=limit, scoring__policy=UNPLANNED) as extender,
            recording(extender.url) as recorder,
            registered_as_of(plane, tmp_path / limit, minor, recorder.url),
        ):
            where = cluster.wait_bound(pods, 60)
        assert all(where[name_of(one)] == recorder.best(uid_of(one)) for one in pods)
        assert {len(call.scores()) == 1 for call in recorder.of("prioritize")} == {limit == "0"}
        placements.append(where)
        cluster.clear()
    assert placements[0] == placements[1]


# ---------------------------------------------------------------- one release more


@pytest.mark.parametrize("play", [play_types, play_waiting, play_packing])
def test_the_world_of_1_6_under_1_29(plane, cluster, tmp_path, play):
    play(plane, cluster, tmp_path, "1.29", DECIDES)
