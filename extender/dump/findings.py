"""What a dump shows that no single object says: lines for people, one for each oddity. Pure.

Every line starts with `node NAME:` or `pod NS/NAME:`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from extender.kube.gpurules import GpuRules
from extender.packing.resources import BASE_RESOURCES
from extender.packing.types import NodeInfo, PodInfo
from extender.selectorhints import SelectorHints

_LISTED: Final = 3
_PILE: Final = 3
"""So many pods refused at admission make a warning; one or two happen when a device breaks."""

# kubelet's reasons (lifecycle/predicate.go, cm/topologymanager, cm/admission); OutOf<resource> is the device plugin
# having less than the node says.
_ADMISSION: Final = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
_OUT_OF: Final = "OutOf"


def is_admission_failure(reason: str) -> bool:
    """Tell whether the kubelet refused the pod when it arrived: by count the node had room."""
    return reason in _ADMISSION or reason.startswith(_OUT_OF)


def findings(
    nodes: Mapping[str, NodeInfo],
    pods: Iterable[PodInfo],
    refused: Mapping[tuple[str, str], int],
    rules: GpuRules,
) -> list[str]:
    """Return the warnings about a cluster.

    Args:
        nodes: the nodes by name.
        pods: the unfinished pods.
        refused: how many finished pods were refused at admission, by (node, reason).
        rules: which resources are GPUs.
    """
    bound: dict[str, list[PodInfo]] = defaultdict(list)
    waiting: list[PodInfo] = []
    for pod in pods:
        (bound[pod.node_name] if pod.holds else waiting).append(pod)
    return [
        *_refusals(nodes, refused),
        *_taken_for_ready(nodes),
        *_overcommitted(nodes, bound),
        *_served_by_dra(nodes, bound),
        *_orphans(nodes, bound),
        *_misspelt(nodes, waiting),
        *misnamed_gpus(waiting, rules, {name for node in nodes.values() for name in node.allocatable}),
    ]


def misnamed_gpus(pods: Iterable[PodInfo], rules: GpuRules, offered: Collection[str] = ()) -> Iterator[str]:
    """Yield a line for each resource that pods ask for, that no node offers, and that looks like one of GPUs."""
    asking: dict[str, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        for name in pod.requests:
            if name not in offered and name not in BASE_RESOURCES and rules.kind(name) is None:
                asking[name].append(pod)
    for name, group in asking.items():
        if meant := rules.nearly(name):
            yield f"pod {group[0].key}: {name:.80} is no GPU resource; did you mean {meant}?{_more(group)}"


def _refusals(nodes: Mapping[str, NodeInfo], refused: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for (name, reason), count in sorted(refused.items()):
        if name in nodes and count >= _PILE:
            yield f"node {name}: {count} pods were refused at admission ({reason}), though by count they fit"


def _taken_for_ready(nodes: Mapping[str, NodeInfo]) -> Iterator[str]:
    for name, node in sorted(nodes.items()):
        if node.gpus and node.taken_for_ready:
            yield (
                f"node {name}: is not ready, but has no taint node.kubernetes.io/not-ready: kube-scheduler would use "
                "it, and so do fit, simulate and plan; gpus counts its free GPUs as off, defrag and buy leave it out"
            )


def _overcommitted(nodes: Mapping[str, NodeInfo], bound: Mapping[str, Sequence[PodInfo]]) -> Iterator[str]:
    for name, node in sorted(nodes.items()):
        held = Counter[str]()
        for pod in bound.get(name, ()):
            held.update({resource: amount for resource, amount in pod.requests.items() if resource in node.gpus})
        for resource, amount in sorted(held.items()):
            if amount > (have := node.allocatable.get(resource, 0)):
                yield f"node {name}: overcommitted, its pods hold {amount} {resource} and {have} can be allocated"


def _served_by_dra(nodes: Mapping[str, NodeInfo], bound: Mapping[str, Sequence[PodInfo]]) -> Iterator[str]:
    for name in sorted(bound.keys() & nodes.keys()):
        served = [pod for pod in bound[name] if pod.served_by_dra]
        if served:
            yield (
                f"node {name}: GPUs of {_count(served)} are served by DRA (status.extendedResourceClaimStatus: "
                f"{_some(served)}), which is not modelled; what is free there is not known"
            )


def _orphans(nodes: Mapping[str, NodeInfo], bound: Mapping[str, Sequence[PodInfo]]) -> Iterator[str]:
    for name in sorted(bound.keys() - nodes.keys()):
        group = bound[name]
        yield f"node {name}: not in the dump; {_count(group)} bound to it counted nowhere: {_some(group)}"


def _misspelt(nodes: Mapping[str, NodeInfo], waiting: Iterable[PodInfo]) -> Iterator[str]:
    hints = SelectorHints(nodes.values())
    selecting: dict[str, list[PodInfo]] = defaultdict(list)
    for pod in waiting:
        for text in hints.of(pod):
            selecting[text].append(pod)
    for text, group in selecting.items():
        yield f"pod {group[0].key}: {text}{_more(group)}"


def _more(pods: Sequence[PodInfo]) -> str:
    return f" (and {len(pods) - 1} more pods)" if len(pods) > 1 else ""


def _count(pods: Sequence[PodInfo]) -> str:
    return "1 pod" if len(pods) == 1 else f"{len(pods)} pods"


def _some(pods: Sequence[PodInfo]) -> str:
    names = sorted(pod.key for pod in pods)
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
