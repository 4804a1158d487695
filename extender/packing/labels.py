"""The labels of the nodes as columns, and which rows a node selector takes. The rules themselves are in `selectors`.

A line of a selector costs a look-up per value and a few operations on columns, however many nodes there are and
whatever it says: its author is no friend. Nothing more is looked at once no row (or every row) is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from extender.packing.selectors import (
    NAME_FIELD,
    NodeConstraints,
    Operator,
    PreferredTerm,
    Requirement,
    Term,
    parse_int64,
)
from extender.packing.table import BoolVector, Codes, IntVector, NodeTable, frozen
from extender.packing.types import NodeInfo

# So many columns may be of labels that no node has; then the labels that there are get listed (5 ms at 5,000 nodes).
_UNLISTED: Final = 16


@dataclass(frozen=True, eq=False)
class Column:
    """One label: ``values[codes[row]]`` is the row's value, code -1 means it has none."""

    codes: Codes
    values: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str | None]) -> Column:
        """Lay out a value per row."""
        distinct: dict[str, int] = {}
        codes = [-1 if v is None else distinct.setdefault(v, len(distinct)) for v in values]
        return cls(frozen(np.array(codes, dtype=np.int32)), tuple(distinct))

    @cached_property
    def present(self) -> BoolVector:
        """Return the rows that have the label."""
        return frozen(self.codes >= 0)

    def among(self, values: Iterable[str]) -> BoolVector:
        """Return the rows whose value is one of some."""
        accepted = np.zeros(len(self.values) + 1, dtype=np.bool_)
        accepted[[code for value in values if (code := self._code_of.get(value)) is not None]] = True
        return accepted[self.codes]  # -1 reads the last entry: absent

    def above(self, bound: int) -> BoolVector:
        """Return the rows whose value is an integer above the bound."""
        numbers, is_number = self._numbers
        return (is_number & (numbers > bound))[self.codes]

    def below(self, bound: int) -> BoolVector:
        """Return the rows whose value is an integer below the bound."""
        numbers, is_number = self._numbers
        return (is_number & (numbers < bound))[self.codes]

    @cached_property
    def _code_of(self) -> Mapping[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _numbers(self) -> tuple[IntVector, BoolVector]:
        """Return (value, whether it is one) per distinct value, and once more for "absent"."""
        numbers = [*map(parse_int64, self.values), None]
        is_number = np.array([number is not None for number in numbers], dtype=np.bool_)
        return np.array([number or 0 for number in numbers], dtype=np.int64), is_number


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table's nodes; a column is laid out when it is first asked for.

    Attributes:
        nodes, index: those of the table. Not the table itself: it remembers us, and a cycle would outlive both.
    """

    nodes: tuple[NodeInfo, ...]
    index: Mapping[str, int]
    _columns: dict[str, Column] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, table: NodeTable) -> Labels:
        """Return the labels of a table, remembered with it."""
        return table.remember("labels", None, lambda: cls(table.nodes, table.index))

    def column(self, key: str) -> Column:
        """Return the column of a label."""
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= _UNLISTED and key not in self._keys:
                return self._absent
            found = self._columns[key] = Column.of(node.labels.get(key) for node in self.nodes)
        return found

    def selected(self, constraints: NodeConstraints) -> BoolVector:
        """Return the rows that node selector and required affinity accept."""
        rows = np.ones(len(self.nodes), dtype=np.bool_)
        for key, value in constraints.selector:
            rows &= self.column(key).among((value,))
            if not rows.any():
                return rows
        return rows if constraints.affinity is None else rows & self._any(constraints.affinity)

    def preferred(self, terms: Iterable[PreferredTerm]) -> IntVector:
        """Return int64 [node]: the summed weight of the preferred terms that each row satisfies."""
        weight = np.zeros(len(self.nodes), dtype=np.int64)
        for preferred in terms:
            weight += preferred.weight * self.matching(preferred.term)
        return weight

    def _any(self, terms: Iterable[Term]) -> BoolVector:
        rows = np.zeros(len(self.nodes), dtype=np.bool_)
        for term in terms:
            rows |= self.matching(term)
            if rows.all():
                break
        return rows

    def matching(self, term: Term) -> BoolVector:
        """Return the rows that satisfy a node selector term."""
        rows = np.full(len(self.nodes), fill_value=term.satisfiable, dtype=np.bool_)
        for lines, satisfying in ((term.expressions, self._satisfying), (term.fields, self._named)):
            for line in lines:
                if not rows.any():
                    return rows
                rows &= satisfying(line)
        return rows

    def _satisfying(self, line: Requirement) -> BoolVector:
        column = self.column(line.key)
        match line.operator:
            case Operator.IN:
                return column.among(line.values)
            case Operator.NOT_IN:
                return ~column.among(line.values)
            case Operator.EXISTS:
                return column.present
            case Operator.DOES_NOT_EXIST:
                return ~column.present
            case Operator.GT:
                return column.above(line.bound)
            case _:
                return column.below(line.bound)

    def _named(self, line: Requirement) -> BoolVector:
        """Return the rows that satisfy a line about fields. A node has its name, and nothing under any other key."""
        equal = np.full(len(self.nodes), fill_value=line.key != NAME_FIELD and not line.values[0], dtype=np.bool_)
        if line.key == NAME_FIELD and (row := self.index.get(line.values[0])) is not None:
            equal[row] = True
        return equal if line.operator is Operator.IN else ~equal

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset().union(*(node.labels for node in self.nodes))

    @cached_property
    def _absent(self) -> Column:
        return Column.of([None] * len(self.nodes))
