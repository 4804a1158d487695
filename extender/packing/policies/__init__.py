"""Scoring policies by name. One file a policy; the registry is a literal, so reading this page is knowing them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from extender.packing.framework import Policy
from extender.packing.policies.balance import Balance
from extender.packing.policies.best_fit import BestFit
from extender.packing.policies.dot_product import DotProduct
from extender.packing.policies.fgd import Fgd
from extender.packing.policies.first_fit import FirstFit
from extender.packing.policies.gpu_clustering import GpuClustering
from extender.packing.policies.gpu_packing import GpuPacking
from extender.packing.policies.hole_aware import HoleAware
from extender.packing.policies.least_allocated import LeastAllocated
from extender.packing.policies.most_allocated import MostAllocated
from extender.packing.policies.planned import Planned
from extender.packing.policies.uniform import Uniform

REGISTRY: Final[Mapping[str, Callable[..., Policy]]] = MappingProxyType(
    {
        "planned": Planned,
        "hole-aware": HoleAware,
        "random": Uniform,
        "first-fit": FirstFit,
        "least-allocated": LeastAllocated,
        "most-allocated": MostAllocated,
        "most-allocated-gpu-cpu": lambda: MostAllocated(with_cpu=True, name="most-allocated-gpu-cpu"),
        "best-fit": BestFit,
        "dot-product": DotProduct,
        "gpu-packing": GpuPacking,
        "gpu-clustering": GpuClustering,
        "fgd": Fgd,
        "fgd-exact": lambda: Fgd(exact=True, name="fgd-exact"),
        "balance+first-fit": lambda: Balance(FirstFit()),
        "balance+most-allocated": lambda: Balance(MostAllocated()),
        "balance+fgd": lambda: Balance(Fgd()),
    }
)
"""What makes each policy, with the settings of its source. Calling a value with no arguments gives the policy."""
