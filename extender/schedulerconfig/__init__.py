"""`gpu-extender config check`: judges our own configuration, a Policy or a KubeSchedulerConfiguration.

A verdict has faults (kube-scheduler, or we, would not start) and consequences (what the file will do, in plain
words). Whatever the text, a verdict comes out; nothing is read, asked or started. Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.config import check_document
from extender.printable import shown
from extender.schedulerconfig import component, own, policy
from extender.schedulerconfig.reading import read_extenders
from extender.schedulerconfig.rules import EXTENDER_RULES, among, weigh
from extender.schedulerconfig.values import Extender, Finding, Values, fault
from extender.strictyaml import Document, read_document

__all__ = ["OWN", "UNKNOWN", "Verdict", "judge", "render_verdict"]

OWN: Final = "gpu-extender"
POLICY: Final = "Policy"
COMPONENT: Final = "KubeSchedulerConfiguration"
UNKNOWN: Final = "unknown"
_WIDTH: Final = 100
_NARROWEST: Final = 20
_FOREIGN_KEYS: Final = frozenset({"kind", "apiVersion", "extenders", "profiles", "predicates", "priorities"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said about one file; every sentence starts with the path it is about.

    ``warnings`` are those of the consequences that can hardly be meant: of keys without effect, for example.
    """

    source: str
    kind: str
    faults: tuple[str, ...]
    consequences: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True without faults: exit code 0, else 1."""
        return not self.faults


def judge(text: str, *, source: str, known_policies: Collection[str] | None = None) -> Verdict:
    """Judge one YAML or JSON text; `source` names it in the verdict.

    `known_policies` are the names `scoring.policy` of our own configuration may have; None accepts any.
    A ConfigMap is judged by the one entry that holds a scheduler's configuration (`policy.cfg` in kube-system).
    """
    document = _unwrap(read_document(text))
    kind = _kind(document)
    findings = [*_stated(document.faults), *_judge(kind, document.value, known_policies)]
    return Verdict(
        source=source,
        kind=kind,
        faults=tuple(str(finding) for finding in findings if finding.fatal),
        consequences=tuple(str(finding) for finding in findings if not finding.fatal),
        warnings=tuple(str(finding) for finding in findings if finding.doubtful),
    )


def render_verdict(verdict: Verdict, columns: int = _WIDTH) -> str:
    """Return the verdict as lines for people, without colour, none of them longer than what is easily read."""
    width = max(_NARROWEST, min(columns, _WIDTH))
    head = f"{verdict.source}: {verdict.kind}, {_count(len(verdict.faults), 'fault')}"
    lines = textwrap.wrap(head, width, subsequent_indent="  ", break_on_hyphens=False)
    for title, texts in (("Faults", verdict.faults), ("Consequences", verdict.consequences)):
        if texts:
            lines += ["", title]
        for text in texts:
            lines += textwrap.wrap(text, width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _unwrap(document: Document) -> Document:
    """Return the configuration inside a ConfigMap, or the document itself."""
    value = document.value
    data = value.get("data") if isinstance(value, Mapping) and value.get("kind") == "ConfigMap" else None
    for text in data.values() if isinstance(data, Mapping) else ():
        inner = read_document(str(text))
        if _kind(inner) in {POLICY, COMPONENT}:
            return Document(inner.value, (*document.faults, *inner.faults))
    return document


def _kind(document: Document) -> str:
    value = document.value
    if value is None:
        return UNKNOWN if document.faults else OWN
    if not isinstance(value, Mapping):
        return UNKNOWN
    if value.get("kind") in (POLICY, COMPONENT):
        return str(value["kind"])
    return UNKNOWN if _FOREIGN_KEYS & value.keys() else OWN


def _stated(faults: Iterable[str]) -> Iterator[Finding]:
    return (fault(*text.split(": ", 1)) for text in faults)


def _judge(kind: str, value: object, known_policies: Collection[str] | None) -> Iterator[Finding]:
    if kind == OWN:
        config, faults = check_document(value, known_policies=known_policies)
        yield from _stated(faults)
        yield from own.consequences(config) if config else ()
    elif value is None:
        return  # not readable, which has been said
    elif not isinstance(value, Mapping):
        yield fault("file", "must be a mapping")
    elif kind == UNKNOWN:
        yield fault("kind", f"must be {POLICY} or {COMPONENT}, got {shown(value.get('kind'))}")
    else:
        yield from _judge_scheduler({str(key): item for key, item in value.items()}, legacy=kind == POLICY)


def _judge_scheduler(value: Values, *, legacy: bool) -> Iterator[Finding]:
    rules = policy.POLICY_RULES if legacy else component.COMPONENT_RULES
    in_tree = policy.in_tree_points(value) if legacy else component.in_tree_points(value)
    for rule in rules:
        yield from rule(value)
    extenders, misread = read_extenders(value.get("extenders"), "extenders", legacy=legacy)
    yield from misread
    beside_policy = not legacy and component.of_policy_times(value)
    yield from among(extenders, "extenders", legacy=legacy, beside_policy=beside_policy)
    # What a value means that could not be read is of no interest, and mostly wrong.
    faulty = {finding.path for finding in misread if finding.fatal}
    for extender in extenders:
        yield from (finding for finding in _judge_extender(extender, in_tree) if finding.path not in faulty)


def _judge_extender(extender: Extender, in_tree: int) -> Iterator[Finding]:
    yield from weigh(extender, in_tree)
    for rule in EXTENDER_RULES:
        yield from rule(extender)
