"""Reads what `kubectl get nodes,pods -A -o json|yaml` prints, and whatever people make of it by hand.

A dump is one or more sources, merged in order: where two name the same object the later one counts. Finished pods are
dropped as they are read; only how many of them were refused at admission is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from extender.dump.documents import Item, read_items
from extender.dump.fieldnames import FieldNames
from extender.dump.findings import findings, is_admission_failure, misnamed_gpus
from extender.kube.convert import node_info, pod_info, pod_key
from extender.kube.disruption import disruption_budget, pod_disruption
from extender.kube.gpurules import GpuRules
from extender.kube.podgroups import API_GROUPS, POD_GROUP, pod_group, with_size
from extender.kube.raw import RawBudget, RawNode, RawPod, RawPodGroup, RawPodStatus
from extender.packing.disruption import DisruptionBudget, PodDisruption
from extender.packing.gangs import GangKey, gang_key
from extender.packing.types import GroupRef, NodeInfo, Phase, PodInfo

__all__ = ["ClusterDump", "PodDump", "read_dumps", "read_pods", "superseded"]

Source = tuple[str, bytes]
"""The name to call a text in messages, and the text."""

_NODE: Final = "Node"
_POD: Final = "Pod"
_BUDGET: Final = "PodDisruptionBudget"
_BUDGETS: Final = frozenset({_BUDGET, f"{_BUDGET} of policy/v1", f"{_BUDGET} of policy/v1beta1"})
_POD_GROUP: Final = re.compile(rf"{POD_GROUP}( of ({'|'.join(map(re.escape, sorted(API_GROUPS)))})/\w+)?")
_FINISHED: Final = frozenset({str(Phase.SUCCEEDED), str(Phase.FAILED)})


@dataclass(frozen=True, slots=True)
class ClusterDump:
    """Nodes and unfinished pods in the order of the sources, and what is odd about them, one line each.

    ``disruptions`` says by the key of a pod what evicting it would mean. Groups of pods have the size that their
    PodGroup says; ``pod_groups`` are all of these.
    """

    nodes: tuple[NodeInfo, ...]
    pods: tuple[PodInfo, ...]
    warnings: tuple[str, ...]
    disruptions: Mapping[str, PodDisruption] = field(default_factory=dict)
    budgets: tuple[DisruptionBudget, ...] = ()
    pod_groups: Mapping[GangKey, GroupRef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodDump:
    """Pods in the order of the sources, as if each were new, and what is odd about them.

    ``nodes`` has the node of those, by key, that have one where they are written.
    """

    pods: tuple[PodInfo, ...]
    warnings: tuple[str, ...]
    nodes: Mapping[str, str] = field(default_factory=dict)


def read_dumps(sources: Iterable[Source], rules: GpuRules) -> ClusterDump:
    """Read a cluster.

    Raises:
        DumpError: one line that names source, item and field.
    """
    merge = _Merge(rules)
    for source, data in sources:
        for item in read_items(source, data):
            if item.kind == _NODE:
                merge.node(item)
            elif item.kind == _POD:
                merge.pod(item)
            elif item.kind in _BUDGETS:
                merge.budget(item)
            elif _POD_GROUP.fullmatch(item.kind):
                merge.pod_group(item)
            else:
                merge.others[source, item.kind] += 1
    return ClusterDump(
        tuple(merge.nodes.values()),
        merge.all_pods(),
        (*merge.all_warnings(), *findings(merge.nodes, merge.pods.values(), merge.refused, rules)),
        merge.disruptions,
        tuple(merge.budgets.values()),
        merge.pod_groups,
    )


def read_pods(
    sources: Iterable[Source], rules: GpuRules, pod_groups: Mapping[GangKey, GroupRef] = MappingProxyType({})
) -> PodDump:
    """Read pods that are to arrive: bound, running and finished ones too, so that a dump can be replayed.

    Args:
        sources: the texts; PodGroups in them count before those given.
        rules: what counts as a GPU.
        pod_groups: of the cluster at which the pods arrive.

    Raises:
        DumpError: one line that names source, item and field; too for objects among which there is no pod.
    """
    merge, other = _Merge(rules), None
    for source, data in sources:
        for item in read_items(source, data):
            if item.kind == _POD:
                merge.live(merge.raw_pod(item))
            elif _POD_GROUP.fullmatch(item.kind):
                merge.pod_group(item)
            else:
                merge.others[source, item.kind] += 1
                other = other or item
    if other is not None and not merge.pods:
        raise other.fault(
            "there is no Pod; give one, such as spec.template of what makes it, with kind: Pod and a name"
        )
    merge.pod_groups = {**pod_groups, **merge.pod_groups}
    written = merge.all_pods()
    pods = tuple(map(_as_new, written))
    nodes = {pod.key: pod.node_name for pod in written if pod.node_name}
    return PodDump(pods, (*merge.all_warnings(), *misnamed_gpus(pods, rules)), nodes)


def superseded(pods: Iterable[PodInfo], later: Iterable[PodInfo]) -> tuple[list[PodInfo], list[str]]:
    """Return the pods that are not given anew by later ones, and a warning about each of the others."""
    anew, stay, warnings = {pod.key for pod in later}, [], []
    for pod in pods:
        if pod.key in anew:
            warnings.append(_given_twice(f"pod {pod.key}"))
        else:
            stay.append(pod)
    return stay, warnings


def _given_twice(name: str) -> str:
    return f"{name}: given more than once; the last one counts"


def _as_new(pod: PodInfo) -> PodInfo:
    """Return a pod without a trace of where it has been; one that is deleted before it has been anywhere stays so."""
    return replace(
        pod,
        phase=Phase.PENDING,
        node_name="",
        nominated_node="",
        terminating=pod.terminating and not pod.node_name,
        served_by_dra=False,
        failure_reason="",
    )


def _as_it_runs(raw: RawPod) -> bool:
    """Tell whether an API server wrote the pod, which knows no other fields than its own, and nobody need have since.

    Looking at the names in fifty thousand pods takes a second; those that run are hardly ever written by hand.
    """
    return bool(raw.metadata and raw.metadata.uid and raw.spec and raw.spec.node_name)


@dataclass(slots=True)
class _Merge:
    """Collects items while the sources are read; of two with one name the later one stays."""

    rules: GpuRules
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: Counter[tuple[str, str]] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    disruptions: dict[str, PodDisruption] = field(default_factory=dict)
    budgets: dict[tuple[str, str], DisruptionBudget] = field(default_factory=dict)
    pod_groups: dict[GangKey, GroupRef] = field(default_factory=dict)
    field_names: FieldNames = field(default_factory=FieldNames)

    def node(self, item: Item) -> None:
        raw = item.decode(RawNode)
        info = node_info(raw, self.rules, self.warnings.append)
        if not info.name:
            raise item.fault("metadata.name: missing")
        self.warnings += (f"node {info.name}: {text}" for text in self.field_names.misspelt(item.value, RawNode))
        if self.nodes.pop(info.name, None) is not None:
            self.twice.append(f"node {info.name}")
        self.nodes[info.name] = info

    def pod(self, item: Item) -> None:
        raw = self.raw_pod(item)
        status = raw.status or RawPodStatus()
        if status.phase not in _FINISHED:
            self.live(raw)
            self.disruptions["/".join(pod_key(raw))] = pod_disruption(raw, self.warnings.append)
            return
        key = "/".join(pod_key(raw))
        self._replaces(key)
        self.finished.add(key)
        if raw.spec and is_admission_failure(status.reason or ""):
            self.refused[raw.spec.node_name or "", status.reason or ""] += 1

    def raw_pod(self, item: Item) -> RawPod:
        raw = item.decode(RawPod)
        key = pod_key(raw)
        if not key[1]:
            raise item.fault("metadata.name: missing")
        if not _as_it_runs(raw):
            texts = self.field_names.misspelt(item.value, RawPod)
            self.warnings += (f"pod {'/'.join(key)}: {text}" for text in texts)
        return raw

    def live(self, raw: RawPod) -> None:
        info = pod_info(raw, self.rules, self.warnings.append)
        self._replaces(info.key)
        if self.owners.setdefault(info.uid, info.key) != info.key:
            self.warnings.append(f"pod {info.key}: has the uid of {self.owners[info.uid]}; told apart by name")
            info = replace(info, uid=info.key)
        self.pods[info.key] = info

    def budget(self, item: Item) -> None:
        found = disruption_budget(item.decode(RawBudget), self.warnings.append)
        if not found.name:
            raise item.fault("metadata.name: missing")
        if self.budgets.pop((found.namespace, found.name), None) is not None:
            self.twice.append(f"poddisruptionbudget {found}")
        self.budgets[found.namespace, found.name] = found

    def pod_group(self, item: Item) -> None:
        found = pod_group(item.decode(RawPodGroup), self.warnings.append)
        if not found.name:
            raise item.fault("metadata.name: missing")
        if self.pod_groups.pop(gang_key(found), None) is not None:
            self.twice.append(f"podgroup {found}")
        self.pod_groups[gang_key(found)] = found

    def all_pods(self) -> tuple[PodInfo, ...]:
        """Return the pods, those of a PodGroup with its size: it may come after them."""
        return tuple(with_size(pod, self.pod_groups) for pod in self.pods.values())

    def _replaces(self, key: str) -> None:
        if self.pods.pop(key, None) is not None or key in self.finished:
            self.finished.discard(key)
            self.twice.append(f"pod {key}")

    def all_warnings(self) -> list[str]:
        """Return the warnings of the objects, then of the merge."""
        return [*self.warnings, *map(_given_twice, self.twice), *self._ignored()]

    def _ignored(self) -> Iterator[str]:
        for source in dict.fromkeys(source for source, _ in self.others):
            kinds = {kind: count for (of, kind), count in sorted(self.others.items()) if of == source}
            listed = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            yield f"{source}: ignored {sum(kinds.values())} items of other kinds: {listed}"
