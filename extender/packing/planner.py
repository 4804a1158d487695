"""Joint assignment of the pending queue: greedy, then the model that suits the problem, then what is proved.

    small                                   nodewise      every resource, every level, proved
    sizes divide one another                prefix        proved at any size where GPUs alone count, elsewhere a bound
    what is not proved by then              columns       a bound by the pattern LP
                                            patternwise   a better plan over the LP's columns, then over all near them

The plan is never worse than greedy's, level by level. Of plans that are worth the same the one stays that changes the
fewest destinations of an earlier plan. Deterministic: limits are in CP-SAT's deterministic seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from extender.packing import prefix
from extender.packing.columns import Column, Pool, PriceProblem
from extender.packing.greedy import greedy
from extender.packing.lexicographic import Budget, Result
from extender.packing.nodewise import Nodewise, variables_of
from extender.packing.patterns import Patterns
from extender.packing.patternwise import Patternwise, hinted_columns
from extender.packing.plan import Destination, JointPlan, Reached, Status, Why, rows_of_pods
from extender.packing.problem import Goal, Layout, Level, PackingProblem
from extender.packing.reduction import Reduction
from extender.packing.resources import total

SMALL: Final = 400
"""Integers up to which nodewise is as quick as any other model, and knows more levels."""

LARGE: Final = 4000
"""Integers beyond which nodewise finds nothing in time."""

MANY_COLUMNS: Final = 4000
"""Columns that the pattern model is given at most."""

MANY_CHOICES: Final = 20_000
"""Pairs of a bundle and a type beyond which no aggregated model is built: hardly a node is like another then."""

MOST_GPUS: Final = 2**40
"""Free GPUs on all nodes together up to which the integers and floats of the solvers are exact; no cluster has them."""

GANGS_EXPLAINED: Final = 20
"""Gangs without a place for which it is looked up whether they fit together at all; the rest is left open."""

EXPLAINING_SHARE: Final = 0.2
"""Of the limit, what the look-up for one gang may take."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may take.

    Attributes:
        deterministic_seconds: of CP-SAT, over all its solves; about as many real ones.
        seed: of CP-SAT.
        nodes_too: look at the levels that count nodes as well, not only at what is placed.
        partial_too: of these also at the nodes left partly used.
    """

    deterministic_seconds: float = 0.5
    seed: int = 0
    nodes_too: bool = True
    partial_too: bool = True

    def regards(self, level: Level) -> bool:
        """Tell whether a level is looked at."""
        return level.counts_pods or (self.nodes_too and (self.partial_too or level.goal is not Goal.PARTIAL))


DEFAULT_LIMITS: Final = Limits()


def plan(
    problem: PackingProblem, limits: Limits = DEFAULT_LIMITS, previous: Mapping[str, str] | None = None
) -> JointPlan:
    """Plan a queue.

    Args:
        problem: pods and nodes.
        limits: what it may take.
        previous: uid -> node of an earlier plan, to stay with where that costs nothing.
    """
    search = _Search(problem, limits, previous or {})
    search.run()
    return _joint_plan(search, limits)


def all_fit(problem: PackingProblem, limits: Limits = DEFAULT_LIMITS) -> Status:
    """Answer whether all pods of the problem can be placed together, priorities aside.

    Returns:
        FEASIBLE when a placement is known, INFEASIBLE when it is proved that there is none, else UNKNOWN.
    """
    if problem.waiting_gangs:
        return Status.INFEASIBLE
    search = _flat(problem, limits)
    classes = search.problem.classes
    wanted = {Level(Goal.GPUS): sum(len(group) * group.gpus for group in classes)}
    wanted[Level(Goal.OTHERS)] = sum(len(group) for group in classes if not group.gpus)
    asked = [level for level in search.problem.levels if level.counts_pods]
    if all(search.value(level) == wanted[level] for level in asked):
        return Status.FEASIBLE
    lost = any(search.bounds[level] < wanted[level] for level in asked)
    return Status.INFEASIBLE if lost else Status.UNKNOWN


def some_fit(problem: PackingProblem, limits: Limits = DEFAULT_LIMITS) -> Status:
    """Answer whether the pods of one gang can start together: all it needs of them, with nothing else placed.

    Args:
        problem: the pods of one gang alone.
        limits: what it may take.

    Returns:
        As ``all_fit``.
    """
    if problem.waiting_gangs or all(problem.gangs[at].everyone for at in {c.gang for c in problem.classes} - {-1}):
        return all_fit(problem, limits)
    search = _flat(problem, limits)
    if any(search.layout):
        return Status.FEASIBLE
    lost = all(not search.bounds[level] for level in search.problem.levels if level.counts_pods)
    return Status.INFEASIBLE if lost else Status.UNKNOWN


def _flat(problem: PackingProblem, limits: Limits) -> _Search:
    """Search without priorities, for what is placed alone."""
    flat = replace(problem, classes=tuple(replace(group, priority=0) for group in problem.classes))
    search = _Search(flat, replace(limits, nodes_too=False), {})
    search.run()
    return search


class _Search:
    """The best layout so far, and what bounds it; one per plan.

    ``bounds`` holds per level an upper bound of its signed value in the best plan of all.
    """

    def __init__(self, problem: PackingProblem, limits: Limits, previous: Mapping[str, str]) -> None:
        rows = {name: row for row, name in enumerate(problem.nodes)} if previous else {}
        self.problem = problem
        self.reduction = Reduction.of(problem)
        self.bounds = self.reduction.trivial_bounds()
        self.before = {uid: rows[node] for uid, node in previous.items() if node in rows}
        self.layout = greedy(problem)
        self._worth = self._judge(self.layout)
        self._budget = Budget(limits.deterministic_seconds, limits.seed)
        self._levels = [level for level in problem.levels if limits.regards(level)]
        self._gpus_bound = _room(self.reduction)

    def run(self) -> None:
        """Look for something better, and for bounds, until all is proved or the budget is spent."""
        if self.before:
            self._offer(greedy(self.problem, self._kept()))
        if not self.reduction.placeable or self._gpus_bound > MOST_GPUS or self._proven(self._levels):
            return
        size, simple = variables_of(self.reduction), self.reduction.only_gpus and not self.reduction.sides
        if size <= SMALL or (size <= LARGE and not simple):
            self._take(*Nodewise(self.reduction, self.layout).solve(self._levels, self._budget))
        goals = {Goal.GPUS, Goal.OPENED} if self.reduction.whole else {Goal.GPUS}
        wanted = [level for level in self._levels if level.goal in goals]
        if not self.reduction.gpu_classes or self.reduction.choices > MANY_CHOICES:
            return
        if not self._proven(wanted) and prefix.applies(self.reduction):
            self._take(*prefix.Prefix(self.reduction, self.layout).solve(wanted, self._budget))
        if not self._proven(wanted):
            self._solve_patterns(wanted)

    @property
    def gpus_bound(self) -> int:
        """Return an upper bound of the GPUs that the best plan of all places, over all priorities."""
        return min(self._gpus_bound, sum(self.bounds[level] for level in self.reduction.gpu_levels()))

    def value(self, level: Level) -> int:
        """Return the signed value of the best layout at a level."""
        return self._worth[0][self.problem.levels.index(level)]

    # -- bookkeeping -------------------------------------------------------------------------------------------

    def _judge(self, layout: Layout) -> tuple[tuple[int, ...], int]:
        """Return what a layout is worth: its levels, then how many pods stay where an earlier plan had them."""
        after = rows_of_pods(self.problem, layout, self.before) if self.before else {}
        return self.problem.value(layout), sum(self.before.get(uid) == row for uid, row in after.items())

    def _offer(self, layout: Layout) -> None:
        """Take a layout that is better."""
        worth = self._judge(layout)
        if worth > self._worth:
            self.layout, self._worth = layout, worth

    def _take(self, layout: Layout, result: Result) -> None:
        """Take what a model has found and proved; what its layout leaves free is filled up."""
        if result.values:
            kept = ((at, row, count) for at, rows in enumerate(layout) for row, count in rows)
            self._offer(greedy(self.problem, kept))
        for level in self.problem.levels:
            if level in result.bounds:
                self.bounds[level] = min(self.bounds[level], result.bounds[level])
                if level.counts_pods and self.value(level) < self.bounds[level]:
                    return  # what follows was proved beside a value that we do not have

    def _proven(self, levels: Iterable[Level]) -> bool:
        return all(self.value(level) == self.bounds[level] for level in levels)

    def _kept(self) -> Iterator[tuple[int, int, int]]:
        for at, group in enumerate(self.problem.classes):
            rows = Counter(self.before[uid] for uid in group.uids if uid in self.before)
            yield from ((at, row, count) for row, count in sorted(rows.items()))

    # -- models ------------------------------------------------------------------------------------------------

    def _solve_patterns(self, levels: Iterable[Level]) -> None:
        """Decide the levels in turn, as far as they can be decided."""
        patterns = Patterns.of(self.reduction, self.reduction.sides) or Patterns.of(self.reduction, ())
        if patterns is None:
            return
        pool = Pool(patterns)
        fixed: list[tuple[Level, int]] = []
        for level in levels:
            pool.add(hinted_columns(patterns, self.layout).values())
            if self._open(level):
                self._solve_level(pool, level, fixed)
            if self._open(level):
                self._bound_rest(pool, fixed)
                return
            fixed.append((level, self.value(level)))

    def _solve_level(self, pool: Pool, level: Level, fixed: list[tuple[Level, int]]) -> None:
        """Bound one level by its LP, search the LP's columns, then those that could make the plan better."""
        prices = PriceProblem(self.reduction, pool, [level], fixed)
        self.bounds[level] = min(self.bounds[level], prices.solve(self.value(level)))
        if self._open(level):
            self._search(pool, pool.columns, level, fixed)
        if self._open(level):
            columns, all_of_them = prices.near(self.value(level), MANY_COLUMNS)
            bound = self._search(pool, dict.fromkeys([*pool.columns, *columns]), level, fixed)
            if all_of_them and pool.patterns.shapes.exact and bound is not None:
                self.bounds[level] = min(self.bounds[level], max(bound, self.value(level)))

    def _search(
        self, pool: Pool, columns: Iterable[Column], level: Level, fixed: list[tuple[Level, int]]
    ) -> int | None:
        """Look for a better plan that uses the columns only; return the bound of such plans."""
        model = Patternwise(self.reduction, pool.patterns, columns, self.layout)
        layout, result = model.solve([level], self._budget, fixed)
        self._take(layout, replace(result, bounds={}))
        return result.bounds.get(level)

    def _bound_rest(self, pool: Pool, fixed: list[tuple[Level, int]]) -> None:
        """Bound the GPUs of all levels that are not decided at once: better than the sum of what each could have."""
        decided = {level: value for level, value in fixed if level.goal is Goal.GPUS}
        rest = [level for level in self.reduction.gpu_levels() if level not in decided]
        if rest:
            most = PriceProblem(self.reduction, pool, rest, fixed).solve(sum(map(self.value, rest)))
            self._gpus_bound = min(self._gpus_bound, sum(decided.values()) + most)

    def _open(self, level: Level) -> bool:
        return self.value(level) < self.bounds[level]


# ---------------------------------------------------------------- the plan


def _joint_plan(search: _Search, limits: Limits) -> JointPlan:
    problem = search.problem
    rows = {**rows_of_pods(problem, search.layout, search.before), **problem.seated}
    placements = {uid: Destination(problem.nodes[row]) for uid, row in problem.seated.items()}
    reasons = _gang_reasons(search, limits)
    for at, group in enumerate(problem.classes):
        alone = int(search.reduction.alone[at].sum())
        why = reasons.get(group.gang) or _single_reason(alone)
        for uid in group.uids:
            row = rows.get(uid)
            placements[uid] = (
                Destination(None, why, alone) if row is None else Destination(problem.nodes[row], alone=alone)
            )
    for gang in problem.waiting_gangs.values():
        placements.update((pod.uid, Destination(None, Why.GANG_WAITS)) for pod in gang.members)
    counted = [level for level in problem.levels if level.counts_pods]
    proven = all(search.value(level) == search.bounds[level] for level in counted)
    seated = sum(problem.seated_gpus.values())
    objective = seated + sum(search.value(level) for level in search.reduction.gpu_levels())
    status = Status.OPTIMAL if proven else Status.FEASIBLE
    reached = tuple(_reached(search, level) for level in problem.levels)
    return JointPlan(placements, status, objective, seated + search.gpus_bound, reached)


def _reached(search: _Search, level: Level) -> Reached:
    sign = 1 if level.counts_pods else -1
    return Reached(level, sign * search.value(level), sign * search.bounds[level])


def _room(reduction: Reduction) -> int:
    """Return all free GPUs on rows that some pod could use: no plan places more."""
    free = reduction.problem.free[list(reduction.gpu_places)][:, reduction.rows]
    return total(np.maximum(free, 0))


def _single_reason(alone: int) -> Why:
    return Why.BESIDE if alone else Why.NOWHERE


def _gang_reasons(search: _Search, limits: Limits) -> dict[int, Why]:
    """Return why each gang without a place has none; for the first few it is proved whether it fits together."""
    problem, placeable = search.problem, search.reduction.gangs()
    started = {group.gang for group, rows in zip(problem.classes, search.layout, strict=True) if rows}
    limits = replace(limits, deterministic_seconds=limits.deterministic_seconds * EXPLAINING_SHARE)
    found: dict[int, Why] = {}
    for group in problem.classes:
        if group.gang < 0 or group.gang in found or group.gang in started:
            continue
        if group.gang not in placeable:
            found[group.gang] = Why.GANG_MEMBER
        elif len(found) >= GANGS_EXPLAINED:
            found[group.gang] = Why.GANG_UNSURE
        else:
            alone = replace(
                problem, classes=tuple(c for c in problem.classes if c.gang == group.gang), waiting_gangs={}
            )
            found[group.gang] = _TOGETHER[some_fit(alone, limits)]
    return found


_TOGETHER: Final[Mapping[Status, Why]] = {
    Status.FEASIBLE: Why.GANG_BESIDE,
    Status.INFEASIBLE: Why.GANG_APART,
    Status.UNKNOWN: Why.GANG_UNSURE,
}
