"""What a scheduler configuration says, as checked values; and the two kinds of thing we say about it.

Pure. A `Finding` is fatal (kube-scheduler, or we, would not start) or a consequence worth knowing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.printable import shortened
from extender.spelling import nearest
from extender.strictyaml import join

Values = Mapping[str, object]

DEFAULT_TIMEOUT_SECONDS: Final = 5.0
"""`DefaultExtenderTimeout` of pkg/scheduler/extender.go."""

_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_DURATION: Final = 100
_LONGEST_PATH: Final = 300
_LONGEST_WORDS: Final = 1000
_INT64: Final = range(-(2**63), 2**63)
_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one path of the file; ``doubtful`` when what stands there can hardly be meant."""

    fatal: bool
    path: str
    words: str
    doubtful: bool = False

    def __str__(self) -> str:
        return f"{shortened(self.path, _LONGEST_PATH)}: {shortened(self.words, _LONGEST_WORDS)}"


def fault(path: str, words: str) -> Finding:
    """Return a finding that stops a start."""
    return Finding(fatal=True, path=path, words=words)


def note(path: str, words: str) -> Finding:
    """Return a finding that explains what will happen."""
    return Finding(fatal=False, path=path, words=words)


def doubt(path: str, words: str) -> Finding:
    """Return a finding about what has no effect, or hardly the one that was meant."""
    return Finding(fatal=False, path=path, words=words, doubtful=True)


@dataclass(frozen=True, slots=True)
class Managed:
    """One entry of `managedResources`."""

    path: str
    name: str
    ignored_by_scheduler: bool


@dataclass(frozen=True, slots=True)
class Extender:
    """One registered extender. Empty text stands for an absent verb; `legacy` means it stands in a Policy."""

    path: str
    legacy: bool
    url_prefix: str = ""
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int | None = None
    enable_https: bool = False
    tls: Values | None = None
    timeout_seconds: float | None = None
    node_cache_capable: bool = False
    managed: tuple[Managed, ...] = ()
    ignorable: bool = False

    def at(self, key: str) -> str:
        """Return the path of one of its keys."""
        return join(self.path, key)


def duration_seconds(text: str) -> float | None:
    """Return the seconds of a Go duration (`1m30s`), None when it is none (time.ParseDuration: int64 nanoseconds)."""
    body = text.lstrip("+-")
    if body == "0":
        return 0.0
    if len(body) > _LONGEST_DURATION:
        return None
    parts = _DURATION_PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        return None
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    if seconds * 1e9 >= _INT64.stop:
        return None
    return -seconds if text.startswith("-") else seconds


def is_integer(value: object) -> bool:
    """Tell whether Go would decode it as an int64."""
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def unknown_keys(value: Values, known: Collection[str], path: str) -> Iterator[Finding]:
    """Yield a fault for each key a strict, case-sensitive decoder does not know."""
    for key in value:
        if key not in known:
            yield fault(
                join(path, str(key)),
                f"unknown key, which stops kube-scheduler at start{nearest(str(key), known)}",
            )


def mappings(value: object, key: str) -> tuple[Values, ...]:
    """Return the mappings in list `value[key]`; whatever is no list or no mapping is left out."""
    items = value.get(key) if isinstance(value, Mapping) else None
    return tuple(item for item in items if isinstance(item, Mapping)) if isinstance(items, list) else ()
