"""The demo once more, this time nothing is simulated but the nodes: etcd, kube-apiserver and kube-scheduler run.

    python -m controlplane.livedemo

The same arrivals three times: kube-scheduler as installed, with MostAllocated, and with the shipped registration of the
extender, which follows the API server. The programs are those of the end-to-end tests; where they are missing and Go is
there, they are built first, which takes minutes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from controlplane import build, releases
from controlplane.api import Manifest
from controlplane.cluster import PODS, Cluster
from controlplane.counting import name_of
from controlplane.extenderprocess import ExtenderProcess
from controlplane.objects import is_refused, node_of
from controlplane.plane import EXTENDER_USER, Plane
from controlplane.processes import ProcessError, wait_for
from controlplane.schedulerfiles import shipped, without_extender
from extender import demo, intree, synthetic
from extender.demo import Outcome
from extender.dump import ClusterDump, read_dumps
from extender.errors import ClusterError
from extender.kube.gpurules import GpuRules
from extender.packing.snapshot import Snapshot

_MINOR: Final = releases.NEWEST.minor
_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.3
_LOOK_EVERY: Final = 50
_ARRIVING: Final = "demo=arriving"
_EPILOGUE: Final = f"""\
{demo.STRANDED}
Three times kube-scheduler {releases.NEWEST.kubernetes} and the same pods: as installed; with
MostAllocated, GPUs counting five times CPU and memory; with the registration of
policy/kube-scheduler-config.yaml and the service, which follows the API server."""


def most_allocated() -> Mapping[str, object]:
    """Return keys of a KubeSchedulerConfiguration: what `intree.most_allocated_profile` simulates."""
    weights = intree.most_allocated_profile([synthetic.GPU]).strategy.resources
    strategy = {"type": "MostAllocated", "resources": [{"name": name, "weight": weight} for name, weight in weights]}
    plugin = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    return {
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [plugin]}],
    }


class Stage:
    """The demo's cluster on a real API server."""

    def __init__(self, plane: Plane, console: Console, pods: int) -> None:
        """Create the nodes and what runs on them; `pods` arrive each time."""
        self._plane, self._console = plane, console
        self._cluster = Cluster(plane.api)
        key, _, value = _ARRIVING.partition("=")
        self._arrivals = [_postable(manifest, **{key: value}) for manifest in demo.arrival_manifests(pods)]
        self._cluster.create_nodes(synthetic.node_manifests(demo.CLUSTER))
        running = synthetic.running_pods(demo.CLUSTER, demo.SEED)
        self._running = len(self._cluster.create_pods(map(_postable, running)))

    def snapshot(self) -> Snapshot:
        """Return the cluster as the API server shows it."""
        dump = self._dump()
        return Snapshot.of(dump.nodes, dump.pods)

    def play(self, name: str) -> Outcome:
        """Let the pods arrive, wait until each has a node or was refused, look, and take them away again."""
        began = time.monotonic()
        with demo.progress_of(name, self._console) as progress:
            task = progress.add_task(name, total=len(self._arrivals))
            for at, pod in enumerate(self._arrivals):  # one after the other, in the order they arrive
                self._cluster.create_pod(pod)
                if at % _LOOK_EVERY == 0:
                    progress.update(task, completed=self._decided())
            while (decided := self._decided()) < len(self._arrivals):
                progress.update(task, completed=decided)
                self._check_time(began, decided)
                time.sleep(_POLL_SECONDS)
            progress.update(task, completed=decided)
        return self._seen(name, time.monotonic() - began)

    def clear(self) -> None:
        """Take the pods that arrived away again."""
        self._plane.api.delete(PODS, labelSelector=_ARRIVING)
        wait_for(lambda: len(self._cluster.pods()) == self._running, "the pods are gone")

    def _decided(self) -> int:
        """Return how many of the pods that arrived have a node, or were told that there is none."""
        pods = self._plane.api.items(PODS, resourceVersion="0", labelSelector=_ARRIVING)
        return sum(bool(node_of(pod)) or is_refused(pod) for pod in pods)

    def _check_time(self, began: float, decided: int) -> None:
        if time.monotonic() - began > _SECONDS:
            raise ClusterError(f"after {_SECONDS:.0f} s {decided} of {len(self._arrivals)} pods are decided")

    def _seen(self, name: str, seconds: float) -> Outcome:
        dump = self._dump()
        mine = {name_of(pod) for pod in self._arrivals}
        placed = [(pod, pod.node_name or None) for pod in dump.pods if pod.name in mine]
        return Outcome.of(name, Snapshot.of(dump.nodes, dump.pods), placed, seconds)

    def _dump(self) -> ClusterDump:
        items = [{"kind": "Node", **node} for node in self._cluster.nodes()]
        items += [{"kind": "Pod", **pod} for pod in self._cluster.pods()]
        return read_dumps([("live", json.dumps(synthetic.as_list(items)).encode())], GpuRules.default())


def _postable(manifest: Manifest, **labels: str) -> Manifest:
    """Return a pod without what the API server says itself, and with what it asks for."""
    meta = {key: manifest["metadata"][key] for key in ("name", "namespace", "annotations")}
    containers = [{**container, "image": "registry.example/job:1"} for container in manifest["spec"]["containers"]]
    return {"metadata": {**meta, "labels": labels}, "spec": {**manifest["spec"], "containers": containers}}


def run(pods: int, console: Console) -> None:
    """Play the demo and print the comparison."""
    with tempfile.TemporaryDirectory() as name, Plane(Path(name)) as plane:
        folder = Path(name)
        stage = Stage(plane, console, pods)
        console.print(f"{demo.opening(stage.snapshot(), pods)}\n")
        outcomes = []
        for title, scheduler in (
            ("kube-scheduler, default", _alone(plane, folder, {})),
            ("kube-scheduler, MostAllocated", _alone(plane, folder, most_allocated())),
            ("gpu-extender, registered", _with_extender(plane, folder)),
        ):
            with scheduler:
                outcomes.append(stage.play(title))
            stage.clear()
        console.print(demo.comparison(outcomes))
        console.print(_EPILOGUE)


@contextmanager
def _alone(plane: Plane, folder: Path, changes: Mapping[str, object]) -> Iterator[None]:
    config = without_extender(plane, folder, changes=changes)
    with plane.scheduler(_MINOR, config=config):
        yield


@contextmanager
def _with_extender(plane: Plane, folder: Path) -> Iterator[None]:
    with ExtenderProcess(folder, "--kubeconfig", plane.kubeconfig(EXTENDER_USER)) as extender:
        extender.wait_synced()
        with plane.scheduler(_MINOR, config=shipped(plane, "kube-scheduler-config.yaml", folder, extender.url)):
            yield


def main() -> int:
    """Build what is missing, play; 1 with one line on standard error when that cannot be."""
    console = Console(highlight=False)
    try:
        build.build_missing(releases.NEWEST)
        run(demo.PODS, console)
    except build.MissingProgramError as error:
        print(f"{error} (`make demo` needs nothing but Python)", file=sys.stderr)
        return 1
    except (ClusterError, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
