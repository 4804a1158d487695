"""The keys of our annotations, and what is said about keys that look like them and have no effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from extender.kube.requests import Say
from extender.spelling import closest

_PREFIX: Final = "gpu-extender.io/"
TYPES: Final = f"{_PREFIX}types"
MIN_MEMORY: Final = f"{_PREFIX}min-memory"
MIN_CUDA: Final = f"{_PREFIX}min-cuda"
MIN_COMPUTE: Final = f"{_PREFIX}min-compute"
MOVABLE: Final = f"{_PREFIX}movable"
LAST_CHECKPOINT: Final = f"{_PREFIX}last-checkpoint"
WISHES: Final = frozenset({TYPES, MIN_MEMORY, MIN_CUDA, MIN_COMPUTE})
_OF_PODS: Final = WISHES | {MOVABLE, LAST_CHECKPOINT}
# Whoever gets the end of our prefix wrong means us all the same.
_LIKE_OURS: Final = "gpu-exten"

Texts = Mapping[str, str | None]


def say_strange_keys_of_pod(labels: Texts, annotations: Texts, say: Say) -> None:
    """Say which keys of a pod look like ours and have no effect: misspelt ones, and those among the labels."""
    for key in _strange(annotations, _OF_PODS):
        say(f"annotation {key} is ignored: none of ours has that name{_meant(key)}")
    for key in _strange(labels):
        say(f"label {key} is ignored: ours are annotations{_meant(key)}")


def say_strange_keys_of_node(labels: Texts, annotations: Texts, say: Say) -> None:
    """Say which keys of a node look like ours: none has an effect there."""
    for kind, texts in (("annotation", annotations), ("label", labels)):
        for key in _strange(texts):
            say(f"{kind} {key} is ignored: ours stand on pods; what GPUs a node has is read from its labels")


def _strange(texts: Texts, known: Collection[str] = ()) -> list[str]:
    if _LIKE_OURS not in "\n".join(texts):  # of fifty thousand pods hardly any has one, and this is one look
        return []
    return [key for key in texts if key.startswith(_LIKE_OURS) and key not in known]


def _meant(key: str) -> str:
    names = {ours.removeprefix(_PREFIX): ours for ours in sorted(_OF_PODS)}
    found = closest(key.rpartition("/")[2], names)
    return f"; did you mean the annotation {names[found]}?" if found else ""
