"""From start to ready on a live cluster: seconds and memory, and what of them the API server takes.

    python -m benchmarks.start_to_ready            5,000 nodes, 50,000 bound pods; creating them takes minutes
    python -m benchmarks.start_to_ready --small    100 nodes, 1,000 pods

etcd and kube-apiserver run on loopback (controlplane/); nodes are of 15 KB and pods of 7 KB as the API server writes
them, four pods of a node with a GPU. Two things alternate, each in a process of its own:

    download   the lists, page by page as the service asks for them, nodes beside pods, by the same client: nothing is
               read but the token of the next page. What the API server, TLS and HTTP take.
    start      `gpu-extender serve --kubeconfig` until /readyz says so

Ours is the difference. Memory is that of the serving process. Writes benchmarks/results/start_to_ready.json.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import livecluster, markdown, measured
from controlplane import build, releases
from controlplane.cluster import Cluster
from controlplane.extenderprocess import ExtenderProcess
from controlplane.plane import EXTENDER_USER, Plane
from controlplane.processes import Process
from extender.kube.access import Access
from extender.kube.client import ApiClient
from extender.kube.gpurules import GpuRules
from extender.kube.objects import pod_kind
from extender.kube.reflector import Pace

RESULTS: Final = Path(__file__).parent / "results" / "start_to_ready.json"
SECONDS_GOAL: Final = 2.0
MEGABYTES_GOAL: Final = 250.0
_READY_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 2.0
_MEGABYTE: Final = 1e6
_MORE: Final = re.compile(rb'"continue":"([^"]*)"')
_HEAD_BYTES: Final = 4096


@dataclass(frozen=True)
class Download:
    """The bare lists; `cpu_seconds` are the client's."""

    seconds: float
    megabytes: float
    cpu_seconds: float
    server_cpu_seconds: float


@dataclass(frozen=True)
class Start:
    """One start of the service; `listening` and `ready` are seconds since the process was started."""

    listening: float
    ready: float
    cpu_seconds: float
    server_cpu_seconds: float
    megabytes: float
    most_megabytes: float


# -- the bare lists ------------------------------------------------------------------------------------------------


def download(kubeconfig: Path) -> int:
    """List nodes and pods as the reflectors do, at the same time; return the bytes."""
    api = ApiClient(Access(str(kubeconfig)).configuration)
    pods = pod_kind(GpuRules.default(), lambda _: None)
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda path, selector: counts.append(_pages(api, path, selector)), args=what)
        for what in (("/api/v1/nodes", ""), (pods.path, pods.selector))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == len(threads), "a list has failed"
    return sum(counts)


def _pages(api: ApiClient, path: str, selector: str) -> int:
    query = {"limit": str(Pace().page_size)} | ({"fieldSelector": selector} if selector else {})
    total, more = 0, ""
    while True:
        body = api.get(path, query | ({"continue": more} if more else {}), doing="list")
        total += len(body)
        found = _MORE.search(body[:_HEAD_BYTES])
        if found is None:
            return total
        more = found[1].decode()


# -- measuring -----------------------------------------------------------------------------------------------------


class Bench:
    """A control plane with nodes and bound pods."""

    def __init__(self, plane: Plane, nodes: int, pods: int) -> None:
        """Create all of them, several at a time."""
        self._plane = plane
        self._kubeconfig = plane.kubeconfig(EXTENDER_USER)
        cluster = Cluster(plane.api)
        cluster.create_nodes(livecluster.nodes(nodes))
        cluster.create_pods(livecluster.crowd(pods, nodes))

    def download(self) -> Download:
        """Measure the lists in a process of its own."""
        before = self._plane.cpu_seconds()
        command = [sys.executable, "-m", "benchmarks.start_to_ready", "--download", str(self._kubeconfig)]
        with Process("download", command, self._folder("download")) as process:
            assert process.wait_end(_READY_SECONDS) == 0, process.tail()
            said = json.loads(process.text().splitlines()[-1])
        server_cpu = self._plane.cpu_seconds() - before
        return Download(said["seconds"], said["bytes"] / _MEGABYTE, said["cpu_seconds"], server_cpu)

    def start(self) -> Start:
        """Start the service and wait until it is ready."""
        before, began = self._plane.cpu_seconds(), time.monotonic()
        with ExtenderProcess(self._folder("start"), "--kubeconfig", self._kubeconfig) as service:
            listening = time.monotonic() - began
            service.wait_synced(_READY_SECONDS)
            ready = time.monotonic() - began
            cpu, server_cpu = service.cpu_seconds(), self._plane.cpu_seconds() - before
            time.sleep(_SETTLE_SECONDS)
            memory = (max(service.memory_bytes(line)) / _MEGABYTE for line in ("VmRSS", "VmHWM"))
            return Start(listening, ready, cpu, server_cpu, *memory)

    def _folder(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=name, dir=self._plane.folder))


def measure(nodes: int, pods: int, rounds: int) -> Iterator[tuple[Download, Start]]:
    """Yield one round after the other."""
    with tempfile.TemporaryDirectory() as folder, Plane(Path(folder)) as plane:
        began = time.monotonic()
        bench = Bench(plane, nodes, pods)
        print(f"{nodes:,} nodes and {pods:,} pods stand in {time.monotonic() - began:.0f} s", file=sys.stderr)
        for _ in range(rounds):
            pair = bench.download(), bench.start()
            print(f"download {pair[0].seconds:.1f} s, ready {pair[1].ready:.1f} s", file=sys.stderr, flush=True)
            yield pair


def summarise(nodes: int, pods: int, rounds: Sequence[tuple[Download, Start]]) -> dict[str, Any]:
    """Return the medians over the rounds; ours is the difference within each."""
    downloads, starts = ([asdict(one) for one in column] for column in zip(*rounds, strict=True))
    seconds = statistics.median(start.ready - bare.seconds for bare, start in rounds)
    cpu_seconds = statistics.median(start.cpu_seconds - bare.cpu_seconds for bare, start in rounds)
    return {
        "nodes": nodes,
        "pods": pods,
        "rounds": len(rounds),
        "download": {key: round(statistics.median(row[key] for row in downloads), 2) for key in downloads[0]},
        "start": {key: round(statistics.median(row[key] for row in starts), 2) for key in starts[0]},
        "ours_seconds": round(seconds, 2),
        "ours_cpu_seconds": round(cpu_seconds, 2),
    }


def table(row: Mapping[str, Any]) -> str:
    """Return the figures as a Markdown table."""
    bare, start = row["download"], row["start"]
    lines = [
        ("until it listens", f"{start['listening']:.1f} s", "", ""),
        ("until it is ready", f"{start['ready']:.1f} s", f"{start['cpu_seconds']:.1f} s", ""),
        (f"the bare lists, {bare['megabytes']:.0f} MB", f"{bare['seconds']:.1f} s", f"{bare['cpu_seconds']:.1f} s", ""),
        (
            "ours: the difference",
            f"{row['ours_seconds']:.1f} s",
            f"{row['ours_cpu_seconds']:.1f} s",
            f"{SECONDS_GOAL:.0f} s",
        ),
        ("API server and etcd, until we are ready", "", f"{start['server_cpu_seconds']:.1f} s", ""),
        ("memory once ready", f"{start['megabytes']:.0f} MB", "", f"{MEGABYTES_GOAL:.0f} MB"),
        ("memory at most", f"{start['most_megabytes']:.0f} MB", "", ""),
    ]
    return markdown.table(("", "", "CPU time", "goal"), lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 when the programs are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="100 nodes, 1,000 pods, one round")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes (default 5,000)")
    parser.add_argument("--pods", type=int, default=50_000, help="bound pods (default 50,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--output", type=Path, default=None, help="JSON file to write (results/start_to_ready.json)")
    parser.add_argument("--download", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.download:
        began = time.monotonic()
        size = download(options.download)
        print(json.dumps({"seconds": time.monotonic() - began, "cpu_seconds": time.process_time(), "bytes": size}))
        return 0
    try:
        build.programs(releases.NEWEST)
    except build.MissingProgramError as error:
        print(error, file=sys.stderr)
        return 1
    nodes, pods, rounds = (100, 1000, 1) if options.small else (options.nodes, options.pods, options.rounds)
    row = summarise(nodes, pods, list(measure(nodes, pods, rounds)))
    print(table(row))
    target = options.output or (None if options.small else RESULTS)
    if target is not None:
        measured.write(target, kubernetes=releases.NEWEST.kubernetes, **row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
