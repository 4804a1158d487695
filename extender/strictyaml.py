"""YAML and JSON texts read without silence: duplicate keys and unreadable texts are faults, never guesses.

PyYAML keeps the last of two equal keys and turns bare dates into date objects; both would change what the
author wrote without a word. Pure: text in, value and faults out; never raises for bad text.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """SafeLoader without dates: `2024-01-01` stays text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }


@dataclass(frozen=True, slots=True)
class Document:
    """One text's value (None when it cannot be read) and what is wrong with the text."""

    value: object
    faults: tuple[str, ...]


def read_document(text: str) -> Document:
    """Read one YAML or JSON document. Faults say `path: given twice` or where the text stops making sense."""
    # JSON indented with tabs is no YAML, so JSON goes first.
    return _read_json(text) if text.lstrip().startswith("{") and _is_json(text) else _read_yaml(text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_json(text: str) -> Document:
    twice: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in items]
        twice.extend(f"{key}: given twice" for key in dict.fromkeys(keys) if keys.count(key) > 1)
        return dict(items)

    return Document(json.loads(text, object_pairs_hook=pairs), tuple(twice))


# What PyYAML lets through: a wrong value under an explicit tag (!!bool x), numbers of thousands of digits, nesting.
_SLIPS: Final = (ValueError, LookupError, AttributeError, RecursionError)


def _read_yaml(text: str) -> Document:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        value = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, *_SLIPS) as error:
        return Document(None, (f"file: not readable as YAML: {_one_line(error)}",))
    if _is_cyclic(node, set(), set()):
        return Document(None, ("file: an alias stands inside what it names",))
    return Document(value, tuple(_duplicates(node, "", set())))


def _one_line(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"


def _children(node: yaml.Node | None) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        yield from (value for _, value in node.value)


def _is_cyclic(node: yaml.Node | None, above: set[int], done: set[int]) -> bool:
    """Depth first: a node met again below itself closes a circle; one in `done` has been seen to be free of any."""
    if id(node) in done:
        return False
    if id(node) in above:
        return True
    above.add(id(node))
    found = any(_is_cyclic(child, above, done) for child in _children(node))
    above.discard(id(node))
    done.add(id(node))
    return found


def _duplicates(node: yaml.Node | None, path: str, seen: set[int]) -> Iterator[str]:
    """Walk the node tree once (`seen` stops at aliases) and yield doubled keys."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _duplicates(item, f"{path}[{index}]", seen)
    elif isinstance(node, yaml.MappingNode):
        yield from _doubled_keys(node, path)
        for key, value in node.value:
            yield from _duplicates(value, join(path, str(key.value)), seen)


def _doubled_keys(node: yaml.MappingNode, path: str) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            yield f"{join(path, name)}: given twice (lines {lines[name]} and {line})"
        lines.setdefault(name, line)


def join(path: str, key: str) -> str:
    """Return `path.key`, or `key` alone at the top."""
    return f"{path}.{key}" if path else key


def nearest(word: str, known: Collection[str]) -> str:
    """Return `; did you mean X?` for the known word most like this one, or nothing when none is alike."""
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]}?" if close else ""
