"""What the aggregated models share: how many pods of each bundle go to each type, enough or none of a gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ortools.sat.python import cp_model

from extender.packing.lexicographic import IntegerModel
from extender.packing.problem import Layout, Level
from extender.packing.reduction import Bundle, Reduction

Counts = Mapping[tuple[Bundle, int], cp_model.IntVar]
"""(bundle, type) -> pods."""


def pods_per_type(integers: IntegerModel, reduction: Reduction, bundles: Iterable[Bundle], hint: Layout) -> Counts:
    """Add the variables of the bundles, hinted by a layout."""
    starts = {gang: integers.variable(1, any(hint[at] for at in own)) for gang, own in reduction.gangs().items()}
    gangs: dict[int, list[tuple[cp_model.LinearExprT, int]]] = {}
    found: dict[tuple[Bundle, int], cp_model.IntVar] = {}
    for bundle in bundles:
        hinted: Counter[int] = Counter()
        for row, count in (pair for at in bundle.classes for pair in hint[at]):
            hinted[int(reduction.type_of_row[row])] += count
        mine = {(bundle, kind): integers.variable(bundle.pods, hinted[kind]) for kind in bundle.types}
        if bundle.gang < 0:
            integers.model.add(sum(mine.values()) <= bundle.pods)
        else:
            gangs.setdefault(bundle.gang, []).append((sum(mine.values()), bundle.pods))
        found |= mine
    least = reduction.least_gpu_pods()
    for gang, parts in gangs.items():
        integers.some_or_none(starts[gang], parts, least[gang])
    return found


def gpus_placed(counts: Counts, level: Level) -> cp_model.LinearExprT:
    """Return the GPUs that a level counts."""
    mine = [(bundle.worth(level), variable) for (bundle, _), variable in counts.items()]
    return sum(worth * variable for worth, variable in mine if worth)
