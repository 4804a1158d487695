"""What the benchmarks with a real control plane run on: nodes and pods as heavy as real ones, partly busy.

Nodes have 8 GPUs of one of three models, names such as a cloud gives, labels, annotations and images (13.5 KB as the
API server writes them). On a third of them a pod runs from the start. Arriving pods take any model, so every node with
room is a candidate: for an extender the most costly case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from benchmarks.questions import full_node, node_name, pod_object
from controlplane.api import Manifest

BUSY_SHARE: Final = 0.35
SIZES: Final = (1, 2, 4, 8)
WEIGHTS: Final = (8, 4, 3, 3)
SEED: Final = 11
_GPU_PODS: Final = 4
ARRIVING: Final = "benchmark=arriving"
"""Label selector of the pods that arrive."""


def nodes(count: int) -> list[Manifest]:
    """Return nodes."""
    return [json.loads(full_node(at)) for at in range(count)]


def running(count: int) -> list[Manifest]:
    """Return pods of 1 to 4 GPUs that are bound already, on a share of `count` nodes."""
    draw = Random(SEED)
    return [
        created(f"running-{at}", draw.choice((1, 2, 4)), nodeName=node_name(at))
        for at in range(count)
        if draw.random() < BUSY_SHARE
    ]


def arrivals(count: int, seed: int) -> list[Manifest]:
    """Return waiting pods of 1, 2, 4 and 8 GPUs."""
    draw = Random(seed)
    pods = [created(f"job-{at:05d}", draw.choices(SIZES, WEIGHTS)[0]) for at in range(count)]
    key, _, value = ARRIVING.partition("=")
    for pod in pods:
        pod["metadata"]["labels"][key] = value
    return pods


def crowd(pods: int, on: int) -> Iterator[Manifest]:
    """Yield bound pods, evenly over `on` nodes: the first four of a node have a GPU each, the others none."""
    for at in range(pods):
        pod = created(f"crowd-{at:06d}", 1, nodeName=node_name(at % on))
        if at // on >= _GPU_PODS:
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
        yield pod


def created(name: str, gpus: int, types: str = "any", **spec: str) -> Manifest:
    """Return a pod as it is posted; the API server says uid and status."""
    pod = pod_object(name, gpus, types=types)
    del pod["metadata"]["uid"], pod["status"]
    pod["spec"] |= spec
    return pod
