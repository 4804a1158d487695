"""Bodies -> questions. One line names the field that is wrong; nothing a client sends raises anything else.

    exact keys ----------------------------------------> typed decode -> values        (every kube-scheduler since 1.6)
    any other key -> `casing` folds the known ones ----> the same typed decode

Pod and NodeNames are cut out as raw bytes first: a pod that was just read, and a list that filter has just answered,
need no second reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from extender.errors import RequestError
from extender.kube.convert import Warn, node_info, pod_info
from extender.kube.gpurules import GpuRules
from extender.kube.once import Once
from extender.packing.types import NodeInfo, PodInfo
from extender.textvalues import mended
from extender.wire.casing import Shape, canonical
from extender.wire.names import NameList
from extender.wire.structs import (
    ARGS,
    ARGS_SHAPE,
    BIND_ARGS,
    BIND_SHAPE,
    NAMED,
    NAMED_ARGS,
    NAMES,
    NODE,
    POD,
    PREEMPT_ARGS,
    PREEMPT_SHAPE,
    Args,
    FullVictims,
    MetaVictims,
)
from extender.wire.values import BindQuestion, Form, PreemptQuestion, Question, Victims

T = TypeVar("T")

_NAMES_MEMBER: Final = b'"NodeNames":['
_LINE_LIMIT: Final = 240
# The pod of a filter call comes again with prioritize, and with bind or a retry soon after.
_PODS_REMEMBERED: Final = 256
# A pod has 5 KB, and 1.5 MB at most (etcd's limit): what is larger is not worth remembering, or no pod at all.
_LARGEST_REMEMBERED_BYTES: Final = 2**16
_LARGEST_POD_BYTES: Final = 2**24


class IncompleteError(RequestError):
    """The body is sound but lacks what the verb needs: a sign of a mismatched scheduler configuration.

    kube-scheduler shows the `Error` of a 200 in the pod's events, and of any other status only the number.
    """


class Reader:
    """Reads the bodies of all verbs; `warn` takes a line, once, about what a pod or node says and we cannot use."""

    def __init__(self, rules: GpuRules, warn: Warn) -> None:
        self._rules = rules
        self._once = Once(warn)
        self._pod_of: Callable[[bytes], PodInfo] = lru_cache(_PODS_REMEMBERED)(self._read_pod)

    def question(self, body: bytes) -> Question:
        """Read the arguments of filter or prioritize.

        Raises:
            IncompleteError: when there is no pod, or no list of candidates in either form.
            RequestError: when the body is no such thing.
        """
        args, listed = _cut(body) or (None, None)
        if args is None:
            args, body, listed = _read_args(body)
        pod = self._pod_given(bytes(args.Pod))
        if listed is not None:
            return Question(pod, Form.NAMES, listed)
        if args.Nodes is None:
            raise IncompleteError("neither Nodes nor NodeNames is given")
        items = args.Nodes.items or []
        names = NameList(b"", 0, 0, lambda: _item_names(body, items))
        return Question(pod, Form.NODES, names, items, lambda at: self._read_node(items[at], at))

    def preempt(self, body: bytes) -> PreemptQuestion:
        """Read the arguments of preempt; both maps null are no candidates.

        Raises:
            IncompleteError: when there is no pod.
            RequestError: when the body is no such thing.
        """
        args, _ = _decode(PREEMPT_ARGS, body, PREEMPT_SHAPE)
        pod = self._pod_given(bytes(args.Pod))
        if args.NodeNameToMetaVictims is not None:
            return PreemptQuestion(pod, {n: _meta(v) for n, v in args.NodeNameToMetaVictims.items()})
        return PreemptQuestion(pod, {n: _full(v) for n, v in (args.NodeNameToVictims or {}).items()})

    def bind(self, body: bytes) -> BindQuestion:
        """Read the arguments of bind.

        Raises:
            IncompleteError: when one of the four is missing.
            RequestError: when the body is no such thing.
        """
        args, _ = _decode(BIND_ARGS, body, BIND_SHAPE)
        for name in ("PodName", "PodNamespace", "PodUID", "Node"):
            if not getattr(args, name):
                raise IncompleteError(f"{name} is missing")
        return BindQuestion(args.PodName, args.PodNamespace, args.PodUID, args.Node)

    def _pod_given(self, raw: bytes) -> PodInfo:
        if raw == b"null":
            raise IncompleteError("Pod is missing")
        if len(raw) > _LARGEST_POD_BYTES:
            raise RequestError(f"Pod: {len(raw)} bytes, more than an API server holds")
        return self._pod_of(raw) if len(raw) <= _LARGEST_REMEMBERED_BYTES else self._read_pod(raw)

    def _read_pod(self, raw: bytes) -> PodInfo:
        pod = _typed(POD, raw, "Pod")
        info = pod_info(pod, self._rules, self._once.about(pod.metadata))
        # Where a waiting pod would be bound is what we are asked; a copy that says so already is old or hand-made.
        return replace(info, node_name="") if info.node_name else info

    def _read_node(self, raw: bytes, at: int) -> NodeInfo:
        node = _typed(NODE, raw, f"Nodes.items[{at}]")
        return node_info(node, self._rules, self._once.about(node.metadata))


def _decode(decoder: msgspec.json.Decoder[T], body: bytes, shape: Shape) -> tuple[T, bytes]:
    """Decode a body: as it is when every key is spelled exactly, else with the known keys folded; return that, too."""
    try:
        return decoder.decode(body), body
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError):
        body = mended(body)
    try:
        folded = canonical(body, shape)
        return decoder.decode(folded), folded
    except (ValueError, RecursionError) as error:
        raise RequestError(_line(error, "body")) from None


def _typed(decoder: msgspec.json.Decoder[T], raw: bytes, where: str) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise RequestError(_line(error, where)) from None
    except (ValueError, RecursionError):
        pass
    try:
        return decoder.decode(mended(raw))
    except (ValueError, RecursionError) as error:
        raise RequestError(_line(error, where)) from None


def _cut(body: bytes) -> tuple[Args, NameList] | None:
    """Read a body whose last member is a list of names, as Go writes it, without reading the list; None for others.

    Where `]}` ends the body and no colon follows the list's beginning, no other member does. If the rest, closed after
    the list's key, is sound, then the list is a member of the outermost object. The list itself is read later.
    """
    if not body.endswith(b"]}"):
        return None
    start = body.find(_NAMES_MEMBER) + len(_NAMES_MEMBER) - 1
    if start < len(_NAMES_MEMBER) or body.find(b":", start) >= 0:
        return None
    try:
        args = ARGS.decode(body[:start] + b"null}")
    except (ValueError, RecursionError):
        return None
    end = len(body) - 1
    return args, NameList(body, start, end, lambda: _read_names(body[start:end]))


def _read_args(body: bytes) -> tuple[Args, bytes, NameList | None]:
    """Return the arguments, the body they were read from in the end, and NodeNames if there is one."""
    args, exact = _decode(ARGS, body, ARGS_SHAPE)
    names = bytes(args.NodeNames)
    if names == b"null":
        return args, exact, None
    names = names if exact is body else _as_sent(body, names)
    return args, exact, NameList(names, 0, len(names), lambda: _read_names(names))


def _as_sent(body: bytes, names: bytes) -> bytes:
    """Return NodeNames with the lone surrogates that had to be mended to read the rest of the body.

    Answers must spell names as they were asked; U+FFFD in their place is what mending leaves.
    """
    if rb"\ufffd" not in names or mended(body) == body:
        return names
    try:
        given = {key.casefold(): value for key, value in json.loads(body, parse_int=float).items()}
    except (ValueError, RecursionError) as error:
        raise RequestError(_line(error, "body")) from None
    return json.dumps(given["nodenames"]).encode()


def _read_names(raw: bytes) -> list[str]:
    try:
        return NAMES.decode(raw)
    except msgspec.ValidationError as error:
        raise RequestError(_line(error, "NodeNames")) from None
    except ValueError:
        pass
    return _names_with_surrogates(raw)


def _names_with_surrogates(raw: bytes) -> list[str]:
    """Read names that are no Unicode (a lone surrogate, which Python's own parser lets through) as they stand."""
    try:
        names = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestError(_line(error, "NodeNames")) from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError("NodeNames: expected an array of strings")
    return names


def _item_names(body: bytes, items: Sequence[bytes]) -> list[str]:
    try:
        # A second pass over the whole body is half the work of one over each item.
        nodes = NAMED_ARGS.decode(body).Nodes
        return [item.metadata.name for item in nodes.items or ()] if nodes is not None else []
    except (ValueError, RecursionError):
        # Once more, slowly: lone surrogates are mended, and what is wrong is said of the item it is wrong with.
        return [_typed(NAMED, item, f"Nodes.items[{at}]").metadata.name for at, item in enumerate(items)]


def _meta(victims: MetaVictims | None) -> Victims:
    if victims is None:
        return Victims(())
    return Victims(tuple(pod.UID for pod in victims.Pods or ()), pdb_violations=victims.NumPDBViolations)


def _full(victims: FullVictims | None) -> Victims:
    if victims is None:
        return Victims(())
    pods = victims.Pods or ()
    priorities: Mapping[str, int] = {pod.metadata.uid: (pod.spec and pod.spec.priority) or 0 for pod in pods}
    return Victims(tuple(priorities), priorities, victims.NumPDBViolations)


def _line(error: Exception, where: str) -> str:
    """Say what is wrong, and where, in one line: `NodeNames[3]: Expected `str`, got `int``."""
    if isinstance(error, RecursionError):
        return f"{where}: is nested too deeply"
    text, _, path = " ".join(str(error).split()).partition(" - at `$")
    if where == "body" and path.startswith("."):
        where, path = path.strip(".`"), ""
    return f"{where}{path.strip('`')}: {text}"[:_LINE_LIMIT]
