"""A joint plan: where each pod of the queue goes, or why nowhere, and what is proved of it. Values only.

``bound`` is about the order of the plan, higher priorities first: no plan that gives every priority as much as it can
before it looks at the next places more GPUs in all. OPTIMAL says that ``objective`` reaches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from extender.packing.problem import Layout, Level, PackingProblem


class Status(StrEnum):
    """What is proved. INFEASIBLE and UNKNOWN answer only the question whether *all* pods can be placed."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


class Why(StrEnum):
    """Why a pod has no node."""

    PLACED = ""
    NOWHERE = "fits nowhere as things stand"
    BESIDE = "fits alone, but the plan uses the room for other pods"
    GANG_WAITS = "members of its group are missing or gated"
    GANG_MEMBER = "a member of its group fits nowhere"
    GANG_APART = "its group does not fit together, even alone"
    GANG_BESIDE = "its group fits, but the plan uses the room for other pods"
    GANG_UNSURE = "no room was found for its group, and none was proved not to be there"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one pod goes: ``node`` is None and ``why`` says the reason when it goes nowhere.

    ``alone`` is on how many nodes it fits as things stand.
    """

    node: str | None
    why: Why = Why.PLACED
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """One level of the objective: what the plan reaches, and what no plan can exceed given the levels before.

    Where less is better (``level.counts_pods`` is false) ``bound`` is a lower bound.
    """

    level: Level
    value: int
    bound: int

    @property
    def proven(self) -> bool:
        """Tell whether nothing better is possible."""
        return self.value == self.bound


@dataclass(frozen=True, slots=True)
class JointPlan:
    """The plan for a queue.

    Attributes:
        placements: by pod uid.
        status: OPTIMAL or FEASIBLE.
        objective: GPUs placed, over all priorities.
        bound: see the head of this module.
        reached: every level of the objective, the most important first.
        seconds: what it took; 0.0 until who has a clock says so.
    """

    placements: Mapping[str, Destination]
    status: Status
    objective: int
    bound: int
    reached: tuple[Reached, ...] = ()
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Return how far the objective may be from the best, as a share of the bound."""
        return (self.bound - self.objective) / self.bound if self.bound else 0.0

    @property
    def nodes(self) -> Mapping[str, str]:
        """Return uid -> node of the placed pods."""
        return {uid: to.node for uid, to in self.placements.items() if to.node is not None}

    def took(self, seconds: float) -> JointPlan:
        """Return the plan with the time it took."""
        return replace(self, seconds=seconds)


def rows_of_pods(problem: PackingProblem, layout: Layout, before: Mapping[str, int]) -> dict[str, int]:
    """Return uid -> row for a layout.

    Of a class those go that have waited longest; each stays on its row of ``before`` if the layout has room there.
    """
    found: dict[str, int] = {}
    for group, rows in zip(problem.classes, layout, strict=True):
        left = dict(rows)
        moving = []
        for uid in group.uids[: sum(left.values())]:
            row = before.get(uid, -1)
            if left.get(row, 0):
                left[row] -= 1
                found[uid] = row
            else:
                moving.append(uid)
        found.update(zip(moving, _each(left.items()), strict=True))
    return found


def _each(rows: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (row for row, count in rows for _ in range(count))
