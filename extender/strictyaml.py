"""YAML and JSON texts read without silence: duplicate keys and unreadable texts are faults, never guesses.

PyYAML keeps the last of two equal keys and turns bare dates into date objects; both would change what the
author wrote without a word. Pure: text in, value and faults out; never raises for bad text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import yaml
from yaml.constructor import ConstructorError

from extender.textvalues import PlainLoader, json_float, json_integer, read_json

# Aliases may stand for so many characters beside twice the text's own; a thousandfold is a bomb, not a configuration.
_ROOM: Final = 10**5
_DEEPEST: Final = 100
# What PyYAML lets through beside its own errors: `%YAML` of a thousand digits, `"\UFFFFFFFF"`.
_SLIPS: Final = (ValueError, ArithmeticError)


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
        read_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_json(text: str) -> Document:
    twice: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        counts = Counter(key for key, _ in items)
        twice.extend(f"{key}: given twice" for key, count in counts.items() if count > 1)
        return dict(items)

    value = json.loads(text, object_pairs_hook=pairs, parse_int=json_integer, parse_float=json_float)
    return Document(value, tuple(twice)) if _depth(value) <= _DEEPEST else Document(None, (_TOO_DEEP,))


_TOO_DEEP: Final = f"file: nested more than {_DEEPEST} deep"


def _depth(value: object) -> int:
    """Return how many objects and arrays stand inside one another, counted until it is too many."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        level = [inner for item in level for inner in _inside(item)]
        depth += 1
    return depth


def _inside(value: object) -> Collection[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _read_yaml(text: str) -> Document:
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, ())
        size = _size(node, {})
        if size.depth > _DEEPEST:
            return Document(None, (_TOO_DEEP,))
        if size.characters > _ROOM + 2 * len(text):
            return Document(None, ("file: its aliases stand for far more than is written",))
        return Document(loader.construct_document(node), tuple(_duplicates(node, "", set())))
    except RecursionError:
        return Document(None, (_TOO_DEEP,))
    except (yaml.YAMLError, *_SLIPS) as error:
        return Document(None, (f"file: not readable as YAML: {_one_line(error)}",))


def _one_line(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


@dataclass(frozen=True, slots=True)
class _Size:
    """How long and how deep a node is once its aliases are written out."""

    characters: int
    depth: int


def _size(node: yaml.Node, done: dict[int, _Size | None]) -> _Size:
    """Measure a node, each once; None in `done` marks those that are still open.

    Raises:
        ConstructorError: for a circle.
    """
    if id(node) not in done:
        done[id(node)] = None
        inner = [_size(child, done) for child in _children(node)]
        own = 1 + len(node.value) if isinstance(node, yaml.ScalarNode) else 1
        characters = own + sum(size.characters for size in inner)
        done[id(node)] = _Size(characters, 1 + max((size.depth for size in inner), default=0))
    size = done[id(node)]
    if size is None:
        raise ConstructorError(None, None, "an alias stands inside what it names", node.start_mark)
    return size


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
