"""What has to be said beside the answer of `defrag`: what the dump lacks, what moves may break, why a cost is 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from extender.dump import ClusterDump
from extender.packing.defrag import Plan
from extender.packing.disruption import Disruptions, gpu_hours
from extender.packing.gangs import gangs_of, waiting_text
from extender.packing.holes import Ask, Hole
from extender.packing.selectors import HARD_EFFECTS
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo
from extender.remarks import concerning
from extender.whatif import members_of

_LISTED: Final = 4
_ALL_WARNINGS: Final = "gpu-extender gpus"


def of_dump(
    dump: ClusterDump, snapshot: Snapshot, wanted: PodInfo | Hole, asks: Iterable[Ask], plan: Plan
) -> list[str]:
    """Return the warnings about what could have had a part in the answer.

    That is the pod that is asked about, the nodes that could have had the room and those that the moves touch, the
    pods on them, and budgets.
    """
    rows = {row for _, origin, to in plan.steps for row in (origin, to)}
    rows |= {row for ask in asks for row in ask.rows.nonzero()[0].tolist()}
    objects = {f"node {snapshot.table.names[row]}" for row in rows}
    objects |= {f"node {node.name}" for node in dump.nodes if node.taken_for_ready}  # where others see room
    objects |= {f"pod {pod.key}" for row in rows for pod in snapshot.pods[row]}
    objects |= {f"poddisruptionbudget {budget}" for budget in dump.budgets}
    if not isinstance(wanted, Hole):
        objects.add(f"pod {wanted.key}")
    return concerning(dump.warnings, objects, _ALL_WARNINGS)


def of_group(snapshot: Snapshot, wanted: PodInfo) -> Iterator[str]:
    """Yield that the room is for one pod, when that pod does not start without others of its group."""
    for gang in gangs_of(snapshot, members_of(snapshot, [wanted])).values():
        if not gang.ready:
            yield f"pod {wanted.key}: {waiting_text(gang)}; the room is for this pod alone"
        elif gang.quorum.needed > 1:
            yield (
                f"pod {wanted.key}: is one of {gang.quorum.pods} waiting pods of group {gang.name}, of which "
                f"{gang.quorum.needed} start together; the room is for this pod alone; `gpu-extender plan` tells "
                "whether they fit"
            )


def of_room(snapshot: Snapshot, row: int | None) -> Iterator[str]:
    """Yield what keeps most pods from a hole: a taint that is not there for the sake of its GPUs."""
    if row is None:
        return
    node = snapshot.table.nodes[row]
    for taint in node.taints:
        # Pods that ask for a resource tolerate taints of its name (admission plugin ExtendedResourceToleration).
        if taint.effect in HARD_EFFECTS and taint.key not in node.gpus:
            yield f"node {node.name}: has taint {taint}; only pods that tolerate it can use the room"


def of_plan(dump: ClusterDump, disruptions: Disruptions, plan: Plan, *, bare_pods: bool | None) -> Iterator[str]:
    """Yield what to know before the moves of a plan are made."""
    if not plan.steps:
        return
    if disruptions.bare_pods and bare_pods is None:
        yield (
            "no pod of the input shows its controller (metadata.ownerReferences): all are taken for movable; "
            "a pod without one does not come back after an eviction"
        )
    if not dump.budgets:
        yield "the input has no PodDisruptionBudgets; `kubectl get nodes,pods,poddisruptionbudgets -A` prints them, too"
    moved = list({resident.pod.key: resident.pod for resident, _, _ in plan.steps}.values())
    for pod in moved:
        if pod.unmodelled:
            yield f"pod {pod.key}: its {', '.join(pod.unmodelled)} may keep it from the node it is to move to"
        if pod.group is not None:
            yield f"pod {pod.key}: is one of group {pod.group}; the others may have to start anew with it"
    yield from _nothing_at_stake(moved, disruptions)


def _nothing_at_stake(moved: Sequence[PodInfo], disruptions: Disruptions) -> Iterator[str]:
    """Yield why GPU-hours at stake are 0 of pods that have GPUs."""
    zero = [pod for pod in moved if pod.gpu.count and not gpu_hours(disruptions.gpu_seconds_at_stake(pod))]
    if unknown := [pod for pod in zero if not disruptions.at_stake_since(pod)]:
        yield (
            f"GPU-hours at stake are not known, and count as 0, for {_some(unknown)}: the input has neither "
            "status.startTime nor metadata.creationTimestamp of them"
        )
    if fresh := [pod for pod in zero if disruptions.at_stake_since(pod)]:
        now = datetime.fromtimestamp(disruptions.now_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield (
            f"GPU-hours at stake are 0 for {_some(fresh)}: just started, or saved its work just now, by the newest "
            f"time in the input ({now})"
        )


def _some(pods: Sequence[PodInfo]) -> str:
    names = [f"pod {pods[0].key}", *(pod.key for pod in pods[1:_LISTED])]
    return ", ".join(names) + (f" and {len(pods) - _LISTED} more" if len(pods) > _LISTED else "")
