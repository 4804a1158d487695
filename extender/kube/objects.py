"""Lists and watch events as bytes -> values of the core. What cannot be read is named in a warning and left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from extender.changes import Change, NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.kube.convert import DEFAULT_NAMESPACE, Warn, node_info, pod_info
from extender.kube.gpurules import GpuRules
from extender.kube.once import Once
from extender.kube.raw import (
    Named,
    RawEvent,
    RawListHead,
    RawMeta,
    RawNode,
    RawNodeList,
    RawPod,
    RawPodList,
    RawStatus,
    UnreadList,
)
from extender.packing.types import NodeInfo, PodInfo
from extender.textvalues import shallow

T = TypeVar("T")
R = TypeVar("R")

_NO_META: Final = RawMeta()
_EVENT: Final = msgspec.json.Decoder(RawEvent)
_NAMED: Final = msgspec.json.Decoder(Named)
_STATUS: Final = msgspec.json.Decoder(RawStatus)
_UNREAD: Final = msgspec.json.Decoder(UnreadList)
_HEAD: Final = msgspec.json.Decoder(RawListHead)
_ITEMS: Final = b'"items":'


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list: what could be read of it, and the version the list is of."""

    objects: list[T]
    version: str
    unreadable: int


@dataclass(frozen=True, slots=True)
class Event:
    """A watch event.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        version: where the watch stands after it; "" when it does not say.
        change: what it changes; None for a bookmark, an error, and what cannot be read.
        error: what an ERROR event says.
    """

    type: str
    version: str
    change: Change | None = None
    error: RawStatus | None = None


class Kind(Generic[T]):
    """One kind of object: where it is listed, how it is read.

    Attributes:
        name: `nodes` or `pods`, as in paths and metrics.
        selector: the field selector of list and watch, "" for none.
    """

    def __init__(self, name: str, selector: str, codec: Codec[T], warn: Warn) -> None:
        """Read objects by `codec`; `warn` takes a line for each that cannot be read."""
        self.name = name
        self.path = f"/api/v1/{name}"
        self.selector = selector
        self._codec = codec
        self._warn = warn

    def page(self, body: bytes) -> Page[T]:
        """Read a page of a list.

        Raises:
            msgspec.MsgspecError: when it is no list at all.
        """
        return _read(self._page, body)

    def more(self, body: bytes) -> str:
        """Return the token of the page after this one, "" for the last; the objects are not read.

        Raises:
            msgspec.MsgspecError: when it is no list at all.
        """
        return _read(_more, body)

    def listed(self, objects: list[T]) -> Change:
        """Return the change that a complete list is."""
        return self._codec.listed(tuple(objects))

    def event(self, line: bytes) -> Event:
        """Read a line of a watch.

        Raises:
            msgspec.MsgspecError: when it is no event at all.
        """
        return _read(self._event, line)

    def _page(self, body: bytes) -> Page[T]:
        try:
            return self._codec.page(body)
        except msgspec.ValidationError:
            return self._page_one_by_one(body)

    def _event(self, line: bytes) -> Event:
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            return Event(event.type, "", error=_STATUS.decode(event.object))
        if event.type in {"ADDED", "MODIFIED"}:
            try:
                value, version = self._codec.read(event.object)
                return Event(event.type, version, self._codec.seen(value))
            except msgspec.ValidationError as error:
                self._warn(f"{self._name_of(event.object)}: {error}; the event is left out")
        meta = self._meta(event.object)
        gone = self._codec.gone(meta) if event.type == "DELETED" else None
        return Event(event.type, meta.resource_version or "", gone)

    def _page_one_by_one(self, body: bytes) -> Page[T]:
        unread = _UNREAD.decode(body)
        objects: list[T] = []
        for item in unread.items or ():
            try:
                objects.append(self._codec.read(item)[0])
            except msgspec.ValidationError as error:
                self._warn(f"{self._name_of(item)}: {error}; the object is left out")
        missed = len(unread.items or ()) - len(objects)
        return Page(objects, unread.metadata.resource_version or "", missed)

    def _meta(self, item: msgspec.Raw) -> RawMeta:
        try:
            return _NAMED.decode(item).metadata or _NO_META
        except msgspec.ValidationError:
            return _NO_META

    def _name_of(self, item: msgspec.Raw) -> str:
        meta = self._meta(item)
        name = meta.name or "without a readable name"
        return f"{self.name.removesuffix('s')} {f'{meta.namespace}/' if meta.namespace else ''}{name}"


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """What is particular to a kind: bytes to values, values to changes."""

    page: Callable[[bytes], Page[T]]
    read: Callable[[msgspec.Raw], tuple[T, str]]
    seen: Callable[[T], Change]
    gone: Callable[[RawMeta], Change]
    listed: Callable[[tuple[T, ...]], Change]


def node_kind(rules: GpuRules, warn: Warn) -> Kind[NodeInfo]:
    """Return how nodes are followed."""
    pages, single, once = msgspec.json.Decoder(RawNodeList), msgspec.json.Decoder(RawNode), Once(warn)

    def page(body: bytes) -> Page[NodeInfo]:
        raw = pages.decode(body)
        nodes = [node_info(item, rules, once.about(item.metadata)) for item in raw.items or ()]
        return Page(nodes, raw.metadata.resource_version or "", 0)

    def read(item: msgspec.Raw) -> tuple[NodeInfo, str]:
        raw = single.decode(item)
        return node_info(raw, rules, once.about(raw.metadata)), (raw.metadata or _NO_META).resource_version or ""

    codec = Codec(page, read, NodeSeen, lambda meta: NodeGone(meta.name or ""), NodesListed)
    return Kind("nodes", "", codec, warn)


def pod_kind(rules: GpuRules, warn: Warn) -> Kind[PodInfo]:
    """Return how pods are followed: the unfinished ones. One that finishes comes as DELETED, and lets go at once."""
    pages, single, once = msgspec.json.Decoder(RawPodList), msgspec.json.Decoder(RawPod), Once(warn)

    def page(body: bytes) -> Page[PodInfo]:
        raw = pages.decode(body)
        pods = [pod_info(item, rules, once.about(item.metadata)) for item in raw.items or ()]
        return Page(pods, raw.metadata.resource_version or "", 0)

    def read(item: msgspec.Raw) -> tuple[PodInfo, str]:
        raw = single.decode(item)
        return pod_info(raw, rules, once.about(raw.metadata)), (raw.metadata or _NO_META).resource_version or ""

    codec = Codec(page, read, PodSeen, lambda meta: PodGone(_uid(meta)), PodsListed)
    return Kind("pods", "status.phase!=Succeeded,status.phase!=Failed", codec, warn)


def _read(read: Callable[[bytes], R], text: bytes) -> R:
    """Read a text; one that is nested so deep that no decoder gets through loses what is nested so, and no more."""
    try:
        return read(text)
    except RecursionError:
        return read(shallow(text))


def _more(body: bytes) -> str:
    # Go writes a list's metadata before its items: a head of a few hundred bytes instead of megabytes.
    head = body[: body.find(_ITEMS)].rstrip(b", ")
    try:
        return _HEAD.decode(head + b"}").metadata.more or ""
    except msgspec.MsgspecError:
        return _HEAD.decode(body).metadata.more or ""


def _uid(meta: RawMeta) -> str:
    # As pod_info names a pod without one.
    return meta.uid or f"{meta.namespace or DEFAULT_NAMESPACE}/{meta.name or ''}"
