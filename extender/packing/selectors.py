"""Where a pod may run at all: node selector, node affinity, taints. Agrees with kube-scheduler term by term.

Sources: component-helpers/scheduling/corev1/nodeaffinity (terms, operators), apimachinery pkg/labels
(requirements), api core/v1 toleration.go. Not modelled: the comparison operators of tolerations (KEP-5471, alpha).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NAME_FIELD: Final = "metadata.name"
UNSCHEDULABLE_KEY: Final = "node.kubernetes.io/unschedulable"
LOST_KEYS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that the node controller gives to nodes that are not ready; they alone keep kube-scheduler off."""
# Leading zeros are legal; past this nobody means a number, and reading it would cost time.
_LONGEST_INTEGER: Final = 40
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = re.compile(f"(?:{_NAME})?", re.ASCII)
_DNS = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:(?=.{{1,253}}/){_DNS}(?:\.{_DNS})*/)?{_NAME}", re.ASCII)
_MAX_KEY = 253 + 1 + 63
_OBJECT_BYTES: Final = 100


class Operator(StrEnum):
    """Operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_FIELD_OPERATORS: Final = frozenset({Operator.IN, Operator.NOT_IN})


def parse_int64(text: str) -> int | None:
    """Read an integer as Go's ``strconv.ParseInt(text, 10, 64)`` does; None where that fails."""
    if not _INTEGER.fullmatch(text) or len(text) > _LONGEST_INTEGER:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def valid_label_value(text: str) -> bool:
    """Tell whether a node can carry the text as a label value (apimachinery validation.IsValidLabelValue)."""
    return _LABEL_VALUE.fullmatch(text) is not None


def _valid_label_key(text: str) -> bool:
    return len(text) <= _MAX_KEY and _LABEL_KEY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One ``key operator values`` line. ``operator`` is None when the API would refuse it: it matches nothing."""

    key: str
    operator: Operator | None
    values: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Tell whether kube-scheduler can read the line as one about labels (apimachinery labels.NewRequirement).

        Values are checked for every operator: ``NotIn ["Tesla K80"]`` matches nothing, as the blank is not allowed.
        """
        return self._countable and _valid_label_key(self.key) and all(map(valid_label_value, self.values))

    @property
    def valid_field(self) -> bool:
        """Tell whether it can read the line as one about fields (nodeSelectorRequirementsAsFieldSelector).

        Any key will do: fields that a node has not are empty (extractNodeFields gives the name alone).
        """
        return self.operator in _FIELD_OPERATORS and len(self.values) == 1

    @property
    def _countable(self) -> bool:
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                return bool(self.values)
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                return not self.values
            case Operator.GT | Operator.LT:
                return len(self.values) == 1 and parse_int64(self.values[0]) is not None
            case _:
                return False

    @property
    def bound(self) -> int:
        """Return the number of a valid Gt or Lt line."""
        return int(self.values[0])


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: all its lines must match. An empty term, or one with an invalid line, matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def satisfiable(self) -> bool:
        """Tell whether the term can match at all."""
        some = bool(self.expressions or self.fields)
        return some and all(r.valid for r in self.expressions) and all(r.valid_field for r in self.fields)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A preferred node affinity term; ``weight`` is 1..100."""

    weight: int
    term: Term


class Effect(StrEnum):
    """Taint effects. Only the first two keep a pod away."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"


HARD_EFFECTS: Final = frozenset({Effect.NO_SCHEDULE, Effect.NO_EXECUTE})


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint. ``effect`` stays text: an unknown effect keeps nobody away."""

    key: str
    value: str = ""
    effect: str = Effect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


UNSCHEDULABLE_TAINT: Final = Taint(UNSCHEDULABLE_KEY)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration; an empty ``key`` means any key, an empty ``effect`` any effect."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: str = ""


class TolerationSet:
    """Which taints some tolerations cover (core/v1 toleration.go ToleratesTaint); their number costs nothing."""

    def __init__(self, tolerations: tuple[Toleration, ...]) -> None:
        self._any_value = {(t.key, t.effect) for t in tolerations if t.exists}
        self._one_value = {(t.key, t.effect, t.value) for t in tolerations if not t.exists}

    def covers(self, taint: Taint) -> bool:
        """Tell whether one of the tolerations covers the taint."""
        return any(
            (key, effect) in self._any_value or (key, effect, taint.value) in self._one_value
            for key in ("", taint.key)
            for effect in ("", taint.effect)
        )

    def uncovered(self, taints: Iterable[Taint]) -> Taint | None:
        """Return the first taint that keeps the pod away, None if there is none."""
        return next((t for t in taints if t.effect in HARD_EFFECTS and not self.covers(t)), None)


@dataclass(frozen=True, slots=True)
class NodeConstraints:
    """Everything about a pod that decides *which* nodes, apart from amounts and GPU wishes.

    Attributes:
        selector: ``spec.nodeSelector`` as sorted (key, value) pairs.
        affinity: required terms, any of which must match; None when there is no such requirement. An empty tuple
            matches no node, as in kube-scheduler.
        tolerations: as given.
    """

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the value takes."""
        lines = [line for term in self.affinity or () for line in (*term.expressions, *term.fields)]
        texts = [text for pair in self.selector for text in pair]
        texts += [text for line in lines for text in (line.key, *line.values)]
        texts += [text for t in self.tolerations for text in (t.key, t.value)]
        return _OBJECT_BYTES * (len(texts) + len(lines) + len(self.tolerations)) + sum(map(len, texts))


NO_CONSTRAINTS: Final = NodeConstraints()
