"""What GPU a pod wants, what GPU a node has, and whether the two match. The one home of GPU-type semantics.

Names are compared by *tokens*, never by substring: ``NVIDIA-H100-80GB-HBM3`` is ``h100 80gb hbm3``; ``H200`` is no
``GH200``. A wish matches a model when its tokens stand in the model's name in the same order, starting at the first,
and whatever is skipped in between is a mere form factor (``A100-80GB`` is ``A100-SXM4-80GB``; ``H100-80GB`` is not
``H100-MEGA-80GB``). What follows the last token is free, except that a MIG slice or a shared GPU is never a match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

_Level = TypeVar("_Level", int, tuple[int, int])
_SPLIT = re.compile(r"[\s_\-./()]+")
_VENDOR_TOKENS: Final = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "intel", "pro"})
_MOST_RUNGS: Final = 64
# What an API server takes for the value of a label: model names come from there.
_LONGEST_NAME: Final = 63
_FORM_FACTOR: Final = re.compile(r"sxm\d*|pcie|pci|hbm\d*e?|nvlink|oam|ngc", re.ASCII)


def model_tokens(name: str) -> tuple[str, ...]:
    """Split a model name into its comparable tokens: case, separators and leading vendor words folded away."""
    tokens = [t for t in _SPLIT.split(name.casefold()) if t]
    while len(tokens) > 1 and tokens[0] in _VENDOR_TOKENS:
        tokens.pop(0)
    return tuple(tokens)


def short_names(label: str) -> tuple[str, ...]:
    """Return names that people call a model by, all of which it answers to: `H100` for `NVIDIA-H100-80GB-HBM3`.

    The label itself, and its words up to each, with the form factors and without; vendors are left out.
    """
    words = [word for word in _SPLIT.split(label) if word]
    while len(words) > 1 and words[0].casefold() in _VENDOR_TOKENS:
        words.pop(0)
    plain = [word for at, word in enumerate(words) if not at or not _FORM_FACTOR.fullmatch(word.casefold())]
    return tuple(
        dict.fromkeys([label, *("-".join(some[: n + 1]) for some in (plain, words) for n in range(len(some)))])
    )


def tokens_match(wish: tuple[str, ...], model: tuple[str, ...]) -> bool:
    """Tell whether a wish names a model, by the rule in this module's head."""
    if not wish or not model or wish[0] != model[0]:
        return False
    at = 1
    for token in wish[1:]:
        while at < len(model) and model[at] != token and _FORM_FACTOR.fullmatch(model[at]):
            at += 1
        if at == len(model) or model[at] != token:
            return False
        at += 1
    return True


@dataclass(frozen=True, slots=True)
class GpuModel:
    """The GPUs of one resource on one node.

    Attributes:
        label: the label's value as it stands on the node; None when the model is unknown (not labelled yet, a
            vendor's name only). Unknown is not wrong.
        exclusive: one pod per unit. False for shared, time-sliced and MIG-single nodes.
        whole: the units are whole, exclusive GPUs: what packing and fragmentation are about.
        memory_mib, compute, cuda: what the labels say; None when they say nothing.
        tokens: the comparable form of the name; empty when unknown.
    """

    label: str | None = None
    exclusive: bool = True
    whole: bool = True
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    cuda: tuple[int, int] | None = None
    tokens: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once per node that is read, rather than once per question.
        object.__setattr__(self, "tokens", model_tokens(self.label) if self.label else ())


@dataclass(frozen=True, slots=True)
class TypeWish:
    """One rung of a type ladder. Empty ``tokens`` is ``any``; a smaller ``penalty`` is better."""

    name: str
    tokens: tuple[str, ...]
    penalty: float

    def accepts(self, model: GpuModel) -> bool:
        """Tell whether the rung takes this model."""
        return not self.tokens or (model.exclusive and tokens_match(self.tokens, model.tokens))


class Match(Enum):
    """How a model answers a request. Where it is unsure, the node does not say what it has (yet)."""

    YES = "yes"
    UNKNOWN = "unknown model"
    UNKNOWN_MEMORY = "unknown memory"
    UNKNOWN_CUDA = "unknown CUDA"
    UNKNOWN_COMPUTE = "unknown compute capability"
    WRONG_MODEL = "wrong model"
    TOO_LITTLE_MEMORY = "too little memory"
    OLD_CUDA = "old CUDA"
    OLD_COMPUTE = "old compute capability"

    @property
    def unsure(self) -> bool:
        """Tell whether a label that is missing now could still make it a yes."""
        return self in (Match.UNKNOWN, Match.UNKNOWN_MEMORY, Match.UNKNOWN_CUDA, Match.UNKNOWN_COMPUTE)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What GPUs a pod asks for.

    Attributes:
        resource: the GPU resource that packing looks at ("" for a pod without GPUs): whole GPUs before slices
            before shared ones, then the largest amount, then the name.
        count: units of ``resource``, 0 for a pod without GPUs.
        whole: ``resource`` counts whole exclusive GPUs.
        others: further GPU resources of the same pod, as (name, count).
        types: the ladder of ``gpu-extender.io/types``, best first; empty means the pod names no type by annotation.
        min_memory_mib, min_cuda, min_compute: lower limits by annotation, None when absent.
        unread: words about an amount of GPUs that cannot be read, "" without one: the pod asks for GPUs, nobody knows
            for how many, so no node fits.
    """

    resource: str = ""
    count: int = 0
    whole: bool = False
    others: tuple[tuple[str, int], ...] = ()
    types: tuple[TypeWish, ...] = ()
    min_memory_mib: int | None = None
    min_cuda: tuple[int, int] | None = None
    min_compute: tuple[int, int] | None = None
    unread: str = ""

    @property
    def asked(self) -> bool:
        """Tell whether the pod asks for GPUs, be it known for how many or not."""
        return bool(self.count or self.unread)

    @property
    def wishful(self) -> bool:
        """Tell whether the request restricts nodes beyond what kube-scheduler itself enforces."""
        limits = self.min_memory_mib is not None or self.min_cuda or self.min_compute
        return bool(self.types or limits or self.unread)

    def match(self, model: GpuModel) -> Match:
        """Judge a model. Wrong beats unknown; without annotations everything matches."""
        verdicts = [
            self._match_type(model),
            _at_least(self.min_memory_mib, model.memory_mib, Match.TOO_LITTLE_MEMORY, Match.UNKNOWN_MEMORY),
            _at_least(self.min_cuda, model.cuda, Match.OLD_CUDA, Match.UNKNOWN_CUDA),
            _at_least(self.min_compute, model.compute, Match.OLD_COMPUTE, Match.UNKNOWN_COMPUTE),
        ]
        # False sorts first: a plain no, then what is unsure, then yes.
        return min(verdicts, key=lambda verdict: (verdict is Match.YES, verdict.unsure))

    def penalty(self, model: GpuModel) -> float:
        """Return the penalty of the best rung that takes the model; 0.0 without a ladder, inf when none does."""
        if not self.types:
            return 0.0
        return min((wish.penalty for wish in self.types if wish.accepts(model)), default=float("inf"))

    def _match_type(self, model: GpuModel) -> Match:
        if not self.types or any(wish.accepts(model) for wish in self.types):
            return Match.YES
        return Match.UNKNOWN if model.label is None else Match.WRONG_MODEL


def _at_least(want: _Level | None, have: _Level | None, otherwise: Match, unsure: Match) -> Match:
    if want is None:
        return Match.YES
    if have is None:
        return unsure
    return Match.YES if have >= want else otherwise


def parse_ladder(text: str) -> tuple[TypeWish, ...]:
    """Read ``"H100,A100=5,any"``: rungs in order of preference, a rung's penalty its place unless ``=n`` gives one.

    Raises:
        ValueError: with one line that quotes the faulty rung; too for more rungs than anybody means, and for a name
            that no label can hold: every node would repeat it, and every model be compared with it.
    """
    wishes = []
    rungs = text.split(",", _MOST_RUNGS)
    if len(rungs) > _MOST_RUNGS:
        raise ValueError(f"{text[:80]!r}... has more than {_MOST_RUNGS} rungs")
    for place, rung in enumerate(map(str.strip, rungs)):
        name, equals, number = (piece.strip() for piece in rung.partition("="))
        if not name:
            raise ValueError(f"rung {place + 1} of {text[:80]!r} has no name")
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"rung {place + 1}, {name[:40]!r}..., is longer than a label's value ({_LONGEST_NAME})")
        wishes.append(TypeWish(name, _wish_tokens(name), _penalty(number, rung) if equals else float(place)))
    return tuple(wishes)


def _wish_tokens(name: str) -> tuple[str, ...]:
    return () if name.casefold() == "any" else model_tokens(name)


def _penalty(number: str, rung: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise ValueError(f"penalty in {rung[:80]!r} is not a number of 0 or more")
    return value


def primary(requests: Mapping[str, int], gpu_resources: Iterable[tuple[str, bool, bool]]) -> tuple[str, int, bool]:
    """Choose the GPU resource that packing looks at.

    Args:
        requests: effective requests by resource.
        gpu_resources: (name, whole, exclusive) of every GPU resource among them.

    Returns:
        (resource, count, whole); ("", 0, False) when none is asked for.
    """
    asked = [
        (not whole, not exclusive, -requests[name], name)
        for name, whole, exclusive in gpu_resources
        if requests.get(name, 0) > 0
    ]
    if not asked:
        return "", 0, False
    not_whole, _, negative, name = min(asked)
    return name, -negative, not not_whole
