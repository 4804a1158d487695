"""What the scalars of YAML and JSON texts become; the same for dumps and configurations. Pure.

The types are PyYAML's and Python's, but for this: dates and a lone `=` stay text, as the API has them. A number that
is too long to be one stays text, too (go-yaml does so; Python would take minutes, or refuse to write it). A scalar that
is not what its tag says (`!!bool x`) is a fault with its place. Half a surrogate pair is U+FFFD, as for Go's decoder.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

from extender.printable import shown

TAG: Final = "tag:yaml.org,2002:"
_TEXT: Final = f"{TAG}str"
_STAY_TEXT: Final = frozenset({f"{TAG}timestamp", f"{TAG}value"})
_LONGEST_NUMBER: Final = 100
# What PyYAML's constructors raise for a text that they cannot take.
_SLIPS: Final = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


class PlainLoader(yaml.SafeLoader):
    """SafeLoader with the scalars above."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag not in _STAY_TEXT]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ANN401 - PyYAML's signature
        """Return the tag of a node that has none."""
        if kind is yaml.ScalarNode and implicit[0] and len(value) > _LONGEST_NUMBER:
            return _TEXT
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - PyYAML's
        """Return the value of a node.

        Raises:
            yaml.MarkedYAMLError: when the tag does not fit.
        """
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise ConstructorError(None, None, f"a number of {len(node.value)} characters", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except _SLIPS as error:
            words = shown(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            problem = f"{words} is no {node.tag.removeprefix(TAG)}"
            raise ConstructorError(None, None, problem, node.start_mark) from error


_NUMBERS: Final = frozenset({f"{TAG}int", f"{TAG}float"})


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read one JSON value.

    Raises:
        ValueError: for what is no JSON.
        RecursionError: when it is nested too deep.
    """
    return json.loads(text, parse_int=json_integer, parse_float=json_float)


def json_integer(digits: str) -> int | str:
    """Return the integer, or its digits when they are too many."""
    return int(digits) if len(digits) <= _LONGEST_NUMBER else digits


def json_float(digits: str) -> float | str:
    """Return the number, or what stands for it when there is no such number (`1e400`)."""
    value = float(digits)
    return value if math.isfinite(value) else digits


# What counts of JSON for how deep something is nested. Texts as a whole, lest a bracket in one be taken for one.
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{\]}]', re.DOTALL)
_DEEPEST: Final = 100
_TOO_DEEP: Final = b'"nested too deep"'


def shallow(raw: bytes) -> bytes:
    """Return JSON with a text in place of each array and object that is nested deeper than any field of the API.

    Decoders recurse, on what they skip as well: one object nested a thousand times makes all around it unreadable.
    """
    kept, begin, depth = [], 0, 0
    for token in _BRACKETS.finditer(raw):
        if token[0] in {b"[", b"{"}:
            depth += 1
            if depth == _DEEPEST + 1:
                kept += [raw[begin : token.start()], _TOO_DEEP]
        elif token[0] in {b"]", b"}"}:
            if depth == _DEEPEST + 1:
                begin = token.end()
            depth -= 1
    return b"".join(kept) if depth > _DEEPEST else b"".join([*kept, raw[begin:]])


# An escape of JSON: a surrogate pair, half of one, or any other (lest `\\ud800` be taken for the second).
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def mended(raw: bytes) -> bytes:
    """Return JSON with U+FFFD for every lone surrogate, as Go's decoder reads it."""
    return _ESCAPES.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], bytes(raw))
