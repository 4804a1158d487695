"""Fluent builders of core values: `node("n1").gpus(8, "NVIDIA-H100").build()`, `pod("p").gpus(2).build()`.

Every step returns a new builder, so a prefix can be shared by several tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from extender.packing.gpu import GpuModel, GpuRequest, parse_ladder
from extender.packing.selectors import Operator, PreferredTerm, Requirement, Taint, Term, Toleration
from extender.packing.types import GroupRef, NodeInfo, Phase, PodInfo

GPU = "nvidia.com/gpu"
GI = 2**30
H100 = "NVIDIA-H100-80GB-HBM3"


@dataclass(frozen=True)
class NodeBuilder:
    """Builds a NodeInfo; starts with 96 CPUs, 1000 GiB, 110 pods and no GPU."""

    info: NodeInfo

    def gpus(self, count: int, model: str | None = None, *, resource: str = GPU, **facts: Any) -> Self:
        """Add GPUs; `facts` are fields of GpuModel (`exclusive=False`, `memory_mib=...`)."""
        gpu = replace(GpuModel(model), **facts)
        return self.resource(resource, count)._with(gpus={**self.info.gpus, resource: gpu})

    def resource(self, name: str, amount: int, *, withdrawn: int = 0) -> Self:
        """Set an allocatable amount; the capacity is `withdrawn` more."""
        return self._with(
            allocatable={**self.info.allocatable, name: amount},
            capacity={**self.info.capacity, name: amount + withdrawn},
        )

    def label(self, key: str, value: str) -> Self:
        return self._with(labels={**self.info.labels, key: value})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        return self._with(taints=(*self.info.taints, Taint(key, value, effect)))

    def cordoned(self) -> Self:
        return self._with(unschedulable=True)

    def unready(self) -> Self:
        return self._with(ready=False)

    def build(self) -> NodeInfo:
        return self.info

    def _with(self, **fields: Any) -> Self:
        return replace(self, info=replace(self.info, **fields))


@dataclass(frozen=True)
class PodBuilder:
    """Builds a PodInfo; starts as a pending pod of namespace `ml` that asks for nothing."""

    info: PodInfo

    def gpus(self, count: int, resource: str = GPU, *, whole: bool = True) -> Self:
        gpu = replace(self.info.gpu, resource=resource, count=count, whole=whole)
        return self.resource(resource, count)._with(gpu=gpu)

    def types(self, ladder: str) -> Self:
        return self._with(gpu=replace(self.info.gpu, types=parse_ladder(ladder)))

    def wish(self, **limits: Any) -> Self:
        """Set fields of GpuRequest, such as `min_memory_mib`."""
        return self._with(gpu=replace(self.info.gpu, **limits))

    def resource(self, name: str, amount: int) -> Self:
        return self._with(requests={**self.info.requests, name: amount})

    def cpu(self, cores: float) -> Self:
        return self.resource("cpu", int(cores * 1000))

    def memory(self, gib: float) -> Self:
        return self.resource("memory", int(gib * GI))

    def select(self, key: str, value: str) -> Self:
        selector = tuple(sorted((*self.info.constraints.selector, (key, value))))
        return self._with(constraints=replace(self.info.constraints, selector=selector))

    def require(self, *terms: Term) -> Self:
        """Set the required node affinity: any of the terms."""
        return self._with(constraints=replace(self.info.constraints, affinity=terms))

    def prefer(self, weight: int, term: Term) -> Self:
        return self._with(preferred=(*self.info.preferred, PreferredTerm(weight, term)))

    def tolerate(self, toleration: Toleration) -> Self:
        tolerations = (*self.info.constraints.tolerations, toleration)
        return self._with(constraints=replace(self.info.constraints, tolerations=tolerations))

    def on(self, node_name: str) -> Self:
        """Bind the pod, running."""
        return self._with(node_name=node_name, phase=Phase.RUNNING)

    def nominated(self, node_name: str) -> Self:
        return self._with(nominated_node=node_name)

    def priority(self, value: int) -> Self:
        return self._with(priority=value)

    def gated(self) -> Self:
        return self._with(gated=True)

    def refused(self) -> Self:
        """The scheduler has tried it and found no node."""
        return self._with(refused=True)

    def created(self, seconds: float) -> Self:
        return self._with(created=seconds)

    def terminating(self) -> Self:
        return self._with(terminating=True)

    def group(self, name: str, size: int | None = None) -> Self:
        return self._with(group=GroupRef(self.info.namespace, name, size))

    def build(self) -> PodInfo:
        return self.info

    def _with(self, **fields: Any) -> Self:
        return replace(self, info=replace(self.info, **fields))


def node(name: str) -> NodeBuilder:
    amounts = {"cpu": 96_000, "memory": 1000 * GI, "pods": 110}
    return NodeBuilder(NodeInfo(name, {"kubernetes.io/hostname": name}, amounts, amounts))


def h100(name: str, gpus: int = 8, **facts: Any) -> NodeBuilder:
    return node(name).gpus(gpus, H100, **facts).label("nvidia.com/gpu.product", H100)


def pod(name: str, namespace: str = "ml") -> PodBuilder:
    return PodBuilder(PodInfo(f"uid-{namespace}-{name}", namespace, name, {}, GpuRequest()))


def term(key: str, operator: str, *values: str) -> Term:
    """Return a term of one label requirement; an operator outside the API is kept as None."""
    known = Operator(operator) if operator in set(Operator) else None
    return Term((Requirement(key, known, values),))
