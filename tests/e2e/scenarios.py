"""What the scenarios share: the service following the live API server, the shipped registrations, and what was used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controlplane.api import Manifest
from controlplane.cluster import Cluster
from controlplane.counting import name_of, usage
from controlplane.extenderprocess import ExtenderProcess
from controlplane.kubelet import Kubelet
from controlplane.objects import is_refused, node_of
from controlplane.plane import EXTENDER_USER, Plane
from controlplane.processes import Process, wait_for
from controlplane.schedulerfiles import shipped
from tests.e2e.recorder import Recorder, recording
from tests.e2e.watchdog import Watchdog

LEGACY: Final = "scheduler-policy.json"
V1BETA1: Final = "kube-scheduler-config-v1beta1.yaml"
DECIDES: Final = "kube-scheduler-config.yaml"
SECOND: Final = "kube-scheduler-config-second.yaml"
# What can be foretold to the node: when the planner speaks up depends on how two processes keep pace.
UNPLANNED: Final = "hole-aware"

EVERY_POD: Final = {
    "    managedResources:\n      - name: nvidia.com/gpu\n        ignoredByScheduler: false\n": "",
}
"""Change of DECIDES that sends every pod: the alpha resource may not stand in managedResources."""
IGNORABLE: Final = {"    ignorable: false\n": "    ignorable: true\n"}
WHOLE_NODES: Final = {"    nodeCacheCapable: true\n": "    nodeCacheCapable: false\n"}
SAMPLED: Final = {"percentageOfNodesToScore: 100\n": ""}


# ---------------------------------------------------------------- processes


@contextmanager
def live_extender(
    plane: Plane,
    folder: Path,
    *,
    name: str = "extender",
    kubeconfig: Path | None = None,
    port: int = 0,
    **settings: str,
) -> Iterator[ExtenderProcess]:
    """Run the service on the live cluster, ready to answer; `kubeconfig` is that of the extender's user by default."""
    source = kubeconfig or plane.kubeconfig(EXTENDER_USER)
    with ExtenderProcess(folder, "--kubeconfig", source, name=name, port=port, **settings) as extender:
        extender.wait_synced()
        yield extender


@contextmanager
def registered(
    plane: Plane,
    folder: Path,
    minor: str,
    url: str,
    *,
    config: str | None = DECIDES,
    policy: str | None = None,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """Run a kube-scheduler with the shipped files and the extender at `url`; `changes` are of the config."""
    config_file = shipped(plane, config, folder, url, **(changes or {})) if config else None
    policy_file = shipped(plane, policy, folder, url) if policy else None
    with plane.scheduler(minor, config=config_file, policy=policy_file) as scheduler:
        yield scheduler


@contextmanager
def running(
    plane: Plane,
    cluster: Cluster,
    folder: Path,
    minor: str = "1.37",
    *,
    config: str | None = DECIDES,
    policy: str | None = None,
    changes: Mapping[str, str] | None = None,
    scoring: str = "planned",
) -> Iterator[tuple[ExtenderProcess, Recorder]]:
    """Run the service, a recorder before it, a kube-scheduler, all kubelets, and a watchdog over the GPUs."""
    with (
        live_extender(plane, folder, scoring__policy=scoring) as extender,
        recording(extender.url) as recorder,
        registered(plane, folder, minor, recorder.url, config=config, policy=policy, changes=changes),
        Kubelet(cluster.api),
        Watchdog(cluster),
    ):
        yield extender, recorder
        assert extender.metric("internal_errors_total") == 0


def through(plane: Plane, folder: Path, port: int) -> Path:
    """Write the extender's kubeconfig with the API server behind another port of this machine."""
    document = json.loads(plane.kubeconfig(EXTENDER_USER).read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = folder / f"through-{port}.kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


# ---------------------------------------------------------------- waiting and judging


def wait_event(cluster: Cluster, pod: str, words: str, reason: str = "FailedScheduling", seconds: float = 30.0) -> str:
    """Wait for an event about a pod that has these words; return its message."""

    def found() -> str:
        return next((event["message"] for event in cluster.events(reason, pod) if words in event["message"]), "")

    try:
        return wait_for(found, f"an event about {pod} says {words!r}", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; events: {[event['message'] for event in cluster.events(None, pod)]}") from error


def wait_allocated(extender: ExtenderProcess, count: int, model: str, metric: str = "gpus") -> None:
    """Wait until the service counts so many GPUs of a model held, or `gpu_slices`."""
    wait_for(
        lambda: int(extender.metric(metric, state="allocated", model=model)) == count, f"{model}: {count} are held"
    )


def wait_known(extender: ExtenderProcess, model: str) -> None:
    """Wait until the service knows a node of a model."""
    wait_for(lambda: extender.metric("gpus", model=model), f"a node of model {model} is known")


def wait_agreed(extender: ExtenderProcess, cluster: Cluster, seconds: float = 15.0) -> None:
    """Wait until the service counts as many GPUs held as the API server's pods hold."""
    wait_for(
        lambda: int(extender.metric("gpus", state="allocated")) == usage(cluster).gpus,
        "the extender counts what the API server holds",
        seconds,
    )


def wait_settled(cluster: Cluster, pods: Iterable[Manifest], seconds: float = 90.0) -> dict[str, str]:
    """Wait until each of these pods is bound or was told that it does not fit; return pod name -> node of the bound."""
    names = {name_of(pod) for pod in pods}
    found: dict[str, Manifest] = {}

    def settled() -> bool:
        found.clear()
        found.update({name_of(pod): pod for pod in cluster.pods() if name_of(pod) in names})
        return len(found) == len(names) and all(node_of(pod) or is_refused(pod) for pod in found.values())

    wait_for(settled, f"{len(names)} pods are bound or refused", seconds, 0.2)
    return {name: node_of(pod) for name, pod in found.items() if node_of(pod)}
