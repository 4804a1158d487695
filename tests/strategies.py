"""Hypothesis strategies for core values: small worlds with every odd thing a cluster can hold.

Labels that parse as integers or nearly do, taints, cordons, zero and absent amounts, several GPU resources on one node,
shared nodes, unknown models, pods bound to nodes that are gone, overcommitted nodes, nominated and gated pods.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from extender.packing.gpu import GpuModel, GpuRequest, parse_ladder, primary
from extender.packing.selectors import NodeConstraints, Operator, Requirement, Taint, Term, Toleration
from extender.packing.snapshot import Snapshot
from extender.packing.types import NodeInfo, Phase, PodInfo
from tests.oracle import World

NVIDIA, AMD, MIG = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"
GPU_RESOURCES = (NVIDIA, AMD, MIG)
KEYS = ("gen", "zone", "nvidia.com/gpu.product")
VALUES = ("7", "007", "08", "8", "-3", "x1", "5.0", "", "99999999999999999999", "Tesla K80", "T4")
NODE_NAMES = ("n1", "n2", "n3", "n10", "gpu-a", "gpu-b")

MODELS = st.sampled_from(
    (
        GpuModel("NVIDIA-A100-SXM4-80GB", memory_mib=81920, cuda=(12, 2), compute=(8, 0)),
        GpuModel("NVIDIA-A100-SXM4-80GB", memory_mib=81920, cuda=(11, 4), compute=(8, 0)),
        GpuModel("NVIDIA-H100-80GB-HBM3", memory_mib=81559, cuda=(12, 4), compute=(9, 0)),
        GpuModel("Tesla-T4", memory_mib=15360),
        GpuModel(None),
        GpuModel("NVIDIA-A100-SXM4-80GB-SHARED", exclusive=False, whole=False),
        GpuModel("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", whole=False),
    )
)
TAINTS = st.builds(
    Taint,
    st.sampled_from(("gpu", "node.kubernetes.io/unschedulable", "team")),
    st.sampled_from(("", "a")),
    st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule", "Odd")),
)
TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(("", "gpu", "node.kubernetes.io/unschedulable", "team")),
    exists=st.booleans(),
    value=st.sampled_from(("", "a")),
    effect=st.sampled_from(("", "NoSchedule", "NoExecute")),
)
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from((*Operator, None)),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
FIELDS = st.builds(
    Requirement,
    st.sampled_from(("metadata.name", "metadata.name", "metadata.uid")),
    st.sampled_from((Operator.IN, Operator.NOT_IN, Operator.EXISTS)),
    st.lists(st.sampled_from((*NODE_NAMES, "")), max_size=2).map(tuple),
)
TERMS = st.builds(Term, st.lists(REQUIREMENTS, max_size=2).map(tuple), st.lists(FIELDS, max_size=1).map(tuple))
TOLERANT = NodeConstraints(tolerations=(Toleration(exists=True),))
CONSTRAINTS = st.one_of(
    st.just(NodeConstraints()),
    st.builds(
        NodeConstraints,
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1).map(
            lambda d: tuple(sorted(d.items()))
        ),
        st.none() | st.lists(TERMS, max_size=2).map(tuple),
        st.lists(TOLERATIONS, max_size=2).map(tuple),
    ),
    st.just(TOLERANT),
)
LADDERS = st.sampled_from((*[None] * 6, "A100", "H100,any", "T4,A100=5", "B200", "K80,P100,V100,L4,T4", "any"))
RARELY = st.integers(0, 5).map(lambda number: number == 5)
GIB = 2**30


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeInfo:
    """Draw a node of that name; every other one is in order and has room."""
    if draw(st.booleans()):
        return _plain_node(name, draw(MODELS), draw(st.sampled_from((8, 4, 2, 16))))
    allocatable = {
        "cpu": draw(st.sampled_from((96_000, 128_000, 256_000, 4_000, 96_000, 0, 500, 96_000))),
        "memory": draw(st.sampled_from((1024 * GIB, 1024 * GIB, 64 * GIB + 12_345, 0, 1024 * GIB, GIB))),
        "pods": draw(st.sampled_from((110, 110, 110, 3, 1, 0))),
    }
    gpus = draw(st.dictionaries(st.sampled_from((NVIDIA, NVIDIA, NVIDIA, AMD, MIG)), MODELS, max_size=2))
    allocatable |= {resource: draw(st.sampled_from((8, 4, 2, 8, 16, 7, 1, 0))) for resource in gpus}
    withdrawn = draw(st.integers(0, 2)) if gpus else 0
    return NodeInfo(
        name,
        draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)),
        allocatable,
        {r: amount + withdrawn * (r in gpus) for r, amount in allocatable.items()},
        (draw(TAINTS),) if draw(RARELY) else (),
        draw(RARELY),
        not draw(RARELY),
        gpus,
    )


def _plain_node(name: str, model: GpuModel, gpus: int) -> NodeInfo:
    amounts = {"cpu": gpus * 12_000, "memory": gpus * 64 * GIB, "pods": 110, NVIDIA: gpus}
    labels = {"nvidia.com/gpu.product": model.label} if model.label else {}
    return NodeInfo(name, labels, amounts, amounts, gpus={NVIDIA: model})


@st.composite
def requests(draw: st.DrawFn) -> dict[str, int]:
    """Draw an effective request; a zero now and then, though converters leave zeros out."""
    return {
        resource: draw(amounts)
        for resource, amounts in {
            "cpu": st.sampled_from((2_000, 100, 12_000, 500, 0, 96_000)),
            "memory": st.sampled_from((GIB, 10 * GIB, 0, 100 * GIB)),
            "ephemeral-storage": st.sampled_from((1, GIB)),
            NVIDIA: st.sampled_from((1, 1, 2, 4, 8, 0)),
            AMD: st.sampled_from((1, 2)),
            MIG: st.just(1),
        }.items()
        if draw(RARELY) == (resource in {"ephemeral-storage", AMD, MIG})
    }


@st.composite
def gpu_requests(draw: st.DrawFn, asked: dict[str, int]) -> GpuRequest:
    """Draw the GPU side of a request: the wishes are free, the rest follows."""
    resource, count, whole = primary(asked, [(r, r != MIG, True) for r in GPU_RESOURCES if r in asked])
    ladder = draw(LADDERS) if count else None
    return GpuRequest(
        resource,
        count,
        whole,
        tuple(sorted((r, n) for r, n in asked.items() if r in GPU_RESOURCES and r != resource and n)),
        parse_ladder(ladder) if ladder else (),
        16_000 if count and draw(RARELY) else None,
        (12, 0) if count and draw(RARELY) else None,
    )


@st.composite
def pods(draw: st.DrawFn, uid: str, node_names: tuple[str, ...] = NODE_NAMES) -> PodInfo:
    """Draw a pod: waiting, or bound to a node that may be gone and is not asked for room."""
    asked = draw(requests())
    node_name = draw(st.sampled_from(("", *node_names, *node_names)))
    phases = (
        (Phase.RUNNING, Phase.RUNNING, Phase.PENDING, Phase.SUCCEEDED) if node_name else (Phase.PENDING, Phase.FAILED)
    )
    return PodInfo(
        uid,
        "ml",
        f"pod-{uid}",
        asked,
        draw(gpu_requests(asked)),
        draw(CONSTRAINTS),
        priority=draw(st.integers(0, 2)),
        phase=draw(st.sampled_from(phases)),
        node_name=node_name,
        nominated_node="" if node_name else draw(st.sampled_from(("", "", *node_names))),
        terminating=draw(RARELY),
        gated=not node_name and draw(RARELY),
        refused=not node_name and draw(st.booleans()),
    )


@st.composite
def waiting_pods(draw: st.DrawFn, uid: str = "asked") -> PodInfo:
    """Draw a pod that is being scheduled; every other one asks for little, anywhere."""
    if draw(st.booleans()):
        gpus = draw(st.sampled_from((1, 2, 4, 0)))
        asked = {"cpu": 2_000 * max(1, gpus), **({NVIDIA: gpus} if gpus else {})}
        gpu = GpuRequest(NVIDIA, gpus, whole=True) if gpus else GpuRequest()
        return PodInfo(uid, "ml", f"pod-{uid}", asked, gpu, TOLERANT)
    pod = draw(pods(uid, node_names=()))
    return replace(pod, phase=Phase.PENDING, terminating=False, gated=False)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw nodes, pods and bookings."""
    names = draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1))
    found = [draw(nodes(name)) for name in names]
    others = [draw(pods(f"u{i}")) for i in range(draw(st.integers(0, 8)))]
    resources = st.sampled_from(sorted({r for n in found for r in n.allocatable}))
    booked = draw(st.dictionaries(st.tuples(st.sampled_from(names), resources), st.integers(0, 4), max_size=2))
    return World(found, others, booked)


def snapshot_of(world: World) -> Snapshot:
    """Lay a world out."""
    snapshot = Snapshot.of(world.nodes, world.pods)
    if not world.booked:
        return snapshot
    booked = np.zeros_like(snapshot.used)
    for (name, resource), amount in world.booked.items():
        booked[snapshot.table.axis.index[resource], snapshot.table.index[name]] = amount
    return snapshot.with_booked(booked)
