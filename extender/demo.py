"""The demo: one synthetic cluster, the same arrivals three times, the third through the real service over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from extender import intree, synthetic, terminal
from extender.dump import ClusterDump, read_dumps, read_pods
from extender.errors import ClusterError
from extender.kube.gpurules import GpuRules
from extender.packing.fragmentation import stranded_by_size
from extender.packing.gpu import Match
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.packing.victims import candidate_victims, preferred_node
from extender.schedulerclient import HttpExtender
from extender.simulate import Extender, KubeScheduler, SchedulerConfig, schedule_all
from extender.synthetic import Manifest

PODS: Final = 700
SEED: Final = 7
LARGEST: Final = 8
SIZES: Final = (2, 4, 8)
URGENT: Final = {"H100": (2, 4, 8), "A100": (2, 4, 8), "L40S": (1, 2, 4), "P100": (1, 2, 4)}
CLUSTER: Final = replace(synthetic.MIXED_CLUSTER, busy_share=0.35)
_START_SECONDS = 30.0
_PLANNED: Final = b'gpu_extender_plan_timestamp_seconds{what="quotas"}'
_LISTENING = re.compile(r"listening on (http://\S+)")


def cluster_manifests(seed: int = SEED) -> list[Manifest]:
    """Return the demo's nodes and running pods."""
    return [*synthetic.node_manifests(CLUSTER), *synthetic.running_pods(CLUSTER, seed)]


def arrival_manifests(pods: int = PODS, seed: int = SEED) -> list[Manifest]:
    """Return the demo's arrivals."""
    return list(synthetic.Arrivals(CLUSTER, synthetic.TYPED_WORKLOAD, seed).pods(pods))


def urgent_manifests() -> list[Manifest]:
    """Return urgent pods that name their model by our annotation alone, so that in-tree filters cannot see it."""
    return [_urgent(model, gpus) for model, sizes in URGENT.items() for gpus in sizes]


def _urgent(model: str, gpus: int) -> Manifest:
    request = {"cpu": str(4 * gpus), "memory": f"{24 * gpus}Gi", synthetic.GPU: str(gpus)}
    wish = {"gpu-extender.io/types": model}
    return synthetic.pod_manifest(f"urgent-{model.lower()}-{gpus}", request, priority=1000, annotations=wish)


def _as_json(items: list[Manifest]) -> bytes:
    return json.dumps(synthetic.as_list(items)).encode()


def cluster_dump(rules: GpuRules) -> ClusterDump:
    """Return the demo's cluster as a dump."""
    return read_dumps([("demo", _as_json(cluster_manifests()))], rules)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way of scheduling made of the arrivals; ``evicted_in_vain`` is None where nobody has tried it."""

    name: str
    allocated: int
    refused_large: int
    stranded: Mapping[int, int]
    seconds: float
    evicted_in_vain: int | None = None

    @classmethod
    def of(
        cls, name: str, snapshot: Snapshot, placements: Iterable[tuple[PodInfo, str | None]], seconds: float
    ) -> Self:
        """Look at what is left once each arrival has its node, or none."""
        refused = sum(node is None and pod.gpu.count == LARGEST for pod, node in placements)
        stranded = stranded_by_size(snapshot, synthetic.GPU, SIZES)
        return cls(name, allocated(snapshot), refused, stranded, seconds)


@contextmanager
def running_service(cluster: Path) -> Iterator[str]:
    """Start the real service on a cluster file; yield its URL; stop it."""
    command = [sys.executable, "-m", "extender", "serve", "--cluster", str(cluster), "--listen", "127.0.0.1:0"]
    # The defaults, whatever the environment says of a service that is not this one.
    defaults = {"GPU_EXTENDER_SCORING__POLICY": "planned", "GPU_EXTENDER_PLANNING__ENABLED": "true"}
    env = {**os.environ, **defaults, "GPU_EXTENDER_VERBS__BIND": "true"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:  # noqa: S603 - our own program
        try:
            yield _ready(process)
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _ready(process: subprocess.Popen[str]) -> str:
    """Return the service's URL once it says that it is ready."""
    for line in process.stdout or ():
        if found := _LISTENING.search(line):
            _await(f"{found[1]}/readyz", b"")
            # Ready is who can answer; arrivals in a real cluster leave the planner time to speak for the first time.
            _await(f"{found[1]}/metrics", _PLANNED)
            return found[1]
    raise ClusterError("the service ended before it listened; its own message is above")


def _await(url: str, said: bytes) -> None:
    """Wait until the service answers with something that has these words."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - loopback
            if said in answer.read():
                return
        time.sleep(0.05)
    raise ClusterError(f"{url} did not become ready")


class Demonstration:
    """One cluster, one list of arrivals, and the outcomes of the ways to schedule them."""

    def __init__(self, pods: int, seed: int, console: Console) -> None:
        rules = GpuRules.default()
        self._seed, self._console = seed, console
        self._manifests = [*arrival_manifests(pods, seed), *urgent_manifests()]
        self.cluster = cluster_manifests(seed)
        dump = read_dumps([("demo", _as_json(self.cluster))], rules)
        self.start = Snapshot.of(dump.nodes, dump.pods)
        infos = read_pods([("arrivals", _as_json(self._manifests))], rules).pods
        self.arrivals, self.urgent = infos[:pods], infos[pods:]

    @property
    def by_uid(self) -> Mapping[str, Manifest]:
        """Return the arriving Pod objects by uid."""
        return {manifest["metadata"]["uid"]: manifest for manifest in self._manifests}

    def run(self, name: str, extender: Extender | None, profile: intree.Profile = intree.STOCK) -> Outcome:
        """Schedule all arrivals with a progress bar, then look at what is left."""
        scheduler = KubeScheduler(self.start, extender, SchedulerConfig(profile, seed=self._seed))
        began = time.monotonic()
        with progress_of(name, self._console) as progress:
            task = progress.add_task(name, total=len(self.arrivals))
            placements = schedule_all(scheduler, self.arrivals, lambda _: progress.advance(task))
        snapshot = scheduler.snapshot
        in_vain = sum(self._evicted_in_vain(snapshot, pod, extender) for pod in self.urgent)
        seconds = time.monotonic() - began
        outcome = Outcome.of(name, snapshot, ((p.pod, p.node) for p in placements), seconds)
        return replace(outcome, evicted_in_vain=in_vain)

    def _evicted_in_vain(self, snapshot: Snapshot, pod: PodInfo, extender: Extender | None) -> int:
        """Count the pods kube-scheduler would evict for an urgent pod on a node whose model the pod cannot use."""
        # In-tree filters do not read annotations: the dry run sees a pod without a type.
        found = candidate_victims(snapshot, replace(pod, gpu=replace(pod.gpu, types=())))
        if isinstance(extender, HttpExtender):
            uids = {node: [victim.uid for victim in victims] for node, victims in found.items()}
            found = {node: found[node] for node in extender.preempt(pod, uids)}
        node = preferred_node(found)
        if node is None:
            return 0
        model = snapshot.table.nodes[snapshot.table.index[node]].gpus[synthetic.GPU]
        return 0 if pod.gpu.match(model) is Match.YES else len(found[node])


def allocated(snapshot: Snapshot) -> int:
    """Return the GPUs that pods hold."""
    at = snapshot.table.axis.index[synthetic.GPU]
    return int(snapshot.used[at].sum())


def run(pods: int, seed: int) -> None:
    """Run the demo and print the comparison."""
    console = terminal.console()
    demo = Demonstration(pods, seed, console)
    console.print(f"{opening(demo.start, pods)}\n")
    outcomes = [
        demo.run("kube-scheduler, default", None),
        demo.run("kube-scheduler, MostAllocated", None, intree.most_allocated_profile([synthetic.GPU])),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_bytes(_as_json(demo.cluster))
        with running_service(path) as url:
            client = HttpExtender(f"{url}/scheduler", demo.by_uid)
            outcomes.append(demo.run("gpu-extender, over HTTP", client))
            client.close()
    console.print(comparison(outcomes))
    console.print(_EPILOGUE)


def opening(start: Snapshot, pods: int) -> str:
    """Return the sentence that says what the demo begins with."""
    models = [group for group in CLUSTER.groups if group.gpus]
    return (
        f"{sum(group.nodes for group in models)} GPU nodes, {CLUSTER.gpus} GPUs of {len(models)} models, "
        f"{allocated(start)} of them busy; {pods} pods arrive."
    )


def progress_of(name: str, console: Console) -> Progress:
    """Return a progress bar with a name."""
    return Progress(TextColumn(f"{name:<30}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)


def comparison(outcomes: Sequence[Outcome]) -> Table:
    """Return the outcomes side by side."""
    table = Table(title="The same arrivals, three ways", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.name.replace(", ", "\n"), justify="right")
    table.add_row(f"GPUs allocated, of {CLUSTER.gpus}", *(str(o.allocated) for o in outcomes))
    table.add_row("8-GPU pods refused", *(str(o.refused_large) for o in outcomes))
    for size in SIZES:
        table.add_row(f"GPUs stranded for {size}-GPU pods", *(str(o.stranded[size]) for o in outcomes))
    if all(o.evicted_in_vain is not None for o in outcomes):
        table.add_row("pods evicted in vain *", *(str(o.evicted_in_vain) for o in outcomes))
    table.add_row("seconds", *(f"{o.seconds:.1f}" for o in outcomes))
    return table


STRANDED: Final = "Stranded: free, but on nodes with fewer GPUs free than such a pod needs."
_EPILOGUE: Final = f"""\
{STRANDED}
* for urgent pods that name their GPU model by annotation: kube-scheduler's
  preemption picks nodes of other models too; our preempt verb drops those.

Keep the service running on this cluster, and ask it:
  make run
  curl -s localhost:8888/readyz
  curl -s localhost:8888/metrics | grep gpu_extender_gpus
The same answers from a dump, without a service:
  .venv/bin/gpu-extender synthetic > cluster.json
  .venv/bin/gpu-extender gpus --cluster cluster.json"""
