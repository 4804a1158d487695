"""GPU nodes of today, live: labels of GPU Feature Discovery, the wishes of our annotations, MIG and shared GPUs."""

import pytest

from controlplane.counting import name_of
from controlplane.objects import A100, H100, L40S, PRODUCT, T4, gfd_node, mig_node, needs_model, node, pod, shared_node
from tests.e2e.scenarios import running, wait_agreed, wait_allocated, wait_event

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MIG = "nvidia.com/mig-1g.10gb"
WITH_MIG = {
    "    managedResources:\n": f"    managedResources:\n      - name: {MIG}\n        ignoredByScheduler: false\n"
}
TYPES, MIN_MEMORY = "gpu-extender.io/types", "gpu-extender.io/min-memory"
MIN_CUDA, MIN_COMPUTE = "gpu-extender.io/min-cuda", "gpu-extender.io/min-compute"


def wish(name, gpus=1, **wishes):
    keys = {"types": TYPES, "memory": MIN_MEMORY, "cuda": MIN_CUDA, "compute": MIN_COMPUTE}
    return pod(name, gpus, annotations={keys[key]: value for key, value in wishes.items()})


def place(cluster, *pods):
    """Create pods one after the other, each bound before the next; return the models' nodes by pod."""
    where: dict[str, str] = {}
    for one in pods:
        where |= cluster.wait_bound(cluster.create_pods([one]))
    return where


def four_models():
    return [gfd_node("h100", H100), gfd_node("a100", A100), gfd_node("l40s", L40S, 4), gfd_node("t4", T4, 4)]


@pytest.mark.parametrize("minor", ["1.37", "1.29"])
def test_wishes_are_kept(plane, cluster, tmp_path, minor):
    cluster.create_nodes([*four_models(), node("cpu-only")])
    with running(plane, cluster, tmp_path, minor) as (extender, _):
        where = place(
            cluster,
            wish("by-type", types="L40S"),
            wish("by-memory", memory="79Gi", types="A100,L40S,T4"),
            wish("by-compute", compute="9.0"),
            wish("by-either", types="T4,L40S"),
            pod("by-label", 1, affinity=needs_model(T4.product, L40S.product)),
            pod("by-selector", 1, nodeSelector={PRODUCT: H100.product}),
        )
        assert where.pop("by-label") in {"t4", "l40s"}
        assert where == {
            "by-type": "l40s",
            "by-memory": "a100",
            "by-compute": "h100",
            "by-either": "t4",
            "by-selector": "h100",
        }
        wait_agreed(extender, cluster)
        # 13.0 is what the driver of every node runs.
        cluster.create_pods([wish("too-new", cuda="13.1"), wish("unknown", types="B300")])
        assert "4 CUDA" in wait_event(cluster, "too-new", "CUDA")
        assert "GPU model Tesla-T4 is not one of B300" in wait_event(cluster, "unknown", "B300")


def test_a_ladder_of_types_is_climbed_down_step_by_step(plane, cluster, tmp_path):
    cluster.create_nodes(four_models())
    with running(plane, cluster, tmp_path):
        # As often as there is room: 8 H100 in two halves, then 8 A100, then 4 of either of the rest.
        pods = [wish(f"half-{n}", 4, types="H100,A100,any") for n in range(6)]
        where = place(cluster, *pods)
        order = [where[name_of(one)] for one in pods]
        assert order[:4] == ["h100", "h100", "a100", "a100"]
        assert set(order[4:]) == {"l40s", "t4"}


def test_a_ladder_may_end_before_the_last_model(plane, cluster, tmp_path):
    cluster.create_nodes(four_models())
    with running(plane, cluster, tmp_path):
        place(cluster, wish("first", 8, types="H100,A100"), wish("second", 8, types="H100,A100"))
        cluster.create_pods([wish("third", 4, types="H100,A100")])
        text = wait_event(cluster, "third", "is not one of")
        # The scheduler counts: two nodes are full; the other two have room and the wrong model.
        assert "2 Insufficient nvidia.com/gpu" in text
        assert "1 GPU model NVIDIA-L40S is not one of" in text
        assert "1 GPU model Tesla-T4 is not one of" in text


def test_whole_gpus_slices_and_shared_ones_live_side_by_side(plane, cluster, tmp_path):
    cluster.create_nodes([
        gfd_node("whole-0"), gfd_node("whole-1"), mig_node("cut", _1g__10gb=14), shared_node("shared", T4, 4, 4),
    ])  # fmt: skip
    with running(plane, cluster, tmp_path, changes=WITH_MIG) as (extender, recorder):
        slices = [pod(f"slice-{n}", 1, MIG) for n in range(14)]
        where = cluster.wait_bound(cluster.create_pods(slices))
        assert set(where.values()) == {"cut"}
        # An exclusive GPU of a model is never a share of one, whoever asks by our annotation.
        where = place(cluster, wish("exclusive", types="H100"), pod("eight", 8), wish("seven", 7, types="H100"))
        assert where["eight"] != where["exclusive"] == where["seven"]
        assert set(where.values()) == {"whole-0", "whole-1"}
        cluster.create_pods([wish("not-shared", types="T4"), pod("slice-too-many", 1, MIG)])
        assert "SHARED" in wait_event(cluster, "not-shared", "GPU model")
        assert f"Insufficient {MIG}" in wait_event(cluster, "slice-too-many", "Insufficient")
        # Those who name the label get what they name.
        shared = pod("shared", 1, nodeSelector={PRODUCT: f"{T4.product}-SHARED"})
        assert place(cluster, shared) == {"shared": "shared"}
        # 1 + 8 + 7 GPUs handed out whole; a share and a slice are counted, but not as those.
        wait_allocated(extender, 16, H100.product)
        for model, count in {f"{T4.product}-SHARED": 1, f"{H100.product}-MIG-1g.10gb": 14}.items():
            wait_allocated(extender, count, model, "gpu_slices")
        assert {call.status for call in recorder.calls} == {200}


def test_a_cordoned_node_and_a_shrinking_one_are_believed(plane, cluster, tmp_path):
    cluster.create_nodes([gfd_node("a"), gfd_node("b"), gfd_node("c")])
    with running(plane, cluster, tmp_path) as (extender, _):
        cluster.patch_node("a", {"spec": {"unschedulable": True}})
        # The device plugin of b has lost six GPUs.
        cluster.patch_node_status("b", {"allocatable": {"nvidia.com/gpu": "2"}})
        where = cluster.wait_bound(cluster.create_pods([pod("eight", 8), pod("two", 2)]))
        assert where == {"eight": "c", "two": "b"}
        cluster.create_pods([pod("four", 4)])
        text = wait_event(cluster, "four", "unschedulable")
        assert "1 node(s) were unschedulable" in text
        assert "2 Insufficient nvidia.com/gpu" in text
        cluster.patch_node("a", {"spec": {"unschedulable": None}})
        assert cluster.wait_bound([pod("four", 4)], 20) == {"four": "a"}
        wait_agreed(extender, cluster)
