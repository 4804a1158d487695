"""Keys in any casing, as Go's encoding/json reads them: `Pod`, `pod` and `POD` are one field, the last one counts.

The slow path of `decode`: bodies with the exact keys of today's kube-scheduler never come here. Node names are keys
too, but data: `Shape.values` leaves them alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class Shape:
    """What is known of a JSON value: the fields of an object, or one shape for all values of a map or list."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    values: Shape | None = None
    items: Shape | None = None


ANY: Final = Shape()


def objects(**fields: Shape) -> Shape:
    """Return the shape of an object; fields not named are dropped."""
    return Shape(fields=fields)


def canonical(raw: bytes, shape: Shape) -> bytes:
    """Return the JSON value with the keys of `shape` in their exact casing; what has another type stays as it is.

    Raises:
        msgspec.DecodeError: when it is no JSON.
    """
    if shape.fields and _opens(raw, b"{"):
        members = _fold(raw, shape.fields)
        return _braces(members, {name: canonical(value, shape.fields[name]) for name, value in members.items()})
    if shape.values is not None and _opens(raw, b"{"):
        members = {name: bytes(value) for name, value in _object.decode(raw).items()}
        return _braces(members, {name: canonical(value, shape.values) for name, value in members.items()})
    if shape.items is not None and _opens(raw, b"["):
        return b"[" + b",".join(canonical(bytes(item), shape.items) for item in _array.decode(raw)) + b"]"
    return raw


def _opens(raw: bytes, bracket: bytes) -> bool:
    return raw.lstrip()[:1] == bracket


def _braces(members: Mapping[str, bytes], values: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(json.dumps(name).encode() + b":" + values[name] for name in members) + b"}"


def _fold(raw: bytes, fields: Mapping[str, Shape]) -> dict[str, bytes]:
    known = {name.casefold(): name for name in fields}
    found = _object.decode(raw)
    if len({key.casefold() for key in found}) < len(found):
        found = {key: found[key] for key in _order_of_last(raw)}
    return {known[key.casefold()]: bytes(value) for key, value in found.items() if key.casefold() in known}


def _order_of_last(raw: bytes) -> list[str]:
    """Return the keys of an object in the order of their last appearance, which a dict does not keep."""
    pairs = json.loads(raw, object_pairs_hook=lambda members: [key for key, _ in members])
    return list(reversed(dict.fromkeys(reversed(pairs))))
