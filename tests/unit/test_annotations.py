from __future__ import annotations

import json

import pytest

from extender.packing.gpu import GpuRequest
from extender.packing.selectors import NodeConstraints, Operator, Requirement, Term, Toleration
from extender.packing.types import GroupRef
from tests.apiobjects import TERM, affinity, annotated, listing, node, pod, read, spec

# ---------------------------------------------------------------- annotations of Kubernetes 1.5

OLD = "scheduler.alpha.kubernetes.io"


def test_old_affinity_counts_when_the_spec_has_none():
    old = {f"{OLD}/affinity": json.dumps(affinity({"nodeSelectorTerms": [TERM]}))}
    assert annotated(old).constraints.affinity == (Term((Requirement("a", Operator.IN, ("1",)),)),)
    data = spec(affinity={})
    data["metadata"]["annotations"] = old
    assert pod(data).constraints.affinity is None


def test_old_tolerations_count_when_the_spec_has_none():
    old = {f"{OLD}/tolerations": '[{"key":"gpu","operator":"Exists"}]'}
    assert annotated(old).constraints.tolerations == (Toleration("gpu", exists=True),)
    data = spec(tolerations=[{"key": "k"}])
    data["metadata"]["annotations"] = old
    assert pod(data).constraints.tolerations == (Toleration("k"),)


@pytest.mark.parametrize("name", ["affinity", "tolerations"])
@pytest.mark.parametrize("text", ["{", "[1]", "7", '{"nodeAffinity": []}', '"x"'])
def test_a_broken_old_annotation_is_said_and_ignored(name, text):
    said: list[str] = []
    assert annotated({f"{OLD}/{name}": text}, said.append).constraints == NodeConstraints()
    assert len(said) == 1
    assert said[0].startswith(f"pod ml/p: annotation {OLD}/{name} is ignored: ")


DEEP = '{"x":' + "[" * 5000 + "]" * 5000 + "}"


@pytest.mark.parametrize(("name", "text"), [("affinity", DEEP), ("tolerations", f"[{DEEP}]"), ("taints", f"[{DEEP}]")])
def test_an_old_annotation_nested_too_deeply_is_said_once_and_ignored(name, text):
    said: list[str] = []
    meta = {"name": "x", "namespace": "ml", "annotations": {f"{OLD}/{name}": text}}
    if name == "taints":
        assert node({"metadata": meta}, said.append).taints == ()
    else:
        assert pod({"metadata": meta}, said.append).constraints == NodeConstraints()
    assert [line.partition(": ")[2] for line in said] == [
        f"annotation {OLD}/{name} is ignored: it is nested too deeply"
    ]


# ---------------------------------------------------------------- our annotations


def test_wishes():
    gpu = annotated(
        {
            "gpu-extender.io/types": "H100,any=3",
            "gpu-extender.io/min-memory": "40Gi",
            "gpu-extender.io/min-cuda": "12.4",
            "gpu-extender.io/min-compute": "8",
        }
    ).gpu
    assert [(wish.name, wish.penalty) for wish in gpu.types] == [("H100", 0.0), ("any", 3.0)]
    assert (gpu.min_memory_mib, gpu.min_cuda, gpu.min_compute) == (40_960, (12, 4), (8, 0))


@pytest.mark.parametrize(("text", "mib"), [("80G", 76_294), ("1Mi", 1), ("1048577", 2), ("1Ti", 2**20)])
def test_minimum_memory_is_in_bytes_and_rounded_up(text, mib):
    assert annotated({"gpu-extender.io/min-memory": text}).gpu.min_memory_mib == mib  # 80e9 / 2^20 = 76,293.9


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("types", "H100,,A100"),
        ("types", "x" * 64),  # no label's value is as long
        ("types", ",".join(["any"] * 65)),
        ("min-memory", "lots"),
        ("min-memory", "81559"),  # MiB are meant, bytes are said
        ("min-memory", "-1"),
        ("min-cuda", "twelve"),
        ("min-compute", "sm_80"),
    ],
)
def test_a_faulty_wish_is_said_once_and_ignored(name, text):
    said: list[str] = []
    gpu = annotated(
        {f"gpu-extender.io/{name}": text, "gpu-extender.io/min-cuda": "12" if name != "min-cuda" else text}, said.append
    ).gpu
    assert gpu.min_cuda == (None if name == "min-cuda" else (12, 0))
    assert (gpu.types, gpu.min_memory_mib, gpu.min_compute) == ((), None, None)
    assert len(said) == 1
    assert said[0].startswith(f"pod ml/p: annotation gpu-extender.io/{name} is ignored: ")
    assert len(said[0]) < 250


@pytest.mark.parametrize(
    ("text", "meant"), [("40GB", "40Gi"), ("40 gib", "40Gi"), ("1.5tb", "1.5Ti"), ("512MB", "512Mi")]
)
def test_memory_as_people_write_it_is_said_with_what_was_meant(text, meant):
    said: list[str] = []
    annotated({"gpu-extender.io/min-memory": text}, said.append)
    (line,) = said
    assert line.startswith("pod ml/p: annotation gpu-extender.io/min-memory is ignored: ")
    assert line.endswith(
        f"{text!r} is not a quantity (did you mean {meant}?); write bytes as 40Gi (2^30) or 40G (10^9)"
    )


def test_wishes_of_a_pod_without_gpus_are_none():
    data = spec({"cpu": "1"})
    data["metadata"]["annotations"] = {"gpu-extender.io/types": ",,"}
    assert pod(data).gpu == GpuRequest()


# ---------------------------------------------------------------- gangs


@pytest.mark.parametrize(
    ("labels", "annotations", "group"),
    [
        ({}, {}, None),
        ({"batch.kubernetes.io/job-name": "j"}, {}, None),
        ({"scheduling.x-k8s.io/pod-group": "a"}, {}, ("a", None)),
        (
            {"pod-group.scheduling.sigs.k8s.io": "a", "pod-group.scheduling.sigs.k8s.io/min-available": "3"},
            {},
            ("a", 3),
        ),
        ({"pod-group.scheduling.sigs.k8s.io/name": "a"}, {}, ("a", None)),
        ({}, {"scheduling.k8s.io/group-name": "a"}, ("a", None)),
        ({"kueue.x-k8s.io/pod-group-name": "a"}, {"kueue.x-k8s.io/pod-group-total-count": "2"}, ("a", 2)),
        ({"kueue.x-k8s.io/pod-group-name": "a"}, {"kueue.x-k8s.io/pod-group-total-count": "two"}, ("a", None)),
        ({"kueue.x-k8s.io/pod-group-name": "a"}, {"kueue.x-k8s.io/pod-group-total-count": "0"}, ("a", None)),
        ({"jobset.sigs.k8s.io/jobset-name": "a", "batch.kubernetes.io/job-name": "a-workers-0"}, {}, ("a", None)),
        ({"training.kubeflow.org/job-name": "a"}, {}, ("a", None)),
        ({"ray.io/cluster": "a"}, {}, ("a", None)),
        # what a scheduler places together stands before what owns the pods
        ({"ray.io/cluster": "owner"}, {"scheduling.k8s.io/group-name": "gang"}, ("gang", None)),
        ({"jobset.sigs.k8s.io/jobset-name": "owner", "scheduling.x-k8s.io/pod-group": "gang"}, {}, ("gang", None)),
    ],
)
def test_markers_of_gangs(labels, annotations, group):
    data = spec()
    data["metadata"] |= {"labels": labels, "annotations": annotations}
    assert pod(data).group == (None if group is None else GroupRef("ml", *group))


def test_the_field_of_kubernetes_itself_comes_first():
    data = spec(schedulingGroup={"podGroupName": "own"})
    data["metadata"]["labels"] = {"ray.io/cluster": "other"}
    assert pod(data).group == GroupRef("ml", "own")


# ---------------------------------------------------------------- keys that look like ours


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gpu-extender.io/type", "; did you mean the annotation gpu-extender.io/types?"),
        ("gpu-extender.io/min_memory", "; did you mean the annotation gpu-extender.io/min-memory?"),
        ("gpu-extender.io/Min-CUDA", "; did you mean the annotation gpu-extender.io/min-cuda?"),
        ("gpu-extender/min-compute", "; did you mean the annotation gpu-extender.io/min-compute?"),
        ("gpu-extender.io/moveable", "; did you mean the annotation gpu-extender.io/movable?"),
        ("gpu-extender.io/colour", ""),
    ],
)
def test_a_misspelt_wish_is_said_with_what_was_meant(key, meant):
    said: list[str] = []
    known = {"other.io/types": "y", "gpu-extender.io/movable": "true", "gpu-extender.io/last-checkpoint": "x"}
    assert annotated({key: "x", **known}, said.append).gpu.types == ()
    assert said == [f"pod ml/p: annotation {key} is ignored: none of ours has that name{meant}"]


def test_a_wish_among_the_labels_is_said():
    said: list[str] = []
    meta = {"name": "p", "namespace": "ml", "labels": {"gpu-extender.io/types": "H100"}}
    pod({**spec(), "metadata": meta}, said.append)
    words = "is ignored: ours are annotations; did you mean the annotation gpu-extender.io/types?"
    assert said == [f"pod ml/p: label gpu-extender.io/types {words}"]


def test_a_wish_on_a_node_is_said():
    meta = {"name": "n", "annotations": {"gpu-extender.io/types": "H100"}, "labels": {"gpu-extender.io/model": "H100"}}
    said = read(listing({"kind": "Node", "metadata": meta})).warnings
    words = "is ignored: ours stand on pods; what GPUs a node has is read from its labels"
    assert said == (
        f"node n: annotation gpu-extender.io/types {words}",
        f"node n: label gpu-extender.io/model {words}",
    )
