"""A packing problem without what cannot matter to it: what the models of the planner are built from.

Left out are pods that fit nowhere even alone, gangs that need such a member, and rows on which nothing fits. Rows that
the same pods may use are of one *type*. Of the resources beside GPUs only those are kept that can run out before the
GPUs do: the others bind nowhere. Pods without GPUs are in no model but ``nodewise``; greedy places them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from extender.packing.problem import Goal, Level, PackingProblem
from extender.packing.table import BoolVector, Codes, IntVector


def hopeless_gangs(problem: PackingProblem, reach: Sequence[bool]) -> set[int]:
    """Return the places of the gangs that cannot start, told for each class whether its pods fit anywhere at all."""
    lacking = [gang.needed for gang in problem.gangs]
    for group, somewhere in zip(problem.classes, reach, strict=True):
        if group.gang >= 0 and somewhere:
            lacking[group.gang] -= len(group)
    return {gang for gang, pods in enumerate(lacking) if pods > 0}


@dataclass(frozen=True, slots=True)
class Bundle:
    """GPU classes that are the same to a model: it decides how many of their pods go to each type.

    Attributes:
        classes: their places in ``problem.classes``.
        pods: how many pods they have.
        priority, gpus, gang: of each, as in QueueClass.
        shape: what the model knows of the request besides GPUs.
        types: the types of rows they may use.
    """

    classes: tuple[int, ...]
    pods: int
    priority: int
    gpus: int
    gang: int
    shape: int
    types: tuple[int, ...]

    def worth(self, level: Level) -> int:
        """Return what one pod adds to a level."""
        return self.gpus if level == Level(Goal.GPUS, self.priority) else 0


@dataclass(frozen=True, eq=False)
class Reduction:
    """What is left of a problem.

    Attributes:
        problem: the whole of it.
        alone: bool [class, row]: where one pod of a class fits as things stand.
        placeable: classes that fit somewhere, and so do as many members of their gang as it needs.
    """

    problem: PackingProblem
    alone: BoolVector
    placeable: tuple[int, ...]

    @classmethod
    def of(cls, problem: PackingProblem) -> Reduction:
        """Reduce a problem."""
        alone = np.zeros((len(problem.classes), len(problem)), dtype=np.bool_)
        for at, group in enumerate(problem.classes):
            alone[at] = problem.alone(group)
        reach = [bool(fits.any()) for fits in alone]
        hopeless = hopeless_gangs(problem, reach)
        kept = (at for at, group in enumerate(problem.classes) if reach[at] and group.gang not in hopeless)
        return cls(problem, alone, tuple(kept))

    @cached_property
    def gpu_classes(self) -> tuple[int, ...]:
        """Return the placeable classes that ask for GPUs."""
        return tuple(at for at in self.placeable if self.problem.classes[at].gpus)

    @property
    def only_gpus(self) -> bool:
        """Tell whether every placeable pod asks for GPUs."""
        return len(self.gpu_classes) == len(self.placeable)

    @property
    def whole(self) -> bool:
        """Tell whether all their GPUs are whole exclusive ones."""
        return all(self.problem.classes[at].whole for at in self.gpu_classes)

    @cached_property
    def rows(self) -> IntVector:
        """Return the rows on which some GPU class fits."""
        return np.flatnonzero(self.alone[list(self.gpu_classes)].any(axis=0))

    @cached_property
    def type_of_row(self) -> Codes:
        """Return int32 [row], the type of each row of ``rows``; -1 for the others."""
        used = sorted({self.problem.masks[self.problem.classes[at].mask].tobytes() for at in self.gpu_classes})
        masks = np.array([np.frombuffer(mask, dtype=np.bool_) for mask in used]).reshape(len(used), len(self.problem))
        types = np.full(len(self.problem), -1, dtype=np.int32)
        if len(self.rows):
            signs = np.packbits(masks[:, self.rows], axis=0)
            types[self.rows] = np.unique(signs, axis=1, return_inverse=True)[1].ravel()
        return types

    @property
    def types(self) -> int:
        """Return how many types there are."""
        return int(self.type_of_row.max(initial=-1)) + 1

    def bundles(self, shape_of: Mapping[int, int] | None = None) -> tuple[Bundle, ...]:
        """Return the GPU classes in bundles of one shape each; without shapes the GPUs are all there is to tell."""
        found: dict[tuple[int, int, int, int, tuple[int, ...]], list[int]] = {}
        for at in self.gpu_classes:
            group = self.problem.classes[at]
            shape = group.gpus if shape_of is None else shape_of[at]
            key = (group.priority, group.gpus, group.gang, shape, self._types_of_mask[group.mask])
            found.setdefault(key, []).append(at)
        return tuple(
            Bundle(tuple(classes), sum(len(self.problem.classes[at]) for at in classes), *key)
            for key, classes in found.items()
        )

    @property
    def choices(self) -> int:
        """Return how many pairs of a bundle and a type there are: the size of the models without sides."""
        return sum(len(bundle.types) for bundle in self.bundles())

    @cached_property
    def _types_of_mask(self) -> tuple[tuple[int, ...], ...]:
        types = self.type_of_row[self.rows]
        return tuple(tuple(np.unique(types[mask]).tolist()) for mask in self.problem.masks[:, self.rows])

    @cached_property
    def gpu_places(self) -> tuple[int, ...]:
        """Return the places of the GPU resources in ``problem.resources``."""
        return tuple(sorted({self.problem.classes[at].gpu_at for at in self.gpu_classes}))

    @cached_property
    def sides(self) -> tuple[int, ...]:
        """Return the places of the other resources that could run out on some row before its GPUs do."""
        return tuple(at for at in range(len(self.problem.resources)) if at not in self.gpu_places and self._binds(at))

    def _binds(self, resource: int) -> bool:
        """Tell whether the most that pods of all free GPUs could ask for exceeds what is free, on some row."""
        problem = self.problem
        most = np.zeros(len(self.rows), dtype=object)  # integers without a limit: bytes times GPUs may pass 63 bits
        for gpu in self.gpu_places:
            asks = [problem.classes[at] for at in self.gpu_classes if problem.classes[at].gpu_at == gpu]
            worst = max(Fraction(amount, gpus) for amount, gpus in {(g.requests[resource], g.gpus) for g in asks})
            units = np.maximum(problem.free[gpu, self.rows], 0).astype(object)
            most += -(-units * worst.numerator // worst.denominator)
        return bool((most > problem.free[resource, self.rows]).any()) and bool(most.any())

    def trivial_bounds(self) -> dict[Level, int]:
        """Return per level a bound that needs no model: everything placeable is placed, nothing is opened."""
        bounds = dict.fromkeys(self.problem.levels, 0)
        for at in self.placeable:
            group = self.problem.classes[at]
            bounds[Level(Goal.GPUS, group.priority)] += len(group) * group.gpus
            if not group.gpus:
                bounds[Level(Goal.OTHERS, group.priority)] += len(group)
        return bounds

    def gangs(self) -> Mapping[int, tuple[int, ...]]:
        """Return gang -> its placeable classes."""
        found: dict[int, list[int]] = {}
        for at in self.placeable:
            if (gang := self.problem.classes[at].gang) >= 0:
                found.setdefault(gang, []).append(at)
        return {gang: tuple(classes) for gang, classes in found.items()}

    def least_gpu_pods(self) -> Mapping[int, int]:
        """Return gang -> how many placeable pods with GPUs it starts with at least; the others it needs have none."""
        classes = self.problem.classes
        return {
            gang: self.problem.gangs[gang].needed - sum(len(classes[at]) for at in members if not classes[at].gpus)
            for gang, members in self.gangs().items()
        }

    def gpu_levels(self) -> Iterator[Level]:
        """Yield the levels that count GPUs, in order."""
        yield from (level for level in self.problem.levels if level.goal is Goal.GPUS)
