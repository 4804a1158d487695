"""Real kube-schedulers with a real API server: they bind, they read every file of policy/, and they follow our 10."""

import kubernetes
import pytest
import urllib3

from controlplane import releases
from controlplane.extenderprocess import ExtenderProcess
from controlplane.kubelet import Kubelet
from controlplane.objects import (
    A100,
    GPU,
    OLD_GPU,
    OLD_NAME,
    PRODUCT,
    RUN_SECONDS,
    gfd_node,
    mig_node,
    needs_model,
    node_of,
    old_node,
    phase_of,
    pod,
    shared_node,
)
from controlplane.plane import EXTENDER_USER, SECOND_SCHEDULER_USER
from controlplane.processes import ProcessError, wait_for
from controlplane.schedulerfiles import POLICY, insecure, shipped, without_extender
from tests.e2e.recorder import recording

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MINORS = [release.minor for release in releases.RELEASES]
LEGACY, V1BETA1 = "scheduler-policy.json", "kube-scheduler-config-v1beta1.yaml"
DECIDES, ADVISES = "kube-scheduler-config.yaml", "kube-scheduler-config-advisory.yaml"
SECOND = "kube-scheduler-config-second.yaml"

REGISTRATIONS = [
    pytest.param(minor, *files, id=f"{minor}-{'-'.join(name.rpartition('.')[0] for name in files if name)}")
    for minor, *files in [
        ("1.37", DECIDES, None),
        ("1.37", ADVISES, None),
        ("1.29", DECIDES, None),
        ("1.29", ADVISES, None),
        ("1.22", None, LEGACY),
        ("1.22", V1BETA1, LEGACY),
    ]
]


def an_extender(cluster, folder, **settings):
    """Serve the nodes as they are now; of pods it learns only what it is asked about."""
    return ExtenderProcess(
        folder, "--cluster", cluster.dump(folder / "cluster.json"), verbs__counts="scheduler", **settings
    )


def a_scheduler(plane, folder, minor, url, config, policy=None, **changes):
    files = {
        key: shipped(plane, name, folder, url, **changes)
        for key, name in (("config", config), ("policy", policy))
        if name
    }
    return plane.scheduler(minor, **files)


# ---------------------------------------------------------------- without an extender


@pytest.mark.parametrize("minor", MINORS)
def test_pods_are_bound_run_and_end_without_an_extender(plane, cluster, tmp_path, minor):
    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("gpu-1")])
    version = "v1beta1" if minor == "1.22" else "v1"
    config = without_extender(plane, tmp_path, version)
    with Kubelet(cluster.api), plane.scheduler(minor, config=config):
        first = cluster.create_pods([pod(f"first-{n}", 8, annotations={RUN_SECONDS: "1.5"}) for n in range(2)])
        assert set(cluster.wait_bound(first).values()) == {"gpu-0", "gpu-1"}
        (third,) = cluster.create_pods([pod("third", 8)])
        # Both nodes are full until the kubelet says that the first two have ended.
        events = wait_for(lambda: cluster.events("FailedScheduling", "third"), "third is told why it waits")
        assert "Insufficient nvidia.com/gpu" in events[0]["message"]
        cluster.wait_pod("first-0", lambda found: phase_of(found) == "Succeeded", "has succeeded")
        cluster.wait_bound([third])
        cluster.wait_pod("third", lambda found: phase_of(found) == "Running", "runs")


def test_1_22_binds_with_flags_alone(plane, cluster):
    cluster.create_nodes([gfd_node("gpu-0")])
    with plane.scheduler("1.22"):
        cluster.wait_bound(cluster.create_pods([pod("one", 1)]))


def test_a_scheduler_that_does_not_start_is_told_with_its_reason(plane, tmp_path):
    path = shipped(plane, DECIDES, tmp_path, filterVerb="filterverb")
    with (
        pytest.raises(ProcessError, match=r"unknown field .*filterverb"),
        plane.scheduler("1.37", config=path),
    ):
        pass


# ---------------------------------------------------------------- the shipped files


@pytest.mark.parametrize(("minor", "config", "policy"), REGISTRATIONS)
def test_pods_land_where_prioritize_says_ten(plane, cluster, tmp_path, minor, config, policy):
    make_node, resource = (old_node, OLD_GPU) if policy else (gfd_node, GPU)
    cluster.create_nodes([make_node(f"gpu-{n:02d}") for n in range(12)])
    with (
        an_extender(cluster, tmp_path) as extender,
        recording(extender.url) as recorder,
        a_scheduler(plane, tmp_path, minor, recorder.url, config, policy),
    ):
        pods = cluster.create_pods([pod(f"job-{n}", gpus, resource) for n, gpus in enumerate((4, 2, 1, 8, 1, 2))])
        where = cluster.wait_bound(pods)
        assert where == {a_pod["metadata"]["name"]: recorder.best(a_pod["metadata"]["uid"]) for a_pod in pods}
        # 4 + 2 + 1 + 8 + 1 + 2 = 18 GPUs: two nodes full and two GPUs on a third.
        assert len(set(where.values())) == 3
        assert extender.asked("filter") >= 6
        assert extender.asked("prioritize") >= 6
        assert extender.metric("internal_errors_total") == 0
        # Old ones send the whole pod, managedFields included; names only, in filter's order, for all.
        for call in recorder.of("prioritize"):
            assert call.question["Nodes"] is None
            assert call.nodes == recorder.of("filter", call.pod)[-1].answer["NodeNames"]


@pytest.mark.parametrize(("minor", "config", "policy"), REGISTRATIONS)
def test_typed_pods_get_their_model(plane, cluster, tmp_path, minor, config, policy):
    if policy:
        nodes, key, wanted, other = [old_node("k80"), old_node("p100", "Tesla-P100")], OLD_NAME, "Tesla-P100", "p100"
        resource = OLD_GPU
    else:
        nodes, key, wanted, other = [gfd_node("h100"), gfd_node("a100", A100)], PRODUCT, A100.product, "a100"
        resource = GPU
    cluster.create_nodes(nodes)
    with an_extender(cluster, tmp_path) as extender, a_scheduler(plane, tmp_path, minor, extender.url, config, policy):
        by_label = pod("by-label", 1, resource, affinity=needs_model(wanted, key=key))
        by_annotation = pod("by-annotation", 1, resource, annotations={"gpu-extender.io/types": wanted})
        where = cluster.wait_bound(cluster.create_pods([by_label, by_annotation]))
        assert where == {"by-label": other, "by-annotation": other}
        assert extender.metric("rejections_total") >= 1  # in-tree knows nothing of the annotation


def best_of_equals(cluster, recorder):
    """Return the node that gets the 10 while all are equal (the others get 9)."""
    (first,) = cluster.create_pods([pod("first", 1)])
    cluster.wait_bound([first])
    cluster.delete_pod(first)
    wait_for(lambda: not cluster.pods(), "the pod is gone")
    assert sorted(recorder.of("prioritize")[-1].scores().values()) == [9, 9, 9, 10]
    return recorder.best(first["metadata"]["uid"])


@pytest.mark.parametrize(("name", "follows"), [(DECIDES, True), (ADVISES, False)])
def test_one_weight_decides_the_other_advises(plane, cluster, tmp_path, name, follows):
    cluster.create_nodes([gfd_node(f"gpu-{n}") for n in range(4)])
    with (
        an_extender(cluster, tmp_path, verbs__tentative_seconds="0") as extender,
        recording(extender.url) as recorder,
        a_scheduler(plane, tmp_path, "1.37", recorder.url, name),
    ):
        best = best_of_equals(cluster, recorder)
        # An untolerated PreferNoSchedule taint costs 3 * 100 in-tree points; 10 against 9 is worth 1300 or 120.
        taint = {"key": "reserved", "value": "soon", "effect": "PreferNoSchedule"}
        cluster.patch_node(best, {"spec": {"taints": [taint]}, "metadata": {"labels": {"seen": "yes"}}})
        # Bound as soon as the scheduler has seen the node's change.
        cluster.wait_bound(cluster.create_pods([pod("probe", nodeSelector={"seen": "yes"})]))
        where = cluster.wait_bound(cluster.create_pods([pod("second", 1)]))
        assert (where["second"] == best) is follows


@pytest.mark.parametrize(("config", "offered"), [(V1BETA1, 200), (None, 100)])
def test_the_file_beside_the_policy_offers_all_nodes(plane, cluster, tmp_path, config, offered):
    cluster.create_nodes([old_node(f"gpu-{n:03d}") for n in range(200)])
    with (
        an_extender(cluster, tmp_path) as extender,
        recording(extender.url) as recorder,
        a_scheduler(plane, tmp_path, "1.22", recorder.url, config, LEGACY),
    ):
        cluster.wait_bound(cluster.create_pods([pod(f"job-{n}", 1, OLD_GPU) for n in range(3)]))
        assert {len(call.nodes) for call in recorder.of("prioritize")} == {offered}


def test_1_22_reads_the_newer_files_under_their_older_version(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("gpu-1")])
    listens = "".join(f"{key}: {address}\n" for key, address in insecure(plane).items())
    older = {"config.k8s.io/v1\n": f"config.k8s.io/v1beta2\n{listens}"}
    with (
        an_extender(cluster, tmp_path) as extender,
        a_scheduler(plane, tmp_path, "1.22", extender.url, DECIDES, **older),
    ):
        cluster.wait_bound(cluster.create_pods([pod("one", 1)]))
        assert extender.asked("prioritize") == 1


@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_a_second_scheduler_serves_the_pods_that_name_it(plane, cluster, tmp_path, minor):
    cluster.create_nodes([gfd_node("gpu-0"), gfd_node("gpu-1")])
    with (
        an_extender(cluster, tmp_path) as extender,
        plane.scheduler(minor, config=without_extender(plane, tmp_path)),
    ):
        mine = shipped(plane, SECOND, tmp_path, extender.url, SECOND_SCHEDULER_USER)
        pods = cluster.create_pods([pod("stays", 1), pod("waits", 1, schedulerName="gpu-scheduler")])
        cluster.wait_bound(pods[:1])
        assert node_of(cluster.pod("waits")) == ""
        with plane.scheduler(minor, config=mine, user=SECOND_SCHEDULER_USER):
            cluster.wait_bound(pods)
            leases = cluster.api.items("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
            assert "gpu-scheduler" in {lease["metadata"]["name"] for lease in leases}
        assert extender.asked("filter") == 1
        sources = {
            event["involvedObject"]["name"]: event["reportingComponent"] for event in cluster.events("Scheduled")
        }
        assert sources == {"stays": "default-scheduler", "waits": "gpu-scheduler"}


def test_every_file_of_policy_is_tried_above():
    tried = {name for case in REGISTRATIONS for name in case.values[1:] if name} | {SECOND}
    assert tried == {path.name for path in POLICY.iterdir()}


# ---------------------------------------------------------------- what later tests stand on


def test_the_extenders_user_may_read_nodes_and_pods_and_nothing_else(plane, cluster):
    cluster.create_nodes([gfd_node("gpu-0")])
    with kubernetes.config.new_client_from_config(str(plane.kubeconfig(EXTENDER_USER))) as client:
        core = kubernetes.client.CoreV1Api(client)
        assert len(core.list_node().items) == 1
        assert core.list_pod_for_all_namespaces().items == []
        for refused in (lambda: core.delete_node("gpu-0"), core.list_secret_for_all_namespaces):
            with pytest.raises(kubernetes.client.ApiException) as caught:
                refused()
            assert caught.value.status == 403


def test_the_server_may_be_away_for_a_while_and_forgets_nothing(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("gpu-0")])
    with plane.scheduler("1.37", config=without_extender(plane, tmp_path)):
        plane.stop_api_server()
        with pytest.raises(urllib3.exceptions.HTTPError):
            cluster.nodes()
        plane.start_api_server()
        cluster.wait_bound(cluster.create_pods([pod("one", 1)]))


def test_the_server_takes_every_kind_of_node(cluster):
    cluster.create_nodes([gfd_node("whole"), old_node("old"), mig_node("cut", _1g__10gb=14), shared_node("shared")])
    found = {node["metadata"]["name"]: node["status"]["allocatable"] for node in cluster.nodes()}
    assert found["whole"]["nvidia.com/gpu"] == "8"
    assert found["old"][OLD_GPU] == "8"
    assert (found["cut"]["nvidia.com/gpu"], found["cut"]["nvidia.com/mig-1g.10gb"]) == ("0", "14")
    assert found["shared"]["nvidia.com/gpu"] == "16"  # 4 GPUs x 4 replicas
