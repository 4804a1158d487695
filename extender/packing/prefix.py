"""The prefix model: proven placement of any number of pods whose sizes divide one another, GPUs alone counting.

On the rows of one type a set of pods can be placed exactly when for every size s

    GPUs of the pods of size >= s  <=  s * sum over rows of floor(free / s)

because pods placed largest first leave every row's rest a multiple of the next size. So it is enough to know how many
pods of each class go to each type, and how many unused nodes are opened: a few dozen integers for any number of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from extender.packing.greedy import Fill
from extender.packing.lexicographic import Budget, IntegerModel, Result
from extender.packing.problem import Goal, Layout, Level
from extender.packing.reduction import Reduction
from extender.packing.typecounts import gpus_placed, pods_per_type


def applies(reduction: Reduction) -> bool:
    """Tell whether there is one GPU resource, of whole GPUs, and sizes that divide one another."""
    classes = [reduction.problem.classes[at] for at in reduction.gpu_classes]
    sizes = sorted({group.gpus for group in classes})
    chain = all(larger % smaller == 0 for smaller, larger in pairwise(sizes))
    return chain and len(reduction.gpu_places) == 1 and reduction.whole


class Prefix:
    """The model while it is built, solved and read."""

    def __init__(self, reduction: Reduction, hint: Layout) -> None:
        self._reduction, self._problem = reduction, reduction.problem
        self._free = np.maximum(self._problem.free[reduction.gpu_places[0]], 0)
        self._sizes = sorted({self._problem.classes[at].gpus for at in reduction.gpu_classes}, reverse=True)
        self._integers = IntegerModel()
        self._taken = self._problem.gpus_taken(hint)
        self._count = pods_per_type(self._integers, reduction, reduction.bundles(), hint)
        self._opened: dict[tuple[int, int], cp_model.IntVar] = {}
        for kind in range(reduction.types):
            self._add_type(kind)

    def solve(self, levels: Iterable[Level], budget: Budget) -> tuple[Layout, Result]:
        """Maximise those levels in turn that the model has; return the best layout found, and what is proved of it."""
        goals = [(level, self._goal(level)) for level in levels if level.goal in {Goal.GPUS, Goal.OPENED}]
        result = self._integers.solve(goals, budget)
        return self._layout(result), result

    def _add_type(self, kind: int) -> None:
        rows = np.flatnonzero(self._reduction.type_of_row == kind)
        unused = self._problem.unused[rows]
        whole = Counter(self._free[rows[unused]].tolist())
        for size, nodes in sorted(whole.items()):
            opened = int((self._taken[rows[unused & (self._free[rows] == size)]] > 0).sum())
            self._opened[kind, size] = self._integers.variable(nodes, opened)
        partial = self._free[rows[~unused]]
        for size in self._sizes:
            load = sum(
                bundle.gpus * variable
                for (bundle, where), variable in self._count.items()
                if where == kind and bundle.gpus >= size
            )
            more = sum(free // size * size * self._opened[kind, free] for free in whole)
            self._integers.model.add(load <= int((partial // size).sum()) * size + more)

    def _goal(self, level: Level) -> cp_model.LinearExprT:
        if level.goal is Goal.OPENED:
            return -sum(self._opened.values())
        return gpus_placed(self._count, level)

    def _layout(self, result: Result) -> Layout:
        """Place what the model says largest first, by best fit: by the rule above it finds room."""
        fill = Fill.empty(self._problem)
        for kind in range(self._reduction.types if result.values else 0):
            rows = self._reduction.type_of_row == kind
            rows &= ~self._problem.unused | self._chosen(kind, result)
            mine = [(bundle, result.value(v)) for (bundle, where), v in self._count.items() if where == kind]
            for bundle, count in sorted(mine, key=lambda m: -m[0].gpus):
                fill.place_any(bundle.classes, count, rows)
        return fill.layout()

    def _chosen(self, kind: int, result: Result) -> np.ndarray:
        """Return the unused rows to open: those that the hint opens first, then in order of rows."""
        chosen = np.zeros(len(self._problem), dtype=np.bool_)
        for (where, size), variable in self._opened.items():
            if where == kind:
                rows = (self._reduction.type_of_row == kind) & self._problem.unused & (self._free == size)
                found = np.flatnonzero(rows)
                order = np.lexsort((found, self._taken[found] == 0))
                chosen[found[order][: result.value(variable)]] = True
        return chosen
