"""YAML as plain values, straight from libyaml's events.

Says the same as PyYAML's CSafeLoader, eight times as fast: PyYAML makes a tree of nodes first, and works out the type
of every plain scalar anew. Two things differ on purpose: dates stay text, as the API has them, and so does a lone `=`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.constructor import ConstructorError

_TAG: Final = "tag:yaml.org,2002:"
_STAY_TEXT: Final = frozenset({f"{_TAG}timestamp", f"{_TAG}value"})
_COLLECTIONS: Final = frozenset({None, "!", f"{_TAG}map", f"{_TAG}seq"})
_MERGE: Final = "<<"


def load_values(text: bytes) -> Iterator[Any]:
    """Yield the value of each document.

    Raises:
        yaml.YAMLError: for what is no YAML, and for tags beyond the plain types.
        ValueError: for a scalar that is not what its tag says.
    """
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    scalars = _Scalars()
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Document(events, scalars).value(next(events))


class _Scalars(yaml.SafeLoader):
    """Knows the type of a plain scalar; remembers what it has seen, as dumps repeat themselves."""

    def __init__(self) -> None:
        super().__init__("")
        self.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag not in _STAY_TEXT]
            for first, resolvers in self.yaml_implicit_resolvers.items()
        }
        self._plain: dict[str, Any] = {}

    def read(self, event: yaml.ScalarEvent) -> Any:  # noqa: ANN401 - any YAML value
        """Return the value of a scalar."""
        plain, quoted = event.implicit
        if not plain:
            return event.value if quoted else self._tagged(event.tag, event)
        if event.value not in self._plain:
            tag = self.resolve(yaml.ScalarNode, event.value, (True, False))  # type: ignore[no-untyped-call]
            self._plain[event.value] = event.value if tag == f"{_TAG}str" else self._tagged(tag, event)
        return self._plain[event.value]

    def _tagged(self, tag: str | None, event: Any) -> Any:  # noqa: ANN401
        if tag == f"{_TAG}merge":
            return event.value
        return self.construct_object(yaml.ScalarNode(tag or "", event.value, event.start_mark, event.end_mark))


class _Document:
    """Builds the value of one document; anchors hold for that long."""

    def __init__(self, events: Iterator[Any], scalars: _Scalars) -> None:
        self._events = events
        self._scalars = scalars
        self._anchors: dict[str, Any] = {}

    def value(self, event: Any) -> Any:  # noqa: ANN401
        """Return the value that starts with an event, and take all its events."""
        if isinstance(event, yaml.ScalarEvent):
            return self._named(event, self._scalars.read(event))
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                _refuse(f"found undefined alias {event.anchor!r}", event)
            return self._anchors[event.anchor]
        if event.tag not in _COLLECTIONS:
            _refuse(f"could not determine a constructor for the tag {event.tag!r}", event)
        return self._sequence(event) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(event)

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
