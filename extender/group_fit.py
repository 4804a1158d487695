"""What `fit` says of groups: whether the waiting pods that start together fit together, each alone being no answer.

The proof is the planner's, for the group with nothing else placed; importing this module takes OR-Tools in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from extender.packing.gangs import Gang, gangs_of, waiting_text
from extender.packing.plan import Status
from extender.packing.planner import some_fit
from extender.packing.problem import PackingProblem
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.reports import GroupRow
from extender.whatif import members_of

_STARTS: Final[Mapping[Status, bool | None]] = MappingProxyType({Status.FEASIBLE: True, Status.INFEASIBLE: False})


def group_rows(snapshot: Snapshot, asked: Iterable[PodInfo]) -> dict[str, GroupRow]:
    """Return what to know of their group by the uid of those pods asked about that cannot start without others."""
    return {pod.uid: row for gang, row in _rows(snapshot, members_of(snapshot, asked)) for pod in gang.members}


def _rows(snapshot: Snapshot, members: Iterable[PodInfo]) -> Iterator[tuple[Gang, GroupRow]]:
    for gang in gangs_of(snapshot, members).values():
        quorum = gang.quorum
        if gang.ready and quorum.needed <= 1:
            continue
        starts = _STARTS.get(some_fit(PackingProblem.of(snapshot, gang.members))) if gang.ready else False
        yield gang, {"group": gang.name, "waiting": quorum.pods, "needed": quorum.needed, "starts": starts,
                     "verdict": _verdict(gang, starts)}  # fmt: skip


def _verdict(gang: Gang, starts: bool | None) -> str:  # noqa: FBT001 - three answers
    if not gang.ready:
        return waiting_text(gang)
    quorum = gang.quorum
    which, they = ("which", "they") if quorum.everyone else (f"of which {quorum.needed}", "so many")
    answer = {
        True: f"{they} fit together now",
        False: f"{they} do not fit together, even if no other pod starts (proved)",
        None: f"no room was found for {'them' if quorum.everyone else they} together",
    }
    return f"one of {quorum.pods} waiting pods of group {quorum.group}, {which} start together: {answer[starts]}"
