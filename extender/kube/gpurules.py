"""Which resources are GPUs, and what a node's labels say about them. Compiled once from the configuration.

A label speaks for a resource of the same vendor, or of any vendor when its key names none: `nvidia.com/gpu.product`
says nothing about `gpu.intel.com/i915` of the same node.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, Protocol, Self

from extender.packing import gpu_labels
from extender.packing.gpu import GpuModel, GpuRequest, primary
from extender.spelling import closest

_VENDORS: Final = frozenset({"nvidia", "amd", "intel"})
_WORDS = re.compile(r"[a-z0-9]+")
_MEMORY = re.compile(r"(\d{1,9})\s*([MGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_MIB: Final[Mapping[str, int]] = {"": 1, "M": 1, "G": 2**10, "T": 2**20}
_VERSION = re.compile(r"(\d{1,5})(?:\.(\d{1,5}))?(?:\.\d+)*", re.ASCII)
_WILD = re.compile(r"[*?\[]")
_ALIKE: Final = 0.8
# Names of other schedulers and plugins that are no typos: HAMi, vGPU.
_NEIGHBOURS: Final = frozenset(
    {"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/vgpu"}
)
_NOT_SHARED: Final = frozenset({"", "none", "false"})
_SLICE: Final = "/mig-"
# A pod that asks for more, or by longer names, is not worth remembering: users could fill the memory with them.
_USUAL_NUMBER: Final = 32
_USUAL_LENGTH: Final = 2048


class ResourceKind(Enum):
    """What one unit of a GPU resource is."""

    WHOLE = "whole"
    SLICE = "slice"
    SHARED = "shared"


class GpuTables(Protocol):
    """The `gpus` section of the configuration, as far as it is about resources and labels."""

    @property
    def resources(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def shared_resources(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def model_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def vendor_only_values(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def memory_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def compute_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def cuda_labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def sharing_labels(self) -> tuple[str, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class GpuRules:
    """The rules; the fields mean what `extender.packing.gpu_labels` says of its tables."""

    resources: tuple[str, ...] = gpu_labels.GPU_RESOURCES
    shared_resources: tuple[str, ...] = gpu_labels.SHARED_RESOURCES
    model_labels: tuple[str, ...] = gpu_labels.MODEL_LABELS
    vendor_only_values: frozenset[str] = gpu_labels.VENDOR_ONLY_VALUES
    memory_labels: tuple[str, ...] = gpu_labels.MEMORY_LABELS
    compute_labels: tuple[str, ...] = gpu_labels.COMPUTE_LABELS
    cuda_labels: tuple[str, ...] = gpu_labels.CUDA_LABELS
    sharing_labels: tuple[str, ...] = gpu_labels.SHARING_LABELS

    @classmethod
    def default(cls) -> Self:
        """Return the rules of an empty configuration."""
        return cls()

    @classmethod
    def of(cls, tables: GpuTables) -> Self:
        """Return the rules of a configuration's `gpus` section."""
        return cls(
            tables.resources, tables.shared_resources, tables.model_labels, tables.vendor_only_values,
            tables.memory_labels, tables.compute_labels, tables.cuda_labels, tables.sharing_labels,
        )  # fmt: skip

    # -- resources ---------------------------------------------------------------------------------------------

    def kind(self, resource: str) -> ResourceKind | None:
        """Return what a unit of the resource is; None when it is no GPU. Names are compared whole, never by prefix."""
        return self._kind_of(resource)

    @cached_property
    def _kind_of(self) -> Callable[[str], ResourceKind | None]:
        # A cluster has few resources and asks for each a hundred thousand times.
        return lru_cache(maxsize=1024)(self._judged)

    def nearly(self, resource: str) -> str | None:
        """Return the GPU resource that a name which is none was probably meant to be; None when it is like none."""
        if self.kind(resource) is not None or resource in _NEIGHBOURS:
            return None
        return closest(resource, [name for name in self.resources if not _WILD.search(name)], _ALIKE)

    def _judged(self, resource: str) -> ResourceKind | None:
        if self._shared_pattern.fullmatch(resource):
            return ResourceKind.SHARED
        if not self._pattern.fullmatch(resource):
            return None
        return ResourceKind.SLICE if _SLICE in resource else ResourceKind.WHOLE

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _compiled(self.resources)

    @cached_property
    def _shared_pattern(self) -> re.Pattern[str]:
        return _compiled(self.shared_resources)

    def request(self, requests: Mapping[str, int]) -> GpuRequest:
        """Return the GPU side of a pod's effective requests, without the wishes of its annotations."""
        usual = len(requests) <= _USUAL_NUMBER and sum(map(len, requests)) <= _USUAL_LENGTH
        return self._request_of(tuple(requests.items())) if usual else self._asked(requests)

    @cached_property
    def _request_of(self) -> Callable[[tuple[tuple[str, int], ...]], GpuRequest]:
        # Pods of a kind ask for the same, and share the answer.
        return lru_cache(maxsize=4096)(lambda items: self._asked(dict(items)))

    def _asked(self, requests: Mapping[str, int]) -> GpuRequest:
        kinds = {name: kind for name in requests if (kind := self.kind(name)) is not None}
        if not kinds:
            return GpuRequest()
        whole, shared = ResourceKind.WHOLE, ResourceKind.SHARED
        resource, count, is_whole = primary(requests, ((n, k is whole, k is not shared) for n, k in kinds.items()))
        others = tuple((name, requests[name]) for name in sorted(kinds) if name != resource)
        return GpuRequest(resource, count, is_whole, others)

    # -- nodes -------------------------------------------------------------------------------------------------

    def models(self, resources: Iterable[str], labels: Mapping[str, str]) -> dict[str, GpuModel]:
        """Return a GpuModel for every GPU resource among the names that a node advertises."""
        return {name: self._model(name, kind, labels) for name in resources if (kind := self.kind(name)) is not None}

    def _model(self, resource: str, kind: ResourceKind, labels: Mapping[str, str]) -> GpuModel:
        name = self._name(resource, kind, labels)
        exclusive = kind is not ResourceKind.SHARED and not self._shared(resource, kind, labels, name or "")
        return GpuModel(
            label=name,
            exclusive=exclusive,
            whole=exclusive and kind is ResourceKind.WHOLE,
            memory_mib=self._memory(resource, kind, labels),
            compute=_first_version(labels, _of_vendor(self.compute_labels, resource)),
            cuda=_first_version(labels, _of_vendor(self.cuda_labels, resource)),
        )

    def _name(self, resource: str, kind: ResourceKind, labels: Mapping[str, str]) -> str | None:
        keys = _of_vendor(self.model_labels, resource)
        if kind is not ResourceKind.WHOLE:
            # With mixed MIG the general label names the card, this one the slice.
            keys = (f"{resource.removesuffix('.shared')}.product", *keys)
        values = (_value(labels, key) for key in keys)
        return next((v for v in values if v and v.strip().casefold() not in self.vendor_only_values), None)

    def _shared(self, resource: str, kind: ResourceKind, labels: Mapping[str, str], name: str) -> bool:
        """Tell whether a unit is less than an exclusive GPU (or, for a slice, less than an exclusive slice)."""
        if name.upper().endswith("-SHARED"):
            return True
        if kind is ResourceKind.SLICE:
            keys: tuple[str, ...] = (f"{resource}.replicas", f"{resource}.sharing-strategy")
        elif "-MIG-" in name.upper():
            return True  # MIG "single": slices under the name of whole GPUs; also MIG-INVALID
        else:
            keys = _of_vendor(self.sharing_labels, resource)
        return any(_says_shared(labels.get(key, "")) for key in keys)

    def _memory(self, resource: str, kind: ResourceKind, labels: Mapping[str, str]) -> int | None:
        """Return MiB; of a slice only what its own label says, the general one is about the card."""
        keys = (f"{resource}.memory",) if kind is ResourceKind.SLICE else _of_vendor(self.memory_labels, resource)
        return next((mib for key in keys if (mib := _mib(_value(labels, key)))), None)


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")


@lru_cache(maxsize=1024)
def _vendors(text: str) -> frozenset[str]:
    return _VENDORS & set(_WORDS.findall(text.casefold()))


@lru_cache(maxsize=1024)
def _of_vendor(keys: tuple[str, ...], resource: str) -> tuple[str, ...]:
    ours = _vendors(resource)
    return tuple(key for key in keys if not ours or not (theirs := _vendors(key)) or theirs & ours)


def _value(labels: Mapping[str, str], key: str) -> str:
    """Return a label's value, "" when absent.

    AMD's labeller writes `<key>.<value>: <count>` as well, and once wrote nothing else (ROCm/k8s-device-plugin
    cmd/k8s-node-labeller createLabels). Two such keys mean two models: no answer.
    """
    if key in labels or "amd" not in _vendors(key):
        return labels.get(key, "")
    found = [other.removeprefix(f"{key}.") for other in labels if other.startswith(f"{key}.")]
    return found[0] if len(found) == 1 else ""


def _says_shared(value: str) -> bool:
    folded = value.strip().casefold()
    return int(folded) > 1 if re.fullmatch(r"[0-9]{1,9}", folded) else folded not in _NOT_SHARED


def _mib(value: str) -> int | None:
    """Read the memory of a GPU in MiB; None for other texts and for zero, which MIG-INVALID nodes carry."""
    match = _MEMORY.fullmatch(value.strip())
    return (int(match[1]) * _MIB[match[2].upper()] or None) if match else None


def parse_version(text: str) -> tuple[int, int] | None:
    """Read `8`, `8.0` or `12.4.1` as (major, minor); None for other texts."""
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2] or 0)) if match else None


def _first_version(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[int, int] | None:
    for key in keys:
        whole = labels.get(key) or f"{labels.get(f'{key}.major', '')}.{labels.get(f'{key}.minor') or 0}"
        if (version := parse_version(whole)) is not None:
            return version
    return None
