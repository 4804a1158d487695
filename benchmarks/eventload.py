"""Pods that come and go on a live cluster all the time, from a process of its own: who measures is not disturbed by it.

    python -m benchmarks.eventload KUBECONFIG --nodes N --waiting N    until it is killed

The cluster is nearly full: nine nodes in ten have no GPU free, and the pods that wait ask for about what is left. A
step takes the eldest waiting pod away and brings a new one; each fourth step a running pod of one GPU ends, and another
starts in its place. So each second brings 25 events, the cluster stays as it is, and little of what runs comes to an
end: under departures the policy `planned` follows no quotas, and none are solved.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from benchmarks import livecluster
from benchmarks.questions import GPU, node_name
from controlplane.api import Api, Manifest
from controlplane.cluster import Cluster

STEPS_PER_SECOND: Final = 10.0
NODE_GPUS: Final = 8
_FULL_SHARE: Final = 0.90
_UNUSED_SHARE: Final = 0.02
_TURNING: Final = 10
"""On one node in so many a pod of one GPU ends now and then."""
_STEPS_PER_TURN: Final = 4
_TYPES: Final = ("any", "any", "H100,A100=2,any", "H100", "A100,T4")
# CPU in cores and memory in GiB per GPU, each pod its own; a node has 12 and 125.
_CORES: Final = range(2, 17)
_GIB: Final = range(16, 160)


def waiting(number: int) -> Manifest:
    """Return the waiting pod of a number."""
    draw = Random(f"waiting {number}")
    gpus = draw.choices(livecluster.SIZES, livecluster.WEIGHTS)[0]
    pod = livecluster.created(f"waiting-{number:06d}", gpus, draw.choice(_TYPES))
    cores, gib = draw.choice(_CORES), draw.choice(_GIB)
    limits = {"cpu": str(cores * gpus), "memory": f"{gib * gpus}Gi", GPU: str(gpus)}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return pod


def running(at: int) -> Iterator[Manifest]:
    """Yield the pods that hold GPUs of a node from the start."""
    draw = Random(f"running {at}")
    state = draw.random()
    if at % _TURNING == 0:
        yield turning(at, 0)
        yield _bound(f"running-{at:05d}", NODE_GPUS - 1, at)
    elif state < 1 - _UNUSED_SHARE:
        yield _bound(f"running-{at:05d}", NODE_GPUS if state < _FULL_SHARE else draw.randrange(1, NODE_GPUS), at)


def turning(at: int, number: int) -> Manifest:
    """Return the pod that is the so-manieth to hold one GPU of a node."""
    return _bound(f"turning-{at:05d}-{number}", 1, at)


def _bound(name: str, gpus: int, at: int) -> Manifest:
    return livecluster.created(name, gpus, nodeName=node_name(at))


def populate(cluster: Cluster, nodes: int, queue: int) -> None:
    """Create the nodes, the pods that run on them and those that wait."""
    cluster.create_nodes(livecluster.nodes(nodes))
    cluster.create_pods(pod for at in range(nodes) for pod in running(at))
    cluster.create_pods(map(waiting, range(queue)))


def step(cluster: Cluster, at: int, nodes: int, queue: int) -> None:
    """Take the step of a number."""
    cluster.delete_pod(waiting(at))
    cluster.create_pod(waiting(at + queue))
    turn, rest = divmod(at, _STEPS_PER_TURN)
    if not rest:
        round_, place = divmod(turn, -(-nodes // _TURNING))
        cluster.delete_pod(turning(_TURNING * place, round_))
        cluster.create_pod(turning(_TURNING * place, round_ + 1))


def main(arguments: Sequence[str] | None = None) -> None:
    """Step on and on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kubeconfig", type=Path, help="of a user who may create and delete pods")
    parser.add_argument("--nodes", type=int, required=True, help="nodes of the cluster")
    parser.add_argument("--waiting", type=int, required=True, help="pods that wait")
    options = parser.parse_args(arguments)
    cluster = Cluster(Api.of(options.kubeconfig))
    at, due = 0, time.monotonic()
    while True:
        step(cluster, at, options.nodes, options.waiting)
        # Behind time, it does not hurry afterwards: a burst would be another load.
        at, due = at + 1, max(due + 1 / STEPS_PER_SECOND, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
