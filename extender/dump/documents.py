"""The text of a dump as a flat run of items: JSON or YAML, lists, single objects, several documents, streams.

JSON stays undecoded until an item's kind is known, so a big dump is never a tree of dictionaries. Items are numbered
from 1 over all documents of a source.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import yaml

from extender.dump.yamlvalues import load_values
from extender.errors import DumpError
from extender.printable import shortened
from extender.textvalues import json_float, json_integer, mended, read_json, shallow

T = TypeVar("T")

# An object with a quoted key, an empty one, or an array; `{kind: Pod}` is YAML.
_JSON_START = re.compile(rb'\s*(?:\[|\{\s*["}])')
_BLANKS = re.compile(r"(?:\s|---(?=\s))*")  # JSON objects with YAML's separator between them, too
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PATH = re.compile(r"(?P<message>.*) - at `\$(?P<path>.*)`", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])")
_BEYOND: Final = "out of range"  # what msgspec says of a number that no type of ours holds
_LONGEST_NAME: Final = 300


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    metadata: _Meta | None = None


class _JsonList(msgspec.Struct, frozen=True, gc=False):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


class _ValueList(msgspec.Struct, frozen=True):
    kind: str | None = None
    items: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One API object of a source, not yet decoded.

    Attributes:
        kind: the object's own kind, else what the list around it promises, else "".
        name: what to call it in messages.
        value: JSON text (`msgspec.Raw`), or what YAML made of it.
    """

    source: str
    number: int
    kind: str
    name: str
    value: object

    def decode(self, type_: type[T]) -> T:
        """Decode the item.

        Raises:
            DumpError: one line with source, item number, name and field.
        """
        try:
            return _decode(self.value, type_)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self.fault(_in_words(error, self.value)) from error

    def fault(self, text: str) -> DumpError:
        """Return an error about this item; `text` starts with the field."""
        kind, name = (
            shortened(text, _LONGEST_NAME) for text in (self.kind or "no kind", self.name or "without a name")
        )
        return DumpError(f"{self.source}: item {self.number} ({kind} {name}): {text}")


def read_items(source: str, data: bytes) -> Iterator[Item]:
    """Yield the items of a source in order.

    Raises:
        DumpError: one line; for a text that cannot be read, and for what is no Kubernetes object.
    """
    number = 0
    for document in _documents(source, data):
        hint, values = _members(source, document)
        for value in values:
            number += 1
            yield _item(source, number, value, hint)


def _item(source: str, number: int, value: object, hint: str) -> Item:
    try:
        head = _decode(value, _Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Item(source, number, hint, "", value).fault(_in_words(error, value)) from error
    kind, meta = head.kind or hint, head.metadata or _Meta()
    if head.api_version not in {None, "", "v1"}:
        kind = f"{kind} of {head.api_version}"  # other groups have Nodes and Pods, too
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""
    item = Item(source, number, kind, name, value)
    if not kind:
        raise item.fault("kind: missing")
    return item


def _decode(value: object, type_: type[T]) -> T:
    if not isinstance(value, msgspec.Raw):
        return msgspec.convert(value, type_)
    try:
        return msgspec.json.decode(value, type=type_)
    except msgspec.ValidationError as error:
        if _BEYOND not in str(error):
            raise
        return _decode_beyond(value, type_, error)


def _decode_beyond(value: msgspec.Raw, type_: type[T], error: msgspec.ValidationError) -> T:
    """Decode an object with a number beyond all bounds as if it were text: an amount like that is said, and is no more.

    Raises:
        msgspec.ValidationError: when it stands where only a number can stand.
    """
    try:
        return msgspec.convert(read_json(bytes(value).decode()), type_)
    except (msgspec.ValidationError, ValueError):
        raise error from None


# ---------------------------------------------------------------- documents


def _members(source: str, document: object) -> tuple[str, list[Any]]:
    """Return what kind the document promises for its members, and the members; an object is its own only member."""
    if isinstance(document, list):
        return "", document
    try:
        if isinstance(document, msgspec.Raw):
            if memoryview(document)[0] == ord("["):
                return "", _decode(document, list[msgspec.Raw])
            listing: _JsonList | _ValueList = _decode(document, _JsonList)
        else:
            listing = _decode(document, _ValueList)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DumpError(f"{source}: not a Kubernetes object or list: {_in_words(error, document)}") from error
    kind = listing.kind or ""
    if listing.items is None and not kind.endswith("List"):
        return "", [document]
    return kind.removesuffix("List"), listing.items or []


def _documents(source: str, data: bytes) -> list[Any]:
    text = _utf8(source, data)
    documents = _json(source, text) if _JSON_START.match(text) else _yaml(source, text)
    if not documents:
        raise DumpError(f"{source}: is empty")
    return documents


def _utf8(source: str, data: bytes) -> bytes:
    """Return UTF-8 without a byte order mark; PowerShell's `>` writes UTF-16."""
    try:
        if data.startswith(_UTF16):
            return data.decode("utf-16").encode()
        data.decode()
    except UnicodeDecodeError as error:
        raise DumpError(f"{source}: byte {error.start + 1}: not {error.encoding} text") from error
    return data.removeprefix(codecs.BOM_UTF8)


def _json(source: str, text: bytes) -> list[Any]:
    try:
        return _json_values(source, text)
    except RecursionError as error:
        # One object of thousands is to blame, and hardly by a field that anybody reads.
        try:
            return _json_values(source, shallow(text))
        except DumpError:
            raise DumpError(f"{source}: not readable as JSON: nested too deep") from error


def _json_values(source: str, text: bytes) -> list[Any]:
    try:
        return [msgspec.json.decode(text, type=msgspec.Raw)]
    except msgspec.DecodeError:
        return list(_json_stream(source, mended(text).decode()))


def _json_stream(source: str, text: str) -> Iterator[Any]:
    """Yield the values of a text with several, or tell where it stops being JSON."""
    decoder = json.JSONDecoder(parse_int=json_integer, parse_float=json_float)
    at = _after_blanks(text, 0)
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise DumpError(
                f"{source}: not readable as JSON: line {error.lineno}, column {error.colno}: {error.msg}"
            ) from error
        yield value
        at = _after_blanks(text, at)


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _yaml(source: str, text: bytes) -> list[Any]:
    try:
        return [value for value in load_values(text) if value is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DumpError(f"{source}: not readable as YAML: {_yaml_fault(error)}") from error


def _yaml_fault(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', '')}"


# ---------------------------------------------------------------- faults


def _in_words(error: Exception, value: object) -> str:
    """Return `field: what is wrong` of a decoding error."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    match = _PATH.fullmatch(str(error))
    if match is None:
        return str(error).replace("`", "")
    path = match["path"].removeprefix(".")
    if path.endswith("[...]") and (key := _bad_key(value, match["path"])) is not None:
        path = f"{path.removesuffix('[...]')}[{key}]"
    return f"{path}: {match['message'].replace('`', '').replace(' | null', '')}"


def _bad_key(value: object, path: str) -> str | None:
    """Return the key whose value is no text in the mapping that msgspec calls `path[...]`."""
    found = opened(value)
    for name, index, _ in _STEP.findall(path):
        if isinstance(found, dict) and name:
            found = opened(found.get(name))
        elif isinstance(found, list) and index:
            found = opened(found[int(index)])
    entries = found.items() if isinstance(found, dict) else ()
    return next((str(key) for key, item in entries if not _is_text(item)), None)


def opened(value: object) -> object:
    """Return an object or array of JSON text with what is in it unread, anything else as it is."""
    if isinstance(value, msgspec.Raw) and _start(value) in b"{[":
        return msgspec.json.decode(value, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
    return value


def _start(text: msgspec.Raw) -> bytes:
    return bytes(memoryview(text)[:1])


def _is_text(value: object) -> bool:
    return _start(value) in b'"n' if isinstance(value, msgspec.Raw) else isinstance(value, str | None)
