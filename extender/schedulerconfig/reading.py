"""Reads `extenders[]` of both kinds of file: key spelling, types and durations. Pure and total: never raises.

KubeSchedulerConfiguration is decoded strictly and case-sensitively, a Policy case-insensitively and with unknown
keys left out in silence (KS:config/v1 `LegacyExtender.UnmarshalJSON`), so the same slip is a fault here and a
consequence there. Go decodes `null` as "not given" and no number as text or the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.printable import shown
from extender.schedulerconfig.values import (
    Extender,
    Finding,
    Managed,
    Values,
    doubt,
    duration_seconds,
    fault,
    is_integer,
)
from extender.spelling import nearest
from extender.strictyaml import join

_ATTRIBUTES: Final = {
    "urlPrefix": "url_prefix",
    "filterVerb": "filter_verb",
    "prioritizeVerb": "prioritize_verb",
    "preemptVerb": "preempt_verb",
    "bindVerb": "bind_verb",
    "weight": "weight",
    "enableHTTPS": "enable_https",
    "tlsConfig": "tls",
    "httpTimeout": "timeout_seconds",
    "nodeCacheCapable": "node_cache_capable",
    "managedResources": "managed",
    "ignorable": "ignorable",
}
_LEGACY_ONLY: Final = frozenset({"apiVersion"})  # a segment of the URL on 1.2 to 1.5
_TLS_TYPES: Final = {
    "insecure": bool,
    "serverName": str,
    "certFile": str,
    "keyFile": str,
    "caFile": str,
    "certData": str,
    "keyData": str,
    "caData": str,
}
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "apiVersion"), str),
    **dict.fromkeys(("enableHTTPS", "nodeCacheCapable", "ignorable"), bool),
    "weight": int,
    "tlsConfig": dict,
    "managedResources": list,
    "httpTimeout": object,
}
_MANAGED_TYPES: Final = {"name": str, "ignoredByScheduler": bool}
_TYPE_NAMES: Final = {str: "text", bool: "true or false", int: "an integer", dict: "a mapping", list: "a list"}


def read_extenders(value: object, path: str, *, legacy: bool) -> tuple[tuple[Extender, ...], tuple[Finding, ...]]:
    """Return the extenders of a file and what is wrong with how they are written."""
    if value is not None and not isinstance(value, list):
        return (), (fault(path, "must be a list"),)
    reader = _Reader(legacy=legacy)
    extenders = tuple(reader.extenders(value or [], path))
    return extenders, tuple(reader.findings)


class _Reader:
    """Reads the values of one file and gathers what it finds on the way."""

    def __init__(self, *, legacy: bool) -> None:
        self.legacy = legacy
        self.findings: list[Finding] = []

    def extenders(self, items: list[object], path: str) -> Iterator[Extender]:
        for index, item in enumerate(items):
            where = f"{path}[{index}]"
            if isinstance(item, Mapping):
                yield self._extender(item, where)
            else:
                self.findings.append(fault(where, "must be a mapping"))

    def _extender(self, raw: Values, path: str) -> Extender:
        known = _TYPES if self.legacy else {key: kind for key, kind in _TYPES.items() if key not in _LEGACY_ONLY}
        fields = self._fields(raw, known, path)
        values: dict[str, Any] = {_ATTRIBUTES[key]: value for key, value in fields.items() if key in _ATTRIBUTES}
        if "tls" in values:
            values["tls"] = self._fields(values["tls"], _TLS_TYPES, join(path, "tlsConfig"))
        if "timeout_seconds" in values:
            values["timeout_seconds"] = self._timeout(values["timeout_seconds"], join(path, "httpTimeout"))
        if "managed" in values:
            values["managed"] = tuple(self._managed(values["managed"], join(path, "managedResources")))
        return Extender(path=path, legacy=self.legacy, **values)

    def _fields(self, raw: Values, known: Mapping[str, type], path: str) -> dict[str, Any]:
        """Return the known, well-typed fields under their proper spelling."""
        spelling = {key.lower() if self.legacy else key: key for key in known}
        fields: dict[str, Any] = {}
        for key, value in ((str(key), value) for key, value in raw.items()):
            proper = spelling.get(key.lower() if self.legacy else key)
            if proper is None:
                self.findings.append(self._unknown(key, known, path))
            elif value is not None and not _is(value, known[proper]):
                words = f"must be {_TYPE_NAMES[known[proper]]}, got {shown(value)}"
                self.findings.append(fault(join(path, key), words))
            elif value is not None:
                fields[proper] = value
        return fields

    def _unknown(self, key: str, known: Mapping[str, type], path: str) -> Finding:
        if self.legacy:
            return doubt(join(path, key), f"unknown key, which a Policy leaves out in silence{nearest(key, known)}")
        return fault(join(path, key), f"unknown key, which stops kube-scheduler at start{nearest(key, known)}")

    def _timeout(self, value: object, path: str) -> float | None:
        """Return seconds. A Policy counts integer nanoseconds, the newer kind has a text such as `2s`."""
        if self.legacy and isinstance(value, int) and is_integer(value):
            return value / 1e9
        seconds = duration_seconds(value) if isinstance(value, str) and not self.legacy else None
        if seconds is None:
            form = "integer nanoseconds (2000000000 is 2 s)" if self.legacy else "a duration in text, such as 2s"
            self.findings.append(fault(path, f"must be {form}, got {shown(value)}"))
        return seconds

    def _managed(self, items: list[object], path: str) -> Iterator[Managed]:
        for index, item in enumerate(items):
            where = f"{path}[{index}]"
            if isinstance(item, Mapping):
                fields = self._fields(item, _MANAGED_TYPES, where)
                yield Managed(where, fields.get("name", ""), fields.get("ignoredByScheduler", False))
            else:
                self.findings.append(fault(where, "must be a mapping with a name"))


def _is(value: object, kind: type) -> bool:
    return is_integer(value) if kind is int else isinstance(value, kind)
