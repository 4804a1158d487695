"""GPU models that no node has: what was probably meant, and what there is instead. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from extender.packing.gpu import model_tokens, short_names, tokens_match
from extender.packing.table import NodeTable
from extender.packing.types import PodInfo
from extender.spelling import nearest

_SEVERAL: Final = "; separate models by commas"
_BLANKS: Final = re.compile(r"[\s;|]+")
_LISTED: Final = 4
_SENTENCES: Final = 4
# Model names come from labels, which are the users' choice; comparing takes a moment each.
_COMPARED: Final = 500


def labels_of(table: NodeTable, resources: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models of some resources, sorted."""
    return tuple(sorted({m.label for resource in resources for m in table.models(resource).models if m.label}))


@lru_cache(maxsize=1024)  # the pods of a kind have the same wishes
def no_such_model(name: str, labels: tuple[str, ...]) -> str | None:
    """Return words about the name of a model that none of these labels answers to, None when one does."""
    wish = model_tokens(name)
    if any(tokens_match(wish, model_tokens(label)) for label in labels):
        return None
    known = [
        short
        for label in labels[:_COMPARED]
        for short in short_names(label)
        if not _of_one_series(wish, model_tokens(short))
    ]
    hint = _SEVERAL if _several(name, labels) else nearest(name, known)
    return f"no node has GPUs of model {name:.80}, nodes have {_some(labels)}{hint}"


def _several(name: str, labels: tuple[str, ...]) -> bool:
    """Tell whether a later word of a name is a model of its own, as it is when a comma was forgotten: L40S A100."""
    first, *later = [model_tokens(word) for word in _BLANKS.split(name.strip())]
    models = [model_tokens(label) for label in labels[:_COMPARED]] if later else []
    return any(_of_one_series(first, word) or any(tokens_match(word, model) for model in models) for word in later)


def unknown_wishes(pod: PodInfo, table: NodeTable) -> list[str]:
    """Return words about each model that a pod names by annotation and no node has, up to the first few."""
    labels = labels_of(table, [pod.gpu.resource])
    names = [wish.name for wish in pod.gpu.types if wish.tokens]
    return [words for name in names if (words := no_such_model(name, labels)) is not None][:_SENTENCES]


def _of_one_series(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Tell whether two names look like two models rather than like one and its typo: V100, H100 and H200 do."""
    return bool(one and other) and one[0] != other[0] and _form(one[0]) == _form(other[0])


def _form(word: str) -> str:
    return "".join("9" if letter.isdigit() else "a" for letter in word)


def _some(labels: tuple[str, ...]) -> str:
    more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
    return ", ".join(labels[:_LISTED]) + more if labels else "no label that names one"
