"""What a dump shows that no single object says: lines for people, one for each oddity. Pure.

Every line starts with `node NAME:` or `pod NS/NAME:`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

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
    nodes: Mapping[str, NodeInfo], pods: Iterable[PodInfo], refused: Mapping[tuple[str, str], int]
) -> list[str]:
    """Return the warnings about a cluster.

    Args:
        nodes: the nodes by name.
        pods: the unfinished pods.
        refused: how many finished pods were refused at admission, by (node, reason).
    """
    bound: dict[str, list[PodInfo]] = defaultdict(list)
    waiting: list[PodInfo] = []
    for pod in pods:
        (bound[pod.node_name] if pod.holds else waiting).append(pod)
    return [
        *_refusals(nodes, refused),
        *_overcommitted(nodes, bound),
        *_served_by_dra(nodes, bound),
        *_orphans(nodes, bound),
        *_misspelt(nodes, waiting),
    ]


def _refusals(nodes: Mapping[str, NodeInfo], refused: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for (name, reason), count in sorted(refused.items()):
        if name in nodes and count >= _PILE:
            yield f"node {name}: {count} pods were refused at admission ({reason}), though by count they fit"


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
        more = f" (and {len(group) - 1} more pods)" if len(group) > 1 else ""
        yield f"pod {group[0].key}: {text}{more}"


def _count(pods: Sequence[PodInfo]) -> str:
    return "1 pod" if len(pods) == 1 else f"{len(pods)} pods"


def _some(pods: Sequence[PodInfo]) -> str:
    names = sorted(pod.key for pod in pods)
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
