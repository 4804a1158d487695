"""Kubernetes quantities as integers, and the axis along which a Snapshot lays resources out.

Units: ``cpu`` in milli-CPU, ``memory``, ``ephemeral-storage`` and ``hugepages-*`` in bytes, ``pods`` and every
extended resource (GPUs among them) in whole units. Everything is an ``int`` in ``0 .. MAX_AMOUNT``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL: Final = "ephemeral-storage"
BASE_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL, PODS)

# Quantity caps amounts at 2^63-1 when it parses (apimachinery pkg/api/resource/quantity.go, maxAllowed).
MAX_AMOUNT: Final = 2**63 - 1

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)

# An exponent beyond this cannot change a capped or rounded-up amount; it only costs time to compute.
_EXPONENT_CAP = 60
_DIGITS_CAP = 400


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message quotes it."""


def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text) if len(text) <= _DIGITS_CAP else None
    if match is None:
        raise QuantityError(f"{text[:40]!r} is not a quantity")
    sign, digits, suffix, exponent = match.groups()
    amount = Fraction(digits)
    if suffix in _BINARY:
        amount *= _BINARY[suffix]
    else:
        power = int(exponent) if exponent else _DECIMAL[suffix or ""]
        amount *= Fraction(10) ** max(-_EXPONENT_CAP, min(_EXPONENT_CAP, power))
    return -amount if sign == "-" else amount


def parse_quantity(value: object, *, scale: int = 1) -> int:
    """Read a quantity and return it times ``scale``, rounded up as ``Quantity.ScaledValue`` does.

    ``scale`` is 1000 for milli-CPU. ``None`` is 0 (JSON null decodes to a zero Quantity). Amounts are capped at
    ``MAX_AMOUNT``; negative ones are returned as they are, the caller decides what they mean.

    Raises:
        QuantityError: for text outside the grammar of apimachinery pkg/api/resource/quantity.go, and for
            values that are neither text nor a whole number.
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(f"{value!r:.40} is not a quantity")
    return _scaled(value if isinstance(value, str) else repr(value), scale)


@lru_cache(maxsize=4096)
def _scaled(text: str, scale: int) -> int:
    amount = _parse(text) * scale
    return max(-MAX_AMOUNT, min(MAX_AMOUNT, -(-amount.numerator // amount.denominator)))


def scale_of(resource: str) -> int:
    """Return the factor from a quantity to our integer unit: 1000 for cpu, else 1."""
    return 1000 if resource == CPU else 1


def capped_sum(left: int, right: int) -> int:
    """Add two amounts without leaving 64 bits."""
    return min(MAX_AMOUNT, left + right)


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """The order of resources in a Snapshot's matrices: the base four, then the others by name."""

    names: tuple[str, ...]
    index: Mapping[str, int] = field(repr=False, compare=False)

    @classmethod
    def of(cls, resources: Iterable[str]) -> ResourceAxis:
        """Build the axis that holds ``resources`` and the base four."""
        names = (*BASE_RESOURCES, *sorted(set(resources) - set(BASE_RESOURCES)))
        return cls(names, {name: i for i, name in enumerate(names)})

    def __len__(self) -> int:
        return len(self.names)

    def covers(self, resources: Iterable[str]) -> bool:
        """Tell whether every one of ``resources`` has a place on the axis."""
        return all(name in self.index for name in resources)
