"""What the verbs are asked and what they answer, without a trace of JSON. Frozen values.

Positions count the candidates of a question from 0, in the order asked; rows are rows of a NodeTable, -1 for a node
that the table does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np

from extender.errors import RequestError
from extender.packing.framework import Rows, Scores
from extender.packing.table import NodeTable
from extender.packing.types import NodeInfo, PodInfo
from extender.wire.names import NameList

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
"""What kube-scheduler may ask an extender, as the last part of a path."""


class Form(Enum):
    """How a question names its candidates: `nodeCacheCapable: true` sends names, false sends whole Node objects."""

    NAMES = "NodeNames"
    NODES = "Nodes"


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of filter and prioritize (ExtenderArgs).

    Attributes:
        listed: the candidates by name, as they came in NAMES form; in NODES form read off the objects.
        items: the bytes of each Node object as they came, empty in NAMES form.
        read_node: reads one of the items; raises RequestError.
    """

    pod: PodInfo
    form: Form
    listed: NameList
    items: Sequence[bytes] = ()
    read_node: Callable[[int], NodeInfo] | None = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """Return the names of the candidates.

        Raises:
            RequestError: when they are no list of strings.
        """
        return self.listed.names

    def node(self, position: int) -> NodeInfo:
        """Return a candidate of a NODES question as the request describes it.

        Raises:
            RequestError: when it is no Node.
        """
        if self.read_node is None:
            raise RequestError(f"candidate {position} came as a name, not as a Node")
        return self.read_node(position)


@dataclass(frozen=True, slots=True)
class Failure:
    """Candidates that failed for one reason.

    Attributes:
        cause: the kind of reason, one of a few words (a metric's label).
        reason: the sentence for the pod's events; the same for all of them, so that they count as one there.
        unresolvable: no departure of pods can help.
    """

    cause: str
    reason: str
    unresolvable: bool
    positions: Rows


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """What filter says. With `error` all else is void.

    Attributes:
        unsure: no node is left, and newer knowledge of the cluster could change that.
        kept: positions that stay, ascending.
        failures: one group per reason; together with `kept` every position once.
        rows: row of each position in `table`; None when nobody looked the names up.
    """

    kept: Rows
    failures: tuple[Failure, ...] = ()
    rows: Rows | None = None
    table: NodeTable | None = None
    error: str = ""
    unsure: bool = False

    @classmethod
    def failed(cls, error: str, *, unsure: bool = False) -> FilterAnswer:
        """Answer that the question cannot be decided; kube-scheduler shows the text and tries again."""
        return cls(np.zeros(0, dtype=np.intp), error=error, unsure=unsure)


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """Scores 0..10 of the candidates, in the order asked, or of the best alone.

    Attributes:
        scores: one for each of `rows`.
        rows: row of each listed candidate in `table`.
        best: the node with the 10, None when no candidate fits.
        left_out: candidates that are not listed; kube-scheduler takes them for 0.
    """

    scores: Scores
    rows: Rows
    table: NodeTable
    best: str | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would leave one candidate node.

    Attributes:
        uids: their UIDs.
        priorities: what the request says of their priorities, by UID; empty in the form that has UIDs only.
        pdb_violations: how many PodDisruptionBudgets would break, as the scheduler counted.
    """

    uids: tuple[str, ...]
    priorities: Mapping[str, int] = field(default_factory=dict)
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptQuestion:
    """Arguments of preempt (ExtenderPreemptionArgs): candidate node -> victims, in the order asked."""

    pod: PodInfo
    candidates: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class BindQuestion:
    """Arguments of bind (ExtenderBindingArgs)."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str
