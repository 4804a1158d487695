"""The CP-SAT model of ``Relocation``: who leaves, how many of each kind arrive where, on which target room is made.

Counts of kinds instead of a variable per pod and node. The order of the moves is not in it: its optimum bounds every
plan, and ``move_order`` says whether a solution can be carried out.

    y[t]          the ask goes to target t; exactly one
    out[i]        resident i leaves its row
    arrive[k, n]  how many of kind k arrive on row n;  sum of out over kind k = sum of arrive[k, n] over n
    per row n and resource r:   arrivals + ask - departures <= room
    per budget:                 sum of out <= disruptions allowed
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ortools.sat.python import cp_model

from extender.packing.cpsat import Outcome, minimize
from extender.packing.plan import Status
from extender.packing.receivers import Departures, undominated
from extender.packing.relocation import Relocation, Resident, Scope, Target

Place = tuple[int, int]
"""(kind, row)."""

Linear = Any
"""A linear expression or a variable of CP-SAT."""

_LARGEST: Final = 300_000
"""So many places, and building the model alone takes longer than people wait."""


_TIE_LIMIT: Final = 1.0
"""Deterministic time for choosing among plans of equal price, of which nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A solution: the row of the target, who leaves, how many of a kind arrive where, the price."""

    row: int
    leaving: tuple[Resident, ...]
    places: Mapping[Place, int]
    price: int


@dataclass(slots=True)
class RelocationModel:
    """The model over some targets, residents that may leave, and places that may be taken."""

    problem: Relocation
    targets: Sequence[Target]
    residents: Sequence[Resident]
    most_moves: int | None = None
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    chosen: list[cp_model.IntVar] = field(default_factory=list)
    out: list[cp_model.IntVar] = field(default_factory=list)
    arrive: dict[Place, cp_model.IntVar] = field(default_factory=dict)
    price: Linear = 0
    _arrived: dict[tuple[Place, int], cp_model.IntVar] = field(default_factory=dict)

    @classmethod
    def direct(cls, problem: Relocation, targets: Sequence[Target], leaving: Sequence[Resident]) -> Self:
        """Return the model in which only pods of the target leave, to room that is free now."""
        kinds = sorted({resident.kind for resident in leaving})
        most = max((len(group) for group in _by_row(leaving).values()), default=0)
        # It touches its target and at most one receiver per pod.
        rows = undominated(problem, kinds, most + 1)
        made = cls(problem, targets, leaving)
        made._build(
            (kind, row)
            for kind in kinds
            for row in (problem.kinds[kind].accepts & rows).nonzero()[0].tolist()
            if problem.fits(problem.kinds[kind].amounts, row)
        )
        made._only_targets_leave()
        return made

    @classmethod
    def chained(cls, problem: Relocation, scope: Scope) -> Self | None:
        """Return the model in which every node may pass pods on, for the plans in scope; None when it is too large."""
        targets, residents = scope.targets(problem), scope.residents(problem)
        kinds = sorted({resident.kind for resident in residents})
        passing = {resident.row for resident in residents}
        if scope.moves is not None:
            passing |= set(undominated(problem, kinds, scope.moves + 1).nonzero()[0].tolist())
        departures = Departures.of(problem, residents)
        places = {
            (kind, row): least
            for kind in kinds
            for row in problem.kinds[kind].accepts.nonzero()[0].tolist()
            if (scope.moves is None or row in passing)
            and (least := departures.least(kind, row)) is not None
            and (scope.moves is None or least < scope.moves)
        }
        if len(places) > _LARGEST:
            return None
        made = cls(problem, targets, residents, most_moves=scope.moves)
        made._build(places)
        made._leave_for_a_reason()
        if scope.moves is not None:
            made._make_way(places, scope.moves)
        if scope.ceiling is not None:
            made.below(scope.ceiling)
        return made

    def best(self, limit: float) -> tuple[Outcome, Chosen | None]:
        """Minimise the price, then what decides among equals; the outcome is that of the price."""
        first = minimize(self.model, self.price, limit)
        if first.objective is None:
            return first, None
        found = self._chosen(first)
        if first.status is not Status.OPTIMAL:
            return first, found
        again = self.model.clone()
        again.add(self.price <= first.objective)
        for variable in (*self.chosen, *self.out, *self.arrive.values()):
            again.add_hint(variable, first.value(variable))
        second = minimize(
            again, sum(r.second * out for r, out in zip(self.residents, self.out, strict=True)), min(limit, _TIE_LIMIT)
        )
        return first, found if second.objective is None else self._chosen(second)

    def below(self, price: int) -> None:
        """Ask for plans that cost less than this."""
        self.model.add(self.price <= price - 1)

    def forbid(self, chosen: Chosen) -> None:
        """Cut a solution off, and no other."""
        leaving = {resident.pod.uid for resident in chosen.leaving}
        differs = [
            out.negated() if resident.pod.uid in leaving else out
            for resident, out in zip(self.residents, self.out, strict=True)
        ]
        differs += [y.negated() for y, t in zip(self.chosen, self.targets, strict=True) if t.row == chosen.row]
        differs += [self._at_least(place, count).negated() for place, count in chosen.places.items()]
        self.model.add_bool_or(differs)

    # ---------------------------------------------------------------- variables and constraints

    def _build(self, places: Iterable[Place]) -> None:
        model = self.model
        self.chosen = [model.new_bool_var("") for _ in self.targets]
        self.out = [model.new_bool_var("") for _ in self.residents]
        self.price = sum(r.price * out for r, out in zip(self.residents, self.out, strict=True))
        model.add_exactly_one(self.chosen)
        leaving: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        for resident, out in zip(self.residents, self.out, strict=True):
            leaving[resident.kind].append(out)
        arriving: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        for kind, row in places:
            if most := len(leaving[kind]):
                most = most if self.most_moves is None else min(most, self.most_moves)
                self.arrive[kind, row] = model.new_int_var(0, most, "")
                arriving[kind].append(self.arrive[kind, row])
        for kind, outs in leaving.items():
            model.add(sum(outs) == sum(arriving[kind]))
        self._keep_within_rooms()
        self._keep_budgets()
        self._lift()

    def _keep_within_rooms(self) -> None:
        """Add the constraint of each row and resource that somebody asks for there."""
        units = self.problem.units
        load: dict[tuple[int, str], list[Linear]] = defaultdict(list)
        comers: dict[tuple[int, str], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
        for (kind, row), arrive in self.arrive.items():
            for name, amount in self.problem.kinds[kind].amounts.items():
                load[row, name].append((amount // units[name]) * arrive)
                comers[row, name].append((arrive, arrive.proto.domain[-1]))
        for target, y in zip(self.targets, self.chosen, strict=True):
            for name, amount in target.amounts.items():
                load[target.row, name].append((amount // units[name]) * y)
                comers[target.row, name].append((y, 1))
        for resident, out in zip(self.residents, self.out, strict=True):
            for name, amount in self.problem.kinds[resident.kind].amounts.items():
                if (resident.row, name) in load:
                    load[resident.row, name].append(-(amount // units[name]) * out)
        for (row, name), terms in load.items():
            room = self.problem.room_of(row, name) // units[name]
            within = self.model.add(sum(terms) <= room)
            if room < 0:  # an overcommitted node: it matters to those who come, not to those who are there
                within.only_enforce_if(self._anybody(comers[row, name]))

    def _anybody(self, comers: Iterable[tuple[cp_model.IntVar, int]]) -> cp_model.IntVar:
        some = self.model.new_bool_var("")
        for variable, most in comers:
            self.model.add(variable <= most * some)
        return some

    def _keep_budgets(self) -> None:
        evicted: dict[object, list[cp_model.IntVar]] = defaultdict(list)
        allowed: dict[object, int] = {}
        for resident, out in zip(self.residents, self.out, strict=True):
            for budget in resident.budgets:
                evicted[str(budget)].append(out)
                allowed[str(budget)] = budget.allowed
        for key, outs in evicted.items():
            self.model.add(sum(outs) <= allowed[key])

    def _lift(self) -> None:
        """Say what is implied, for the bound: a chosen target's pods cost its floor at least."""
        outs = _by_row(self.residents, self.out)
        for target, y in zip(self.targets, self.chosen, strict=True):
            if target.floor:
                self.model.add(sum(r.price * out for r, out in outs.get(target.row, ())) >= target.floor * y)

    def _only_targets_leave(self) -> None:
        on = self._chosen_on()
        for resident, out in zip(self.residents, self.out, strict=True):
            self.model.add(out <= sum(on[resident.row]))

    def _leave_for_a_reason(self) -> None:
        """Let pods leave only where something arrives: others could as well stay."""
        on = self._chosen_on()
        for (_, row), arrive in self.arrive.items():
            on[row].append(arrive)
        for resident, out in zip(self.residents, self.out, strict=True):
            self.model.add(out <= sum(on[resident.row]))

    def _make_way(self, places: Mapping[Place, int], moves: int) -> None:
        """Say for the bound what the rooms imply: where ``least`` pods must leave first, few moves are left to arrive.

        If a of such pods arrive, then at least ``least`` leave and a <= moves - least.
        """
        outs = _by_row(self.residents, self.out)
        after: dict[tuple[int, int], list[cp_model.IntVar]] = defaultdict(list)
        for (kind, row), least in places.items():
            if (kind, row) in self.arrive:
                for count in range(1, least + 1):
                    after[row, count].append(self.arrive[kind, row])
        for (row, least), arriving in after.items():
            leaving = sum(out for _, out in outs.get(row, ()))
            self.model.add(least * sum(arriving) <= (moves - least) * leaving)

    def _chosen_on(self) -> dict[int, list[cp_model.IntVar]]:
        on: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        for target, y in zip(self.targets, self.chosen, strict=True):
            on[target.row].append(y)
        return on

    def _at_least(self, place: Place, count: int) -> cp_model.IntVar:
        if (place, count) not in self._arrived:
            reached = self._arrived[place, count] = self.model.new_bool_var("")
            self.model.add(self.arrive[place] >= count).only_enforce_if(reached)
            self.model.add(self.arrive[place] <= count - 1).only_enforce_if(reached.negated())
        return self._arrived[place, count]

    # ---------------------------------------------------------------- solutions

    def _chosen(self, outcome: Outcome) -> Chosen:
        leaving = [r for r, out in zip(self.residents, self.out, strict=True) if outcome.value(out)]
        places = {place: count for place, arrive in self.arrive.items() if (count := outcome.value(arrive))}
        row = next(t.row for t, y in zip(self.targets, self.chosen, strict=True) if outcome.value(y))
        staying = set()
        for resident in leaving:  # who leaves and is replaced by its like could as well stay
            if places.get((resident.kind, resident.row)):
                places[resident.kind, resident.row] -= 1
                staying.add(resident.pod.uid)
        gone = tuple(resident for resident in leaving if resident.pod.uid not in staying)
        return Chosen(row, gone, {p: count for p, count in places.items() if count}, sum(r.price for r in gone))


def _by_row(
    residents: Sequence[Resident], out: Sequence[cp_model.IntVar] | None = None
) -> dict[int, list[tuple[Resident, Any]]]:
    found: dict[int, list[tuple[Resident, Any]]] = defaultdict(list)
    for resident, variable in zip(residents, out if out is not None else residents, strict=True):
        found[resident.row].append((resident, variable))
    return found
