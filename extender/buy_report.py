"""The answer of ``buy``: the fewest nodes, by type, that let the queue in; and how few would hold what runs.

Pure functions of a dump; the solver is imported here, so importing this module takes OR-Tools in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from extender.advice import verdict
from extender.cures import any_of, to_uncordon
from extender.dump import ClusterDump
from extender.errors import InputError
from extender.packing.disruption import PodDisruption
from extender.packing.expansion import better, fewest_nodes
from extender.packing.fit import filter_nodes
from extender.packing.gangs import Quorum, waiting_text
from extender.packing.node_shapes import NodeShape, node_shapes
from extender.packing.plan import Status
from extender.packing.problem import PackingProblem
from extender.packing.reduction import hopeless_gangs
from extender.packing.snapshot import Snapshot
from extender.packing.stock import Amounts, Demand, Expansion, Room, Shape, Stock
from extender.packing.types import NodeInfo, Phase, PodInfo
from extender.remarks import concerning
from extender.spelling import nearest
from extender.whatif import members_of

_RUNNING_LIMIT: Final = 3.0
"""Deterministic time for what is a remark here."""

_ALONE_LIMIT: Final = 0.5
"""Deterministic time for one type alone: there may be many."""

_LISTED: Final = 4
_ALL_WARNINGS: Final = "gpu-extender gpus"
_NOTHING_KNOWN: Final = PodDisruption()


class BuyRow(TypedDict):
    """So many nodes of one type. `like`: a node of the type that is there. `type`: its instance type, or in words."""

    type: str
    like: str
    model: str | None
    gpus: int
    nodes: int


class OptionRow(TypedDict):
    """What it would take with this type alone.

    `nodes` is None when no number lets in all that could be placed: proved (OPTIMAL), or none was found (UNKNOWN).
    """

    type: str
    like: str
    model: str | None
    gpus: int
    nodes: int | None
    status: str


class UnplacedRow(TypedDict):
    """A pod that no number of nodes lets in."""

    pod: str
    reason: str


class RunningRow(TypedDict):
    """Fewest nodes that would hold the GPU pods that run, were they all packed anew. `in_use`: what they are on now."""

    nodes: int | None
    in_use: int
    status: str
    bound: int


class BuyReport(TypedDict):
    """Answer of `buy`. `status` and `bound` are about `nodes`, the number to buy in all."""

    possible: bool
    nodes: int
    buy: list[BuyRow]
    status: str
    bound: int
    options: list[OptionRow]
    unplaced: list[UnplacedRow]
    min_nodes_for_running: RunningRow
    warnings: list[str]


def buy_report(dump: ClusterDump, *, like: Sequence[str] = (), offered: Sequence[NodeInfo] | None = None) -> BuyReport:
    """Find the nodes to buy for the pending GPU pods.

    Args:
        dump: the cluster.
        like: names of nodes or types; only these types are bought.
        offered: nodes that could be bought, instead of the types of the cluster.

    Raises:
        InputError: for a name in ``like`` that no GPU node has.
    """
    snapshot = Snapshot.of(dump.nodes, dump.pods)
    waiting = _to_let_in(snapshot, dump.pods)
    known = _shapes(dump, snapshot, waiting, offered)
    shapes = _like(known, like)
    joint = Snapshot.of([*dump.nodes, *(shape.node for shape in shapes)], dump.pods)
    problem = PackingProblem.of(joint, waiting)
    stock, uids = _stock(problem, joint, shapes)
    homeless = _homeless(stock, uids)
    # Groups that never start, whatever is bought.
    reach = [group.uids[0] not in homeless for group in problem.classes]
    broken = {(quorum := problem.gangs[gang]).group: quorum for gang in hopeless_gangs(problem, reach)}
    if broken:
        rest = [pod for pod in waiting if str(pod.group) not in broken]
        stock, uids = _stock(PackingProblem.of(joint, rest), joint, shapes)
    mixed = fewest_nodes(stock)
    alone = [_alone(stock, at) for at in range(len(shapes))] if len(shapes) > 1 else [mixed] * len(shapes)
    found = _best(stock, mixed, alone)
    offer = _Offer(snapshot, Snapshot.of([shape.node for shape in shapes]), [s for s in known if s not in shapes])
    unplaced = [
        *_unplaced(offer, waiting, uids, found),
        *_of_broken(offer, waiting, homeless, broken),
        *_incomplete(problem, waiting),
    ]
    return {
        "possible": not unplaced,
        "nodes": sum(found.nodes),
        "buy": [_row(shape, count) for shape, count in zip(shapes, found.nodes, strict=True) if count],
        "status": str(found.status),
        "bound": found.bound,
        "options": [_option(stock, shape, answer, found) for shape, answer in zip(shapes, alone, strict=True)],
        "unplaced": unplaced,
        "min_nodes_for_running": nodes_for_running(dump),
        "warnings": [
            *concerning(dump.warnings, _objects(dump), _ALL_WARNINGS),
            *_warnings(dump, waiting),
            *_cordoned(snapshot, waiting),
        ],
    }


def _shapes(
    dump: ClusterDump, snapshot: Snapshot, waiting: Iterable[PodInfo], offered: Sequence[NodeInfo] | None
) -> list[NodeShape]:
    source = snapshot if offered is None else Snapshot.of(offered)
    return node_shapes(source, waiting, lambda pod: _everywhere(dump, pod))


def _like(shapes: list[NodeShape], like: Sequence[str]) -> list[NodeShape]:
    """Return the types that are named, by themselves or by a node; all of them when none is."""
    known = {name for shape in shapes for name in (shape.name, *shape.nodes)}
    if lost := [name for name in like if name not in known]:
        raise InputError(f"--like {lost[0]}: the input has no such GPU node or type{nearest(lost[0], known)}")
    return [shape for shape in shapes if not like or {*like} & {shape.name, *shape.nodes}]


def _everywhere(dump: ClusterDump, pod: PodInfo) -> bool:
    return dump.disruptions.get(pod.key, _NOTHING_KNOWN).everywhere


def _stock(problem: PackingProblem, joint: Snapshot, shapes: Sequence[NodeShape]) -> tuple[Stock, list[list[str]]]:
    """Return the question, and the uids of the pods of each demand in the order of the queue."""
    demands, masks, uids = _demands(problem)
    new = {joint.table.index[shape.node.name]: shape for shape in shapes}

    def accepts(row: int) -> tuple[bool, ...]:
        return tuple(bool(problem.masks[mask, row]) for mask in masks)

    def free(row: int) -> Amounts:
        return tuple(problem.free[:, row].tolist())

    offers = [Shape(free(row), accepts(row), shape.gpus) for row, shape in new.items()]
    there = (
        Room(free(row), accepts(row)) for row, node in enumerate(joint.table.nodes) if row not in new and node.ready
    )
    rooms = [room for room in there if any(room.holds(at, demand.requests) for at, demand in enumerate(demands))]
    return Stock(demands, offers, rooms), uids


def _demands(problem: PackingProblem) -> tuple[list[Demand], list[int], list[list[str]]]:
    """Return the pods by what they ask for, whatever their priority: demands, masks and uids."""
    found: dict[tuple[Amounts, int, int, int], list[str]] = {}
    for group in problem.classes:
        found.setdefault((group.requests, group.gpus, group.gpu_at, group.mask), []).extend(group.uids)
    demands = [Demand(requests, len(uids), gpus, at) for (requests, gpus, at, _), uids in found.items()]
    return demands, [mask for *_, mask in found], list(found.values())


def _row(shape: NodeShape, count: int) -> BuyRow:
    return {"type": shape.name, "like": shape.nodes[0], "model": shape.model, "gpus": shape.gpus, "nodes": count}


def _alone(stock: Stock, at: int) -> Expansion:
    """Return the answer with one type alone, as an answer about all of them."""
    found = fewest_nodes(replace(stock, shapes=[stock.shapes[at]]), _ALONE_LIMIT)
    return replace(found, nodes=tuple(sum(found.nodes) if at == each else 0 for each in range(len(stock.shapes))))


def _best(stock: Stock, mixed: Expansion, alone: Iterable[Expansion]) -> Expansion:
    """Return the best answer; what is proved of one type alone is not proved of all."""
    best = mixed
    for answer in alone:
        best = better(stock, best, replace(answer, bound=0, least=not any(answer.unplaced)))
    return best


def _option(stock: Stock, shape: NodeShape, alone: Expansion, best: Expansion) -> OptionRow:
    left_out = stock.gpus(alone.unplaced) - stock.gpus(best.unplaced)
    nodes: int | None = sum(alone.nodes)
    proved = nodes == best.bound and stock.lost(alone.unplaced) <= stock.lost(best.unplaced)
    status = Status.OPTIMAL if proved else alone.status
    if left_out > 0 or _without_gpus(stock, alone) > _without_gpus(stock, best):
        nodes, status = None, Status.OPTIMAL if alone.least and left_out > 0 else Status.UNKNOWN
    return {
        "type": shape.name,
        "like": shape.nodes[0],
        "model": shape.model,
        "gpus": shape.gpus,
        "nodes": nodes,
        "status": str(status),
    }


def _without_gpus(stock: Stock, answer: Expansion) -> int:
    """Return how many pods without GPUs are left out."""
    return sum(count for demand, count in zip(stock.demands, answer.unplaced, strict=True) if not demand.gpus)


def _unplaced(
    offer: _Offer, waiting: Iterable[PodInfo], uids: Sequence[Sequence[str]], found: Expansion
) -> Iterator[UnplacedRow]:
    pods = {pod.uid: pod for pod in waiting}
    for group, count in zip(uids, found.unplaced, strict=True):
        for uid in group[len(group) - count :]:
            yield {"pod": pods[uid].key, "reason": offer.why_not(pods[uid])}


@dataclass(frozen=True, slots=True)
class _Offer:
    """The cluster, a new node of each type that is bought, and the types that `--like` leaves out."""

    cluster: Snapshot
    new: Snapshot
    left_out: Sequence[NodeShape]

    def why_not(self, pod: PodInfo) -> str:
        """Return why neither a new node nor one that is there takes the pod."""
        verdicts = filter_nodes(self.new, pod)
        counts = Counter(verdicts.reason(row).text for row in range(len(self.new)) if not verdicts.fits[row])
        refusals = ", ".join(f"{count} x {text}" for text, count in counts.most_common(_LISTED))
        words = f"no node type takes it: {refusals}" if refusals else "there is no node type to buy"
        other = next((shape.nodes[0] for shape in self.left_out if _takes(shape, pod)), None)
        hint = f" (one like {other} would)" if other else ""
        return f"{words}{hint}; of the nodes that are there, {verdict(pod, filter_nodes(self.cluster, pod))}"


def _takes(shape: NodeShape, pod: PodInfo) -> bool:
    return bool(filter_nodes(Snapshot.of([shape.node]), pod).fits.any())


def _homeless(stock: Stock, uids: Sequence[Sequence[str]]) -> set[str]:
    """Return the uids of the pods that neither a new node of any type nor one that is there has room for."""
    rooms = (*stock.shapes, *stock.rooms)
    return {
        uid
        for at, (demand, alike) in enumerate(zip(stock.demands, uids, strict=True))
        if not any(room.holds(at, demand.requests) for room in rooms)
        for uid in alike
    }


def _of_broken(
    offer: _Offer, waiting: Iterable[PodInfo], homeless: Collection[str], broken: Mapping[str, Quorum]
) -> Iterator[UnplacedRow]:
    for pod in waiting:
        if (quorum := broken.get(str(pod.group))) is not None:
            alone = pod.uid in homeless
            yield {"pod": pod.key, "reason": offer.why_not(pod) if alone else f"{quorum}, and others find no place"}


def _incomplete(problem: PackingProblem, waiting: Iterable[PodInfo]) -> Iterator[UnplacedRow]:
    for pod in waiting:
        if pod.group is not None and (gang := problem.waiting_gangs.get(str(pod.group))) is not None:
            yield {"pod": pod.key, "reason": waiting_text(gang)}


def _objects(dump: ClusterDump) -> set[str]:
    """Return what the answer depends on: nodes with GPUs, the pods on them, and pods that ask for GPUs."""
    gpu_nodes = {node.name for node in dump.nodes if node.gpus}
    gpu_nodes |= {pod.node_name for pod in dump.pods if pod.holds and pod.gpu.count}
    pods = {pod.key for pod in dump.pods if (pod.node_name in gpu_nodes if pod.holds else _asks(pod))}
    return {f"node {name}" for name in gpu_nodes} | {f"pod {key}" for key in pods}


def _asks(pod: PodInfo) -> bool:
    return pod.waiting and not pod.gated and pod.gpu.count > 0


def _to_let_in(snapshot: Snapshot, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Return the waiting GPU pods, and those without GPUs that start together with them."""
    asking = [pod for pod in pods if _asks(pod)]
    return list({pod.uid: pod for pod in (*asking, *members_of(snapshot, asking))}.values())


def _warnings(dump: ClusterDump, waiting: Iterable[PodInfo]) -> Iterator[str]:
    if gated := sum(pod.waiting and pod.gated and pod.gpu.count > 0 for pod in dump.pods):
        yield f"{gated} GPU pods have scheduling gates and are left out"
    for pod in waiting:
        if pod.unmodelled:
            yield f"pod {pod.key}: kube-scheduler looks at its {', '.join(pod.unmodelled)}, too; this answer does not"


def _cordoned(snapshot: Snapshot, waiting: Iterable[PodInfo]) -> Iterator[str]:
    """Yield a line for each choice of cordoned nodes of which one would take pods that fit nowhere now."""
    alike: dict[object, list[PodInfo]] = {}
    for pod in waiting:
        key = (tuple(sorted(pod.requests.items())), pod.constraints, pod.gpu, pod.priority)
        alike.setdefault(key, []).append(pod)
    choices: dict[str, list[PodInfo]] = {}
    for pods in alike.values():
        if (names := to_uncordon(snapshot, pods[0])) and not filter_nodes(snapshot, pods[0]).fits.any():
            choices.setdefault(any_of(names), []).extend(pods)
    for nodes, pods in choices.items():
        yield f"before you buy: uncordoning {nodes} would let {any_of([pod.key for pod in pods])} in now"


# ---------------------------------------------------------------- what runs


def nodes_for_running(dump: ClusterDump) -> RunningRow:
    """Return the fewest of the cluster's nodes that would hold its GPU pods; pods without GPUs are left out.

    Pods that are on every node (DaemonSets, static ones) stay there and take their part.
    """
    held = [pod for pod in dump.pods if pod.holds]
    fixed = [pod for pod in held if _everywhere(dump, pod)]
    running = [pod for pod in held if pod.gpu.count and pod.gpu.whole and not _everywhere(dump, pod)]
    nodes = [replace(node, unschedulable=False) for node in dump.nodes]
    snapshot = Snapshot.of(nodes, fixed)
    again = [replace(pod, node_name="", phase=Phase.PENDING, nominated_node="", group=None) for pod in running]
    problem = PackingProblem.of(snapshot, again)
    demands, masks, _ = _demands(problem)
    alike = Counter(
        (tuple(problem.free[:, row].tolist()), tuple(problem.masks[masks, row].tolist()), int(problem.gpus_total[row]))
        for row in range(len(problem))
    )
    shapes = [Shape(free, accepts, gpus, limit) for (free, accepts, gpus), limit in alike.items()]
    found = fewest_nodes(Stock(demands, shapes), _RUNNING_LIMIT)
    nodes_needed = None if any(found.unplaced) else sum(found.nodes)
    in_use = len({pod.node_name for pod in running})
    return {"nodes": nodes_needed, "in_use": in_use, "status": str(found.status), "bound": found.bound}
