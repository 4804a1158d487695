"""What the aggregated models share: how many pods of each class go to each type, all or none of a gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ortools.sat.python import cp_model

from extender.packing.lexicographic import IntegerModel
from extender.packing.problem import Layout, Level, PackingProblem
from extender.packing.reduction import Reduction

Counts = Mapping[tuple[int, int], cp_model.IntVar]
"""(class, type) -> pods."""


def pods_per_type(integers: IntegerModel, reduction: Reduction, hint: Layout) -> Counts:
    """Add the variables of every GPU class, hinted by a layout."""
    gangs = {gang: integers.variable(1, bool(hint[members[0]])) for gang, members in reduction.gangs().items()}
    found: dict[tuple[int, int], cp_model.IntVar] = {}
    for at in reduction.gpu_classes:
        group = reduction.problem.classes[at]
        hinted: Counter[int] = Counter()
        for row, count in hint[at]:
            hinted[int(reduction.type_of_row[row])] += count
        kinds = reduction.types_of(at).tolist()
        mine = {(at, kind): integers.variable(len(group), hinted[kind]) for kind in kinds}
        if group.gang < 0:
            integers.model.add(sum(mine.values()) <= len(group))
        else:
            integers.model.add(sum(mine.values()) == len(group) * gangs[group.gang])
        found |= mine
    return found


def gpus_placed(problem: PackingProblem, counts: Counts, level: Level) -> cp_model.LinearExprT:
    """Return the GPUs of one priority that are placed."""
    mine = [(problem.classes[at], variable) for (at, _), variable in counts.items()]
    return sum(group.gpus * variable for group, variable in mine if group.priority == level.priority)
