"""Field names that were nearly right: decoding skips what it does not know, so a typo would change answers in silence.

Looked at are the fields that we read and whose absence means something else: amounts, taints and tolerations, labels,
selectors and affinity. No name that Kubernetes has is taken for a typo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from extender.dump.documents import opened
from extender.kube.raw import (
    RawAffinity,
    RawContainer,
    RawMeta,
    RawNode,
    RawNodeAffinity,
    RawNodeSelector,
    RawNodeSpec,
    RawNodeStatus,
    RawPod,
    RawPodAffinity,
    RawPodSpec,
    RawPodStatus,
    RawPreferredTerm,
    RawRequirement,
    RawResources,
    RawTaint,
    RawTerm,
    RawToleration,
)
from extender.remarks import NO_SUCH_FIELD
from extender.spelling import closest

Shape = type[msgspec.Struct]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_INSIDE: Final[Mapping[Shape, Mapping[str, Shape]]] = {
    RawNode: {"metadata": RawMeta, "spec": RawNodeSpec, "status": RawNodeStatus},
    RawPod: {"metadata": RawMeta, "spec": RawPodSpec, "status": RawPodStatus},
    RawPodSpec: {
        "containers": RawContainer,
        "initContainers": RawContainer,
        "resources": RawResources,
        "affinity": RawAffinity,
        "tolerations": RawToleration,
    },
    RawContainer: {"resources": RawResources},
    RawAffinity: {"nodeAffinity": RawNodeAffinity, "podAffinity": RawPodAffinity, "podAntiAffinity": RawPodAffinity},
    RawNodeAffinity: {_REQUIRED: RawNodeSelector, _PREFERRED: RawPreferredTerm},
    RawNodeSelector: {"nodeSelectorTerms": RawTerm},
    RawPreferredTerm: {"preference": RawTerm},
    RawTerm: {"matchExpressions": RawRequirement, "matchFields": RawRequirement},
    RawNodeSpec: {"taints": RawTaint},
}
_READ: Final[Mapping[Shape, frozenset[str]]] = {
    shape: frozenset(field.encode_name for field in msgspec.structs.fields(shape))
    for shape in {*_INSIDE, *(inner for parts in _INSIDE.values() for inner in parts.values())}
}
# Fields of Kubernetes that we do not read and that look like one we do; tests compare with the official client.
_REAL: Final = frozenset({"resourceClaimStatuses", "restartPolicyRules", _PREFERRED})
_ALIKE: Final = 0.75
# Whoever invents names by the million shall not wait for each to be compared.
_COMPARED: Final = 20
_REMEMBERED: Final = 1000
# Longer texts are not worth remembering.
_USUAL_BYTES: Final = 4096


class FieldNames:
    """Looks at the objects of one dump; a name that is no typo is compared once."""

    def __init__(self) -> None:
        self._harmless = {shape: {*read, *_REAL} for shape, read in _READ.items()}
        # Pods of a template have the same tolerations and affinity, letter by letter, a hundred thousand times.
        self._lines = lru_cache(_REMEMBERED)(lambda text, shape: tuple(self._within(msgspec.Raw(text), shape, "")))

    def misspelt(self, value: object, shape: Shape) -> Iterator[str]:
        """Yield a line for each field of an object that nobody knows beside one that is missing.

        Args:
            value: JSON text (`msgspec.Raw`) or values, which decode as `shape`.
            shape: RawNode or RawPod.
        """
        yield from self._within(value, shape, "")

    def _within(self, value: object, shape: Shape, path: str) -> Iterator[str]:
        entries = opened(value)
        if isinstance(entries, list):
            for at, entry in enumerate(entries):
                yield from self._within(entry, shape, f"{path}[{at}]")
        if not isinstance(entries, dict):
            return
        dot = f"{path}." if path else ""
        for name in sorted(map(str, entries.keys() - self._harmless[shape]))[:_COMPARED]:
            meant = closest(name, _READ[shape], _ALIKE)
            if meant is None and len(self._harmless[shape]) < _REMEMBERED:
                self._harmless[shape].add(name)
            if meant is not None and meant not in entries:
                yield f"{dot}{name}: {NO_SUCH_FIELD}; did you mean {meant}?"
        for name, inner in _INSIDE.get(shape, {}).items():
            if name in entries:
                yield from self._part(entries[name], inner, f"{dot}{name}")

    def _part(self, value: object, shape: Shape, path: str) -> Iterator[str]:
        if not isinstance(value, msgspec.Raw) or len(memoryview(value)) > _USUAL_BYTES:
            yield from self._within(value, shape, path)
            return
        for line in self._lines(bytes(value), shape):
            yield f"{path}{'' if line.startswith('[') else '.'}{line}"
