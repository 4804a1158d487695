"""The world of Kubernetes 1.6: the alpha resource, models in an administrator's label, CUDA mounted from the host."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from controlplane.api import Manifest
from controlplane.cluster import Cluster
from controlplane.counting import name_of, uid_of
from controlplane.extenderprocess import ExtenderProcess
from controlplane.objects import OLD_GPU, OLD_NAME, RUN_SECONDS, needs_model, node, node_of, old_node, phase_of, pod
from controlplane.plane import Plane
from controlplane.processes import wait_for
from tests.e2e.recorder import Recorder
from tests.e2e.scenarios import EVERY_POD, LEGACY, running, wait_agreed

K80: Final = "Tesla-K80"
P100: Final = "Tesla-P100"
GTX: Final = "GTX_970"
_CUDA: Final = "/usr/lib/nvidia-375"


def old_pod(name: str, gpus: int, *models: str, seconds: float | None = None) -> Manifest:
    """Return a pod with CUDA mounted from the host; it takes these models only, by required node affinity."""
    annotations = {} if seconds is None else {RUN_SECONDS: str(seconds)}
    made = pod(name, gpus, OLD_GPU, memory_gib=2, annotations=annotations)
    if models:
        made["spec"]["affinity"] = needs_model(*models, key=OLD_NAME)
    made["spec"]["volumes"] = [{"name": "cuda", "hostPath": {"path": _CUDA}}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "cuda", "mountPath": "/usr/local/nvidia"}]
    return made


def old_cluster() -> list[Manifest]:
    """Return three K80 nodes of 8 GPUs, two P100 nodes of 4, a desk with a GTX 970 and a node without GPUs."""
    return [
        *(old_node(f"k80-{n}", K80) for n in range(3)),
        *(old_node(f"p100-{n}", P100, 4) for n in range(2)),
        old_node("desk", GTX, 1),
        node("no-gpu"),
    ]


def world(
    plane: Plane, cluster: Cluster, folder: Path, minor: str, config: str | None
) -> AbstractContextManager[tuple[ExtenderProcess, Recorder]]:
    """Run everything; 1.22 gets the legacy Policy, the newer ones send every pod as it does."""
    if minor == "1.22":
        return running(plane, cluster, folder, minor, config=config, policy=LEGACY)
    return running(plane, cluster, folder, minor, config=config, changes=EVERY_POD)


def play_types(plane: Plane, cluster: Cluster, folder: Path, minor: str, config: str | None) -> None:
    """Two waves of jobs that end, each as large as all typed GPUs: the second gets in by itself."""
    cluster.create_nodes(old_cluster())
    both, models = (K80, P100), {"k80": K80, "p100": P100}
    # 8 + 4 + 2 + 2 + 8 + 4 + 4 * 1 = 32 GPUs on 3 * 8 K80 and 2 * 4 P100.
    shapes = [("a", 8, both), ("b", 4, both), ("c", 2, both), ("d", 2, both), ("e", 8, (K80,)), ("f", 4, (P100,))]
    shapes += [(f"g{n}", 1, both) for n in range(4)]
    with world(plane, cluster, folder, minor, config) as (extender, _):
        waves = [
            [old_pod(f"{wave}-{shape[0]}", *shape[1:2], *shape[2], seconds=3) for shape in shapes] for wave in "12"
        ]
        jobs = cluster.create_pods([*waves[0], old_pod("untyped", 1, seconds=3), *waves[1]])
        where = cluster.wait_bound(jobs, 90)
        for job in (*waves[0], *waves[1]):
            assert models[where[name_of(job)].split("-")[0]] in _accepted(job), name_of(job)
        wait_for(lambda: all(phase_of(job) == "Succeeded" for job in cluster.pods()), "all end")
        wait_agreed(extender, cluster)
        # Pods without GPUs are sent as well, and are left alone.
        cluster.wait_bound(cluster.create_pods([pod("no-gpu", 0)]))


def play_waiting(plane: Plane, cluster: Cluster, folder: Path, minor: str, config: str | None) -> None:
    """A typed pod waits while only GPUs of another model are free, and gets in when one of its own finishes."""
    cluster.create_nodes([old_node("k80-0", K80), old_node("p100-0", P100, 4), old_node("p100-1", P100, 4)])
    with world(plane, cluster, folder, minor, config) as (extender, _):
        first = cluster.create_pods([old_pod(f"p100-{n}", 4, P100) for n in range(2)])
        cluster.wait_bound(first)
        (waiting,) = cluster.create_pods([old_pod("waiting", 4, P100)])
        events = wait_for(lambda: cluster.events("FailedScheduling", "waiting"), "it is told why it waits")
        assert f"Insufficient {OLD_GPU}" in events[0]["message"]
        assert node_of(cluster.pod("waiting")) == ""
        cluster.set_phase(first[0], "Succeeded")
        assert cluster.wait_bound([waiting], 30) == {"waiting": node_of(cluster.pod(name_of(first[0])))}
        wait_agreed(extender, cluster)


def play_packing(plane: Plane, cluster: Cluster, folder: Path, minor: str, config: str | None) -> None:
    """Small pods leave a whole K80 node for the one that needs it, whatever in-tree scoring would rather do."""
    cluster.create_nodes(old_cluster())
    with world(plane, cluster, folder, minor, config) as (_, recorder):
        small = cluster.create_pods([old_pod(f"small-{n}", 1, K80) for n in range(8)])
        where = cluster.wait_bound(small)
        assert len(set(where.values())) == 1
        whole = cluster.create_pods([old_pod(f"whole-{n}", 8, K80) for n in range(2)])
        where |= cluster.wait_bound(whole)
        assert len({where[name_of(one)] for one in (*small, *whole)}) == 3
        # The last whole node was the only one left: kube-scheduler did not ask which is best.
        best = {name_of(one): recorder.best(uid_of(one)) for one in (*small, *whole)}
        assert [name for name, node in best.items() if node not in {None, where[name]}] == []


def _accepted(job: Manifest) -> list[str]:
    terms = job["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    accepted: list[str] = terms["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    return accepted
