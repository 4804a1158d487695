"""The bodies' shapes: msgspec Structs with Go's exact keys, their decoders, and the same keys for `casing` to fold.

Unknown keys are an error here, so that a body with any other spelling of a key leaves the fast path (`decode`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from extender.kube.raw import RawNode, RawPod
from extender.wire.casing import ANY, Shape, objects

NULL: Final = msgspec.Raw(b"null")


class NodeList(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A NodeList, its items uncut."""

    kind: msgspec.Raw = NULL
    apiVersion: msgspec.Raw = NULL  # noqa: N815 - a JSON key
    metadata: msgspec.Raw = NULL
    items: list[msgspec.Raw] | None = None


class Args(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """ExtenderArgs; pod and names uncut."""

    Pod: msgspec.Raw = NULL
    Nodes: NodeList | None = None
    NodeNames: msgspec.Raw = NULL


class MetaPod(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A pod by UID."""

    UID: str


class MetaVictims(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Victims by UID."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class VictimMeta(msgspec.Struct, gc=False):
    """`metadata` of a victim."""

    uid: str


class VictimSpec(msgspec.Struct, gc=False):
    """`spec` of a victim."""

    priority: int | None = None


class VictimPod(msgspec.Struct, gc=False):
    """A victim as a whole Pod."""

    metadata: VictimMeta
    spec: VictimSpec | None = None


class FullVictims(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Victims as whole Pods."""

    Pods: list[VictimPod] | None = None
    NumPDBViolations: int = 0


class PreemptArgs(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """ExtenderPreemptionArgs."""

    Pod: msgspec.Raw = NULL
    NodeNameToVictims: dict[str, FullVictims | None] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims | None] | None = None


class BindArgs(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """ExtenderBindingArgs."""

    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class NameMeta(msgspec.Struct, gc=False):
    """`metadata` of a node."""

    name: str


class Named(msgspec.Struct, gc=False):
    """A node, as far as its name."""

    metadata: NameMeta


class NamedNodes(msgspec.Struct, gc=False):
    """A NodeList, as far as the names."""

    items: list[Named] | None = None


class NamedArgs(msgspec.Struct, gc=False):
    """ExtenderArgs, as far as the names of its Node objects."""

    Nodes: NamedNodes | None = None


ARGS_SHAPE: Final = objects(Pod=ANY, Nodes=objects(kind=ANY, apiVersion=ANY, metadata=ANY, items=ANY), NodeNames=ANY)
_VICTIMS_SHAPE: Final = objects(Pods=ANY, NumPDBViolations=ANY)
_META_SHAPE: Final = objects(Pods=Shape(items=objects(UID=ANY)), NumPDBViolations=ANY)
PREEMPT_SHAPE: Final = objects(
    Pod=ANY, NodeNameToVictims=Shape(values=_VICTIMS_SHAPE), NodeNameToMetaVictims=Shape(values=_META_SHAPE)
)
BIND_SHAPE: Final = objects(PodName=ANY, PodNamespace=ANY, PodUID=ANY, Node=ANY)

ARGS: Final = msgspec.json.Decoder(Args)
PREEMPT_ARGS: Final = msgspec.json.Decoder(PreemptArgs)
BIND_ARGS: Final = msgspec.json.Decoder(BindArgs)
NAMES: Final = msgspec.json.Decoder(list[str])
NAMED: Final = msgspec.json.Decoder(Named)
NAMED_ARGS: Final = msgspec.json.Decoder(NamedArgs)
POD: Final = msgspec.json.Decoder(RawPod)
NODE: Final = msgspec.json.Decoder(RawNode)
