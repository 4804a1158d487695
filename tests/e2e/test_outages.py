"""Parts that fail in the middle of a burst, live: in the end every pod that fits is bound, none twice, none stuck."""

import signal
import socket
from contextlib import ExitStack

import pytest

from controlplane.counting import gpus_of, holds, usage
from controlplane.objects import A100, gfd_node, node_of, pod
from controlplane.processes import LOOPBACK, wait_for
from tests.e2e.scenarios import IGNORABLE, live_extender, registered, through, wait_agreed, wait_event
from tests.e2e.tcpproxy import TcpProxy
from tests.e2e.watchdog import Watchdog

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = 12
SIZES = (4, 1, 2, 8, 1, 2, 1, 1)  # 20 GPUs; four rounds fill ten nodes of 8


def burst(cluster, rounds=4, prefix="job"):
    return cluster.create_pods([pod(f"{prefix}-{r}-{n}", gpus) for r in range(rounds) for n, gpus in enumerate(SIZES)])


def bound(cluster):
    return sum(holds(one) for one in cluster.pods())


def texts(cluster):
    return "\n".join(event["message"] for event in cluster.events("FailedScheduling"))


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def wait_begun(cluster, count=6):
    wait_for(lambda: bound(cluster) >= count, f"{count} pods are bound", 30, 0.01)


def check_all_is_well(cluster, extender, pods):
    """Nothing is lost: all are bound, the service agrees, and it packs as before."""
    cluster.wait_bound(pods, 45)
    assert usage(cluster).gpus == sum(gpus_of(one) for one in pods)
    wait_agreed(extender, cluster)
    # 16 GPUs are left on two nodes: the service still finds a whole one for each.
    last = cluster.create_pods([pod(f"last-{n}", 8) for n in range(2)])
    cluster.wait_bound(last, 30)
    assert extender.metric("internal_errors_total") == 0


@pytest.mark.parametrize("changes", [pytest.param({}, id="waits"), pytest.param(IGNORABLE, id="ignorable")])
@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_the_extender_is_killed_and_comes_back(plane, cluster, tmp_path, minor, changes):
    cluster.create_nodes([gfd_node(f"gpu-{n:02d}") for n in range(NODES)])
    port = plane.free_port()
    with ExitStack() as stack:
        first = stack.enter_context(live_extender(plane, tmp_path, name="first", port=port))
        stack.enter_context(registered(plane, tmp_path, minor, first.url, changes=changes))
        stack.enter_context(Watchdog(cluster))
        pods = burst(cluster, 2)
        wait_begun(cluster)
        first.kill()
        wait_for(lambda: is_free(port), "nobody listens any more")
        during = burst(cluster, 2, "during")
        if changes:
            # Not all may fit: without us small pods spread, and whole nodes go.
            wait_for(lambda: bound(cluster) > len(pods), "pods are bound without the extender")
        else:
            wait_for(lambda: "connection refused" in texts(cluster), "kube-scheduler says what is wrong")
            assert not any(node_of(cluster.pod(f"during-1-{n}")) for n in range(8))
        second = stack.enter_context(live_extender(plane, tmp_path, name="second", port=port))
        if changes:
            wait_agreed(second, cluster)
            small = cluster.create_pods([pod("small", 1)])
            cluster.wait_bound(small, 15)
            assert second.asked("filter") >= 1
        else:
            check_all_is_well(cluster, second, pods + during)


def test_the_extender_hangs_longer_than_kube_scheduler_waits(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n:02d}") for n in range(NODES)])
    with (
        live_extender(plane, tmp_path) as extender,
        registered(plane, tmp_path, "1.37", extender.url),
        Watchdog(cluster),
    ):
        pods = burst(cluster, 2)
        wait_begun(cluster)
        extender.signal(signal.SIGSTOP)
        try:
            during = burst(cluster, 2, "during")
            wait_for(
                lambda: [
                    event for event in cluster.events("FailedScheduling") if "deadline exceeded" in event["message"]
                ],
                "kube-scheduler gives up on an answer (httpTimeout: 2s)",
            )
        finally:
            extender.signal(signal.SIGCONT)
        check_all_is_well(cluster, extender, pods + during)


def test_the_api_server_is_killed_and_comes_back(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n:02d}") for n in range(NODES)])
    with (
        live_extender(plane, tmp_path) as extender,
        registered(plane, tmp_path, "1.37", extender.url),
        Watchdog(cluster),
    ):
        pods = burst(cluster)
        wait_begun(cluster)
        plane.stop_api_server()
        try:
            # It knows what it knew, and goes on answering.
            assert extender.get("/healthz")[0] == 200
            assert extender.get("/readyz")[0] == 200
        finally:
            plane.start_api_server()
        check_all_is_well(cluster, extender, pods)


def test_the_watch_breaks_again_and_again(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node(f"gpu-{n:02d}") for n in range(NODES)])
    with (
        TcpProxy(server_of(plane)) as way,
        live_extender(plane, tmp_path, kubeconfig=through(plane, tmp_path, way.port)) as extender,
        registered(plane, tmp_path, "1.37", extender.url),
        Watchdog(cluster),
    ):
        before = way.connections
        pods = burst(cluster)
        for count in (4, 10, 18):
            wait_begun(cluster, count)
            way.cut()
        check_all_is_well(cluster, extender, pods)
        assert way.connections > before


def test_what_happened_while_the_watch_was_down_is_made_up_for(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("gpu-1")])
    with (
        TcpProxy(server_of(plane)) as way,
        live_extender(plane, tmp_path, kubeconfig=through(plane, tmp_path, way.port)) as extender,
        registered(plane, tmp_path, "1.37", extender.url),
        Watchdog(cluster),
    ):
        leaves, stays = cluster.create_pods([pod("leaves", 8), pod("stays", 8)])
        cluster.wait_bound([leaves, stays])
        wait_agreed(extender, cluster)
        way.close()
        # Unknown to the service: a pod has gone, a node with another model has joined.
        cluster.delete_pod(leaves)
        heir = cluster.create_pod(pod("heir", 4))
        # It trusts kube-scheduler that there is room.
        cluster.wait_bound([heir], 15)
        cluster.create_nodes([gfd_node("a100", A100)])
        typed = cluster.create_pod(pod("typed", 8, annotations={"gpu-extender.io/types": "A100"}))
        assert "not known yet" in wait_event(cluster, "typed", "known")
        way.open()
        assert cluster.wait_bound([typed], 30) == {"typed": "a100"}
        wait_agreed(extender, cluster)
        assert extender.metric("internal_errors_total") == 0


def server_of(plane):
    return f"https://127.0.0.1:{plane.api_port}"
