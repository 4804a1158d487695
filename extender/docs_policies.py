"""Renders `docs/policies.md` from the docstrings of the policies; `extender.docs` registers it."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Final

from extender.packing.framework import Policy
from extender.packing.policies import REGISTRY, hole_aware

# A module's first paragraph begins with its policies' names, which the heading has already.
_NAMES: Final = re.compile(r"(?:``[^`]+``(?: and )?)+: ")
_INTRODUCTION: Final = """\
# Policies

`scoring.policy` in the configuration names the policy that scores nodes; `gpu-extender simulate --policy NAME` tries
one on a dump, and `--policy kube-scheduler` none at all. A policy gives every node that fits a utility, a float of
which higher is better; `framework` then makes 0 to 10 of the order, exactly one node getting 10. Ties at the top go by
a fixed hash of the node's name.

In the formulas a pod asks for n GPUs and c CPU; a node has g free GPUs and C free CPU. `planned` and `hole-aware`
have settings ([configuration.md](configuration.md), `scoring.parameters`). The others are the policies of the
literature and of kube-scheduler itself, here to be compared with; each file in
[extender/packing/policies](../extender/packing/policies) names its source.
"""


def render_policies() -> str:
    """Return the reference of every policy as Markdown."""
    groups: dict[type[Policy], list[str]] = {}
    for name, make in REGISTRY.items():
        groups.setdefault(type(make()), []).append(name)
    return "\n".join([_INTRODUCTION, *(_section(kind, names) for kind, names in groups.items())])


def _section(kind: type[Policy], names: list[str]) -> str:
    module = _paragraphs(sys.modules[kind.__module__].__doc__)
    formulas = [paragraph for paragraph in module[1:] if paragraph.startswith("    ")]
    own = _paragraphs(kind.__doc__)[:1]
    lines = [f"## {', '.join(f'`{name}`' for name in names)}", "", _summary(module[0]), ""]
    for formula in formulas:
        lines += ["```", textwrap.dedent(formula), "```", ""]
    lines += [_flowing(own[0]), ""]
    return "\n".join([*lines, *(_terms() if kind is hole_aware.HoleAware else ())])


def _terms() -> Iterator[str]:
    """Yield the terms of hole-aware: name, weight, and what its docstring returns."""
    weights = hole_aware.Weights()
    yield "| term | weight | cost, in GPUs |"
    yield "|---|---|---|"
    for name, term in hole_aware.TERMS:
        words = _flowing(_paragraphs(term.__doc__)[0]).removeprefix("Return ").replace("|", "\\|")
        yield f"| `{name}` | {getattr(weights, name):g} | {words} |"
    yield ""


def _summary(paragraph: str) -> str:
    words = _flowing(_NAMES.sub("", paragraph))
    return words[0].upper() + words[1:]


def _paragraphs(text: str | None) -> list[str]:
    return inspect.cleandoc(text or "").split("\n\n")


def _flowing(paragraph: str) -> str:
    """Return a paragraph on one line, with Markdown's marks for code."""
    return " ".join(paragraph.split()).replace("``", "`")
