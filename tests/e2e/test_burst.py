"""A burst of mixed pods, live: where `simulate` says, and better than without us or with half of the nodes offered."""

import json
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from controlplane.counting import Usage, gpus_of, name_of, uid_of, usage
from controlplane.objects import A100, H100, gfd_node, needs_model, pod
from controlplane.schedulerfiles import without_extender
from tests.e2e.recorder import recording
from tests.e2e.scenarios import SAMPLED, UNPLANNED, live_extender, registered, wait_agreed, wait_settled
from tests.e2e.watchdog import Watchdog

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# One pod in six needs a whole node; half of the GPUs asked for are in those.
SIZES, WEIGHTS = (1, 2, 4, 8), (9, 4, 3, 3)


def burst(count, seed=1):
    """Return pods by the size of a mixed day; a third of them name their model."""
    draw = Random(seed)
    pods = []
    for number in range(count):
        (gpus,) = draw.choices(SIZES, WEIGHTS)
        model = draw.choice([H100, A100, None, None, None, None])
        cpu = draw.choice((4, 8, 12))
        affinity = needs_model(model.product) if model else {}
        pods.append(pod(f"job-{number:04d}", gpus, cpu=cpu * gpus, memory_gib=8 * cpu * gpus, affinity=affinity))
    return pods


def mixed_nodes(count):
    """Return nodes of two models, two thirds of them H100."""
    return [gfd_node(f"gpu-{n:03d}", A100 if n % 3 == 0 else H100, cpu=112, memory_gib=1024) for n in range(count)]


def create_in_order(cluster, pods):
    return [cluster.create_pod(one) for one in pods]


def predicted(cluster, folder, order):
    """Ask `simulate` about the cluster with all pods waiting; `order` are their uids as kube-scheduler took them."""
    path = cluster.dump(folder / "burst.json")
    document = json.loads(path.read_text())
    for item in document["items"]:
        if item["kind"] == "Pod":
            # To simulate, age is the order; the server's stamps have whole seconds.
            second = order.index(uid_of(item))
            item["metadata"]["creationTimestamp"] = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
            item["spec"].pop("nodeName", None)
            item["status"] = {"phase": "Pending"}
    path.write_text(json.dumps(document))
    command = [sys.executable, "-m", "extender", "simulate", "--cluster", path, "--queue", "-o", "json"]
    command += ["--policy", "hole-aware"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode in {0, 1}, answer.stderr
    report = json.loads(answer.stdout)
    return {row["pod"].removeprefix("ml/"): row["node"] for row in report["placements"]}, report["summary"]


def as_bound(pods, where):
    return [{**one, "spec": {**one["spec"], "nodeName": where[name_of(one)] or ""}} for one in pods]


def first_asked(recorder):
    return list(dict.fromkeys(call.pod for call in recorder.of("filter")))


def test_a_burst_ends_as_simulate_predicts(plane, cluster, tmp_path):
    nodes = cluster.create_nodes(mixed_nodes(60))
    pods = create_in_order(cluster, burst(150))
    with live_extender(plane, tmp_path, scoring__policy=UNPLANNED) as extender, recording(extender.url) as recorder:
        with registered(plane, tmp_path, "1.37", recorder.url), Watchdog(cluster):
            where = cluster.wait_bound(pods, 90)
        order = first_asked(recorder)
        assert sorted(order) == sorted(uid_of(one) for one in pods)
        expected, summary = predicted(cluster, tmp_path, order)
        ours, theirs = usage(cluster), Usage.of(nodes, as_bound(pods, expected))
        assert summary["refused"] == 0
        assert ours == theirs
        # Each pod lands where we said 10, and bookings stand for what the watch has not told us yet: the same nodes.
        assert where == expected
        wait_agreed(extender, cluster)
        assert extender.metric("internal_errors_total") == 0


def test_pods_that_arrive_while_others_are_placed_use_hardly_more_nodes(plane, cluster, tmp_path):
    nodes = cluster.create_nodes(mixed_nodes(60))
    with live_extender(plane, tmp_path, scoring__policy=UNPLANNED) as extender, recording(extender.url) as recorder:
        with registered(plane, tmp_path, "1.37", recorder.url), Watchdog(cluster):
            pods = create_in_order(cluster, burst(150))
            cluster.wait_bound(pods, 90)
        expected, _ = predicted(cluster, tmp_path, first_asked(recorder))
        ours, theirs = usage(cluster), Usage.of(nodes, as_bound(pods, expected))
        # The forecast is what has arrived by then, and simulate has seen all of it from the start.
        assert ours.gpus == theirs.gpus
        assert abs(ours.nodes - theirs.nodes) <= 2
        for size, stranded in theirs.stranded.items():
            assert abs(ours.stranded[size] - stranded) <= 8, size


def placed_by(plane, cluster, folder, count, pods, url=None):
    """Place a burst on fresh nodes and return the usage."""
    cluster.create_nodes(mixed_nodes(count))
    folder.mkdir()
    if url is None:
        scheduler = plane.scheduler("1.37", config=without_extender(plane, folder))
    else:
        scheduler = registered(plane, folder, "1.37", url)
    with scheduler, Watchdog(cluster):
        wait_settled(cluster, create_in_order(cluster, pods))
        found = usage(cluster)
    cluster.clear()
    return found


def test_stock_settings_strand_more(plane, cluster, tmp_path):
    pods = burst(100)
    stock = placed_by(plane, cluster, tmp_path / "stock", 60, pods)
    with live_extender(plane, tmp_path) as extender:
        ours = placed_by(plane, cluster, tmp_path / "ours", 60, pods, extender.url)
    # Least-allocated spreads: every node loses a GPU or two first, and then no whole node is left.
    assert ours.gpus == sum(gpus_of(one) for one in pods) > stock.gpus
    assert ours.nodes < stock.nodes
    assert ours.stranded[8] + 40 < stock.stranded[8]
    assert ours.stranded[4] <= stock.stranded[4]


def stranded_on_the_way(plane, cluster, folder, url, changes=None):
    """Place 100 single-GPU pods on 440 nodes; sum after each how many are stranded for 8-GPU pods."""
    cluster.create_nodes(mixed_nodes(440))
    folder.mkdir()
    with recording(url) as recorder, registered(plane, folder, "1.37", recorder.url, changes=changes):
        pods = create_in_order(cluster, [pod(f"one-{n:03d}", 1) for n in range(100)])
        where = cluster.wait_bound(pods, 90)
    cluster.clear()
    names = {uid_of(one): name_of(one) for one in pods}
    held: Counter[str] = Counter()
    stranded = 0
    for uid in first_asked(recorder):
        held[where[names[uid]]] += 1
        stranded += sum(8 - gpus for gpus in held.values() if gpus < 8)
    return stranded, {len(call.nodes) for call in recorder.of("filter")}


def test_default_sampling_strands_more(plane, cluster, tmp_path):
    with live_extender(plane, tmp_path, scoring__policy=UNPLANNED) as extender:
        ours, _ = stranded_on_the_way(plane, cluster, tmp_path / "all", extender.url)
        sampled, offered = stranded_on_the_way(plane, cluster, tmp_path / "sampled", extender.url, SAMPLED)
    # One node after the other: 7 + 6 + ... + 0 = 28 for each of 12 nodes, and 7 + 6 + 5 + 4 for half a node.
    assert ours == 12 * 28 + 22
    # Each cycle sees another 206 of the 440 nodes, so there is a node begun in every window.
    assert offered == {206}
    assert sampled > 1.5 * ours
