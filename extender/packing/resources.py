"""Kubernetes quantities as integers, how they are added up, and the axis along which a Snapshot lays resources out.

Units: ``cpu`` in milli-CPU, ``memory``, ``ephemeral-storage`` and ``hugepages-*`` in bytes, ``pods`` and every
extended resource (GPUs among them) in whole units. An amount is an integer in ``0 .. MAX_AMOUNT``, however absurd.

No sum may wrap round 64 bits: a full node would look empty.

    on one node            ``capped_sum``, ``plus``, ``minus`` and ``times`` stay at the ends of 64 bits
    over nodes             ``total`` is exact, a Python integer
    added to, taken from   a sum at an end would miss what is taken away later: one pod counts ``countable`` at most
    other products, ratios are made of floats
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.int64]

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL: Final = "ephemeral-storage"
BASE_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL, PODS)

CORE_MILLI: Final = 1000
GIB: Final = 2**30

# Quantity caps amounts at 2^63-1 when it parses (apimachinery pkg/api/resource/quantity.go, maxAllowed).
MAX_AMOUNT: Final = 2**63 - 1
_MIN_AMOUNT: Final = -(2**63)
# Far above any node; 8,000 pods that ask for as much may meet on one.
_MOST_COUNTABLE: Final = 2**50
_HALF_BITS: Final = 32

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)
# Amounts of bytes as people write them: `40GB`, `512 mib`, `40g`. `8K` may be anything.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([km])i?b|([gtp])i?b?)", re.ASCII | re.IGNORECASE)

# An exponent beyond this cannot change a capped or rounded-up amount; it only costs time to compute.
_EXPONENT_CAP = 60
_DIGITS_CAP = 400


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message quotes it."""


def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text) if len(text) <= _DIGITS_CAP else None
    if match is None:
        raise QuantityError(f"{text[:40]!r} is not a quantity{_meant(text)}")
    sign, digits, suffix, exponent = match.groups()
    amount = Fraction(digits)
    if suffix in _BINARY:
        amount *= _BINARY[suffix]
    else:
        power = int(exponent) if exponent else _DECIMAL[suffix or ""]
        amount *= Fraction(10) ** max(-_EXPONENT_CAP, min(_EXPONENT_CAP, power))
    return -amount if sign == "-" else amount


def _meant(text: str) -> str:
    """Return what an amount of bytes as people write it is in Kubernetes; "" for other texts."""
    size = _SIZE.fullmatch(text.strip()) if len(text) <= _DIGITS_CAP else None
    return f" (did you mean {size[1]}{(size[2] or size[3]).upper()}i?)" if size else ""


def parse_quantity(value: object, *, scale: int = 1) -> int:
    """Read a quantity and return it times ``scale``, rounded up as ``Quantity.ScaledValue`` does.

    ``scale`` is 1000 for milli-CPU. ``None`` is 0 (JSON null decodes to a zero Quantity). Amounts are capped at
    ``MAX_AMOUNT``; negative ones are returned as they are, the caller decides what they mean.

    Raises:
        QuantityError: for text outside the grammar of apimachinery pkg/api/resource/quantity.go, and for
            values that are neither text nor a whole number.
    """
    return _scaled(_text(value), scale)


def is_whole(value: object) -> bool:
    """Tell whether a quantity is a whole number, so that nothing of it is rounded.

    Raises:
        QuantityError: as ``parse_quantity``.
    """
    text = _text(value)
    return (text.isascii() and text.isdigit()) or _parse(text).denominator == 1


def _text(value: object) -> str:
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(f"{value!r:.40} is not a quantity")
    return value if isinstance(value, str) else repr(value)


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


def plus(left: Amounts, right: Amounts | int) -> Amounts:
    """Add amounts to amounts without leaving 64 bits; neither is below zero."""
    most: Amounts = np.subtract(MAX_AMOUNT, right, dtype=np.int64)
    return np.add(np.minimum(left, most), right, dtype=np.int64)


def minus(left: Amounts, right: Amounts | int) -> Amounts:
    """Take amounts away without leaving 64 bits; `left` may be below zero, what is taken may not."""
    least: Amounts = np.add(_MIN_AMOUNT, right, dtype=np.int64)
    return np.subtract(np.maximum(left, least), right, dtype=np.int64)


def times(amounts: Amounts, counts: Amounts) -> Amounts:
    """Multiply amounts by counts without leaving 64 bits; neither is below zero."""
    most: Amounts = MAX_AMOUNT // np.maximum(counts, 1)
    return np.multiply(np.minimum(amounts, most), counts, dtype=np.int64)


def total(amounts: Amounts) -> int:
    """Return the exact sum."""
    upper, lower = amounts >> _HALF_BITS, amounts & (2**_HALF_BITS - 1)
    return (int(upper.sum()) << _HALF_BITS) + int(lower.sum())


def countable(amount: int) -> int:
    """Return what one pod's amount counts for in a sum that is added to and taken from."""
    return min(amount, _MOST_COUNTABLE)


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
