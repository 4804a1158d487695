"""Near misses: a pod selects a label value that no node has, but some node has one that looks the same. Pure."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from extender.packing.selectors import Operator, valid_label_value
from extender.packing.types import NodeInfo, PodInfo

_LISTED: Final = 4
# Looking for what a value resembles takes a quarter of a second among 5,000.
_SENTENCES: Final = 4


class SelectorHints:
    """Knows the label values of a set of nodes, and what it has said of a value."""

    def __init__(self, nodes: Iterable[NodeInfo]) -> None:
        self._nodes = tuple(nodes)
        self._known: dict[str, dict[str, list[str]]] = {}
        self._hints: dict[tuple[str, str], str | None] = {}

    def of(self, pod: PodInfo) -> list[str]:
        """Return one sentence per selected value that cannot be meant: no label value at all, or another's spelling.

        Looked at are the node selector and the `In` lines of the required affinity, up to the first few sentences.
        """
        hints = (text for key, value in dict.fromkeys(_selected(pod)) if (text := self._hint(key, value)) is not None)
        return list(dict.fromkeys(islice(hints, _SENTENCES)))

    def unmet(self, pod: PodInfo) -> list[str]:
        """Return a sentence for each of the first lines of the node selector that no node satisfies.

        It says what nodes have instead.
        """
        unmet = (
            f'{key:.80}: no node has the value "{value:.80}", nodes have {_some(self._folded(key))}'
            for key, value in pod.constraints.selector
            if value not in self._folded(key).get(_fold(value), ())
        )
        return list(islice(unmet, _SENTENCES))

    def _hint(self, key: str, value: str) -> str | None:
        if (key, value) not in self._hints:
            self._hints[key, value] = self._find(key, value)
        return self._hints[key, value]

    def _find(self, key: str, value: str) -> str | None:
        known = self._folded(key)
        same = known.get(_fold(value), [])
        if value in same:
            return None
        if not valid_label_value(value):
            near = difflib.get_close_matches(_fold(value), known, n=1)
            tail = f"; nearest existing value: {known[near[0]][0]}" if near else ""
            return f'{key:.80}: "{value:.80}" is not a valid label value{tail}'
        return f'{key:.80}: no node has the value "{value:.80}"; nearest existing value: {same[0]}' if same else None

    def _folded(self, key: str) -> dict[str, list[str]]:
        """Return the values of a label on the nodes, grouped by what `_fold` leaves of them."""
        if key not in self._known:
            groups: dict[str, list[str]] = defaultdict(list)
            for value in sorted({n.labels[key] for n in self._nodes if key in n.labels}):
                groups[_fold(value)].append(value)
            self._known[key] = dict(groups)
        return self._known[key]


def _selected(pod: PodInfo) -> Iterator[tuple[str, str]]:
    yield from pod.constraints.selector
    for term in pod.constraints.affinity or ():
        for line in term.expressions:
            if line.operator is Operator.IN:
                yield from ((line.key, value) for value in line.values)


def _fold(text: str) -> str:
    """Leave letters and digits: `Tesla M40`, `tesla_m40` and `Tesla-M40` are one."""
    return "".join(filter(str.isalnum, text.casefold()))


def _some(known: dict[str, list[str]]) -> str:
    values = sorted(value for group in known.values() for value in group)
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(values[:_LISTED]) + more if values else "no such label"
