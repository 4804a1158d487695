"""YAML as plain values, straight from libyaml's events.

Says the same as PyYAML's CSafeLoader, eight times as fast: PyYAML makes a tree of nodes first, and works out the type
of every plain scalar anew. What differs on purpose is what `extender.textvalues` says of scalars.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.constructor import ConstructorError

from extender.textvalues import TAG, PlainLoader

_COLLECTIONS: Final = frozenset({None, "!", f"{TAG}map", f"{TAG}seq"})
_MERGE: Final = "<<"
# So deep are values in one another at most; objects of Kubernetes are a tenth of it. Reading takes two frames of the
# stack for each.
_DEEPEST: Final = 300
# So many values may aliases stand for in one document; nobody repeats more by hand.
_MOST_BY_ALIAS: Final = 10**6


def load_values(text: bytes) -> Iterator[Any]:
    """Yield the value of each document.

    Raises:
        yaml.YAMLError: for what is no YAML, tags beyond the plain types, scalars that are not what their tag says, and
            aliases that stand for more than a dump can mean, and values that are nested too deep.
    """
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    scalars = _Scalars()
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Document(events, scalars).value(next(events))


class _Scalars(PlainLoader):
    """Knows the type of a plain scalar; remembers what it has seen, as dumps repeat themselves."""

    def __init__(self) -> None:
        super().__init__("")
        self._plain: dict[str, Any] = {}

    def read(self, event: yaml.ScalarEvent) -> Any:  # noqa: ANN401 - any YAML value
        """Return the value of a scalar."""
        plain, quoted = event.implicit
        if not plain:
            return event.value if quoted else self._tagged(event.tag, event)
        if event.value not in self._plain:
            tag = self.resolve(yaml.ScalarNode, event.value, (True, False))
            self._plain[event.value] = event.value if tag == f"{TAG}str" else self._tagged(tag, event)
        return self._plain[event.value]

    def _tagged(self, tag: str | None, event: Any) -> Any:  # noqa: ANN401
        if tag == f"{TAG}merge":
            return event.value
        return self.construct_object(yaml.ScalarNode(tag or "", event.value, event.start_mark, event.end_mark))


class _Document:
    """Builds the value of one document; anchors hold for that long."""

    def __init__(self, events: Iterator[Any], scalars: _Scalars) -> None:
        self._events = events
        self._scalars = scalars
        self._anchors: dict[str, Any] = {}
        # How many values have been read, those behind aliases included; how many an anchor stands for; and how many
        # came by alias.
        self._read = 0
        self._sizes: dict[str, int] = {}
        self._by_alias = 0
        self._depth = 0

    def value(self, event: Any) -> Any:  # noqa: ANN401
        """Return the value that starts with an event, and take all its events."""
        self._read += 1
        if isinstance(event, yaml.ScalarEvent):
            return self._named(event, self._scalars.read(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag not in _COLLECTIONS:
            _refuse(f"could not determine a constructor for the tag {event.tag!r}", event)
        if self._depth >= _DEEPEST:
            _refuse("nested too deep", event)
        before = self._read
        self._depth += 1
        value = self._sequence(event) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(event)
        self._depth -= 1
        if event.anchor is not None:
            self._sizes[event.anchor] = self._read - before
        return value

    def _alias(self, event: yaml.AliasEvent) -> Any:  # noqa: ANN401
        if event.anchor not in self._anchors:
            _refuse(f"found undefined alias {event.anchor!r}", event)
        inside = self._sizes.get(event.anchor, 0)
        self._read += inside
        self._by_alias += inside
        if self._by_alias > _MOST_BY_ALIAS:
            _refuse(f"aliases stand for more than {_MOST_BY_ALIAS:,} values", event)
        return self._anchors[event.anchor]

    def _named(self, event: Any, value: Any) -> Any:  # noqa: ANN401
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _sequence(self, start: yaml.SequenceStartEvent) -> list[Any]:
        values: list[Any] = self._named(start, [])
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self.value(event))
        return values

    def _mapping(self, start: yaml.MappingStartEvent) -> dict[Any, Any]:
        values: dict[Any, Any] = self._named(start, {})
        merged: dict[Any, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, value = self.value(event), self.value(next(self._events))
            if not isinstance(key, Hashable):
                _refuse("found unhashable key", event)
            if key == _MERGE and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                _merge(merged, value, event)
            else:
                values[key] = value
        for key in merged.keys() - values.keys():
            values[key] = merged[key]
        return values


def _merge(merged: dict[Any, Any], value: object, event: yaml.Event) -> None:
    """Take over the mapping, or the mappings of a list, that `<<` names; the first to name a key wins."""
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, dict):
            _refuse("expected a mapping for merging", event)
        for key, inner in source.items():
            merged.setdefault(key, inner)


def _refuse(problem: str, event: Any) -> NoReturn:  # noqa: ANN401
    raise ConstructorError(None, None, problem, event.start_mark)
