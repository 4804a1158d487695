"""What the latency benchmark asks: a synthetic cluster, and questions about it as kube-scheduler writes them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

GPU: Final = "nvidia.com/gpu"
FULL_NODE_BYTES: Final = 13_500
SOME_TYPES: Final = "H100,A100"
ANY_TYPE: Final = "H100,A100=2,any"
MODELS: Final = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "Tesla-T4")

# Between filter and prioritize, see `latency`.
GAP_SECONDS: Final = 1e-3
GAP_SECONDS_PER_NAME: Final = 0.5e-6


def node_name(at: int) -> str:
    """Return a name such as a cloud gives."""
    return f"ip-10-{at // 62500}-{at // 250 % 250}-{at % 250}.eu-west-1.compute.internal"


def node_object(at: int) -> dict[str, Any]:
    """Return a GPU node as the API server writes it, without the ballast."""
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110", GPU: "8"}
    labels = {"kubernetes.io/hostname": node_name(at), f"{GPU}.product": MODELS[at % len(MODELS)]}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "kind": "Node",
        "metadata": {"name": node_name(at), "labels": labels},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready},
    }


def full_node(at: int) -> bytes:
    """Return a node of FULL_NODE_BYTES: labels, annotations, and above all images."""
    node = node_object(at)
    node["metadata"]["labels"] |= {f"example.com/label-{n}": f"value-{n}" for n in range(40)}
    node["metadata"]["annotations"] = {f"example.com/annotation-{n}": "x" * 100 for n in range(10)}
    image = {"names": [f"registry.example/group/image@sha256:{'0' * 64}", "registry.example/group/image:v1"]}
    raw = json.dumps(node | {"spec": {"providerID": "aws:///x"}}, separators=(",", ":"))
    filler = json.dumps({**image, "sizeBytes": 123456789}, separators=(",", ":"))
    count = (FULL_NODE_BYTES - len(raw)) // (len(filler) + 1)
    node["status"]["images"] = [{**image, "sizeBytes": 123456789}] * count
    return json.dumps(node, separators=(",", ":")).encode()


def pod_object(name: str, gpus: int, node: str = "", types: str = "any") -> dict[str, Any]:
    """Return a pod of the size that real ones have (5 KB)."""
    env = [{"name": f"VARIABLE_{n}", "value": "value-of-some-length"} for n in range(40)]
    amounts = {"cpu": str(8 * gpus), "memory": f"{64 * gpus}Gi", GPU: str(gpus)}
    container = {"name": "main", "image": "registry.example/app:1", "env": env, "resources": {"limits": amounts}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ml", "uid": f"uid-{name}",
            "labels": {f"example.com/label-{n}": f"value-{n}" for n in range(10)},
            "annotations": {"gpu-extender.io/types": types},
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending"},
    }  # fmt: skip


def cluster(nodes: int, full_share: float) -> Iterator[dict[str, Any]]:
    """Yield nodes, a share of them full, the others with a pod of 1 to 7 GPUs."""
    for at in range(nodes):
        yield node_object(at)
    for at in range(nodes):
        full = at * 997 % 1000 < 1000 * full_share
        yield pod_object(f"held-{at}", 8 if full else 1 + at % 7, node_name(at))


@dataclass(frozen=True)
class Question:
    """A request body in two parts, between which a fresh UID goes.

    Attributes:
        first: asked just before and not timed: the filter call of a prioritize.
        then: asked just after and not timed: the prioritize call of a filter.
        gap_seconds: between the two calls.
    """

    verb: str
    before: bytes
    after: bytes
    first: Question | None = None
    then: Question | None = None
    gap_seconds: float = 0.0

    @classmethod
    def of(cls, verb: str, candidates: bytes, types: str) -> Question:
        """Ask about candidates, `"NodeNames":[…]` or `"Nodes":{…}`, for a pod that takes `types`."""
        pod = json.dumps(pod_object("asked", 1, types=types), separators=(",", ":")).encode()
        before, after = pod.split(b"uid-asked")
        return cls(verb, b'{"Pod":' + before, after + b"," + candidates + b"}")

    def request(self, uid: str, answer_bytes: int) -> bytes:
        """Return the HTTP request; the floor reads from its header how much to answer."""
        body = self.before + uid.encode() + self.after
        head = (
            f"POST /scheduler/{self.verb} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nX-Answer-Bytes: {answer_bytes}\r\n\r\n"
        )
        return head.encode() + body


def samples(count: int, of: int) -> list[list[int]]:
    """Return some shuffled choices of `count` out of `of` nodes."""
    return [random.Random(seed).sample(range(of), count) for seed in range(8)]


def by_names(verb: str, nodes: Sequence[int], types: str) -> Question:
    """Ask by names, as Go writes them."""
    listed = json.dumps([node_name(at) for at in nodes], separators=(",", ":")).encode()
    return Question.of(verb, b'"Nodes":null,"NodeNames":' + listed, types)


def filters(count: int, of: int) -> list[Question]:
    """Ask filter for a pod that takes two models of three; prioritize follows, about what is left."""
    made = []
    for nodes in samples(count, of):
        left = [at for at in nodes if at % len(MODELS) != len(MODELS) - 1]
        then = by_names("prioritize", left, SOME_TYPES)
        gap = GAP_SECONDS + len(left) * GAP_SECONDS_PER_NAME
        made.append(replace(by_names("filter", nodes, SOME_TYPES), then=then, gap_seconds=gap))
    return made


def prioritizes(count: int, of: int, *, after_filter: bool) -> list[Question]:
    """Ask prioritize for a pod that takes any model; filter has kept all of the list before, or has not been asked."""
    made = []
    for nodes in samples(count, of):
        first = by_names("filter", nodes, ANY_TYPE) if after_filter else None
        gap = GAP_SECONDS + count * GAP_SECONDS_PER_NAME
        made.append(replace(by_names("prioritize", nodes, ANY_TYPE), first=first, gap_seconds=gap))
    return made


def full_filters(count: int) -> list[Question]:
    """Ask filter by whole Node objects."""
    items = b",".join(full_node(at) for at in range(count))
    return [Question.of("filter", b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % items, SOME_TYPES)]
