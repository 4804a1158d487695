"""What room is wanted: that of a waiting pod, or a hole of so many free GPUs on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from extender.packing.fit import filter_nodes, static_verdicts
from extender.packing.gpu import model_tokens, tokens_match
from extender.packing.resources import PODS
from extender.packing.snapshot import Snapshot
from extender.packing.table import BoolVector, NodeTable
from extender.packing.types import PodInfo

_DIGITS: Final = 6

Amounts = Mapping[str, int]
"""Amount per resource, zeros left out; ``pods`` may be in it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """These amounts on one of these rows (bool per node); ``filled`` are the rows that have them free already."""

    amounts: Amounts
    rows: BoolVector
    filled: BoolVector


@dataclass(frozen=True, slots=True)
class Hole:
    """So many free GPUs on one node, of a model or of any."""

    gpus: int
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``N`` or ``N:MODEL``.

        Raises:
            ValueError: for anything else, with what to write.
        """
        number, _, model = text.partition(":")
        if not (number.isascii() and number.isdigit() and int(number[:_DIGITS]) > 0 and len(number) <= _DIGITS):
            raise ValueError("give N or N:MODEL, such as 8 or 8:H100; N is a number of GPUs")
        return cls(int(number), model.strip() or None)

    def __str__(self) -> str:
        return f"a hole of {self.gpus} GPUs" + (f" of model {self.model}" if self.model else "")


def asked_amounts(pod: PodInfo) -> Amounts:
    """Return what a pod takes of a node, itself included."""
    return {PODS: 1, **{name: amount for name, amount in pod.requests.items() if amount > 0}}


def pod_ask(snapshot: Snapshot, pod: PodInfo) -> Ask:
    """Return the room that a waiting pod needs, on the ready nodes that Filter refuses for what pods hold alone."""
    ready = np.array([node.ready for node in snapshot.table.nodes], dtype=np.bool_)
    verdicts = filter_nodes(snapshot, pod)
    rows = static_verdicts(snapshot.table, pod.constraints, pod.gpu).fits & ~verdicts.never & ready
    return Ask(asked_amounts(pod), rows, verdicts.fits & ready)


def hole_asks(snapshot: Snapshot, hole: Hole) -> Sequence[Ask]:
    """Return the holes of so many whole GPUs on an open node, one per GPU resource; CPU and memory are left out.

    The model is compared as a type wish of a pod is: ``H100`` is ``NVIDIA-H100-80GB-HBM3``; None is any model.
    """
    table = snapshot.table
    asks = []
    for resource in table.whole_gpu_resources:
        rows = table.open & of_model(table, resource, hole.model) & (table.allocatable_of(resource) >= hole.gpus)
        asks.append(Ask({resource: hole.gpus}, rows, rows & (snapshot.free_of(resource) >= hole.gpus)))
    return asks


def of_model(table: NodeTable, resource: str, model: str | None) -> BoolVector:
    """Return the rows, open or not, whose units of a resource are whole GPUs of a model; None is any model."""
    column = table.models(resource)
    wish = model_tokens(model or "")
    verdicts = np.array([*(model is None or tokens_match(wish, m.tokens) for m in column.models), False], np.bool_)
    return verdicts[column.codes] & table.whole(resource)  # -1 reads the last entry: the node has none
