from __future__ import annotations

import pytest

from extender.kube.gpurules import GpuRules, ResourceKind, parse_version
from extender.packing.gpu import GpuModel
from extender.settings import Gpus
from tests.apiobjects import GPU, RULES, labelled

# ---------------------------------------------------------------- resource names


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ("nvidia.com/gpu", ResourceKind.WHOLE),
        ("alpha.kubernetes.io/nvidia-gpu", ResourceKind.WHOLE),
        ("amd.com/gpu", ResourceKind.WHOLE),
        ("gpu.intel.com/xe", ResourceKind.WHOLE),
        ("nvidia.com/mig-1g.10gb.me", ResourceKind.SLICE),
        ("nvidia.com/gpu.shared", ResourceKind.SHARED),
        ("nvidia.com/mig-1g.5gb.shared", ResourceKind.SHARED),
        ("gpu.intel.com/monitoring", None),
        ("nvidia.com/gpux", None),
        ("xnvidia.com/gpu", None),
        ("NVIDIA.com/gpu", None),
        ("cpu", None),
    ],
)
def test_which_resources_are_gpus(resource, kind):
    assert RULES.kind(resource) is kind


def test_rules_come_from_the_configuration():
    rules = GpuRules.of(Gpus(resources=("example.com/npu",), model_labels=("example.com/model",)))
    assert rules.kind("nvidia.com/gpu") is None
    assert labelled({"example.com/model": "X1"}, "example.com/npu", rules=rules) == GpuModel("X1")
    assert GpuRules.of(Gpus()) == RULES


def test_no_resources_configured_means_no_gpus():
    assert GpuRules(resources=(), shared_resources=()).kind(GPU) is None


# ---------------------------------------------------------------- GPU models


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({}, None),
        ({"nvidia.com/gpu.product": "Tesla-T4", "cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "Tesla-T4"),
        ({"nvidia.com/gpu.product": "", "cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "nvidia-tesla-t4"),
        ({"alpha.kubernetes.io/nvidia-gpu-name": "Tesla-K80"}, "Tesla-K80"),
        ({"accelerator": "nvidia"}, None),
        ({"accelerator": "NVIDIA"}, None),
        ({"accelerator": "nvidia-tesla-k80"}, "nvidia-tesla-k80"),
        ({"gpu.nvidia.com/class": "", "gpu.nvidia.com/model": "H100_NVLINK_80GB"}, "H100_NVLINK_80GB"),
        ({"gpu.intel.com/product": "Max_1550", "amd.com/gpu.product-name": "MI300X"}, None),  # other vendors
        ({"nvidia.com/gpu": "true", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.clique": "x.1"}, None),
    ],
)
def test_the_first_usable_label_names_the_model(labels, model):
    assert labelled(labels).label == model


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.product": "NVIDIA-A10G-SHARED"},
        {"nvidia.com/gpu.replicas": "10"},
        {"nvidia.com/gpu.sharing-strategy": "time-slicing"},
        {"nvidia.com/gpu.sharing-strategy": "mps"},
        {"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID", "nvidia.com/gpu.replicas": "0"},
        {"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
        {"cloud.google.com/gke-max-shared-clients-per-gpu": "2"},
        {"cloud.google.com/gke-gpu-partition-size": "1g.24gb"},
    ],
)
def test_less_than_a_gpu_is_neither_exclusive_nor_whole(labels):
    model = labelled(labels)
    assert (model.exclusive, model.whole) == (False, False)
    assert model.label == labels.get("nvidia.com/gpu.product")


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"},
        {"nvidia.com/gpu.replicas": "0", "nvidia.com/gpu.sharing-strategy": ""},
        {"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "single"},
        {"cloud.google.com/gke-max-shared-clients-per-gpu": "1"},
    ],
)
def test_a_gpu_that_is_not_shared_is_whole(labels):
    model = labelled(labels)
    assert (model.exclusive, model.whole) == (True, True)


def test_sharing_of_nvidia_says_nothing_about_another_vendor():
    assert labelled({"nvidia.com/gpu.replicas": "10"}, "amd.com/gpu").whole


def test_a_slice_has_labels_of_its_own():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia.com/mig-1g.5gb.memory": "4864",
        "nvidia.com/mig-2g.10gb.replicas": "4",
    }
    slice_ = labelled(labels, "nvidia.com/mig-1g.5gb")
    assert slice_ == GpuModel("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", whole=False, memory_mib=4864, compute=(8, 0))
    shared = labelled(labels, "nvidia.com/mig-2g.10gb")  # its card's model, no memory; replicas make it shared
    assert shared == GpuModel("NVIDIA-A100-SXM4-40GB", exclusive=False, whole=False, compute=(8, 0))
    assert labelled(labels).whole  # the cards that were not cut


def test_a_renamed_shared_resource_is_shared_whatever_its_labels_say():
    model = labelled({"nvidia.com/gpu.product": "NVIDIA-A10G", "nvidia.com/gpu.replicas": "1"}, "nvidia.com/gpu.shared")
    assert model == GpuModel("NVIDIA-A10G", exclusive=False, whole=False)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"amd.com/gpu.product-name": "Instinct_MI300X", "amd.com/gpu.vram": "192G"}, ("Instinct_MI300X", 196_608)),
        ({"beta.amd.com/gpu.product-name.MI50": "2", "beta.amd.com/gpu.vram.16G": "2"}, ("MI50", 16_384)),
        ({"beta.amd.com/gpu.product-name.MI50": "1", "beta.amd.com/gpu.product-name.MI60": "1"}, (None, None)),
    ],
)
def test_amd_labels_new_and_old(labels, expected):
    model = labelled(labels, "amd.com/gpu")
    assert (model.label, model.memory_mib) == expected


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("81559", 81_559),
        ("64G", 65_536),
        ("512M", 512),
        ("40GB", 40_960),
        ("40GiB", 40_960),
        *((text, None) for text in ("0", "", "-5", "40 gigs", "1e3")),
    ],
)
def test_memory_of_a_gpu(text, mib):
    assert labelled({"nvidia.com/gpu.memory": text}).memory_mib == mib


@pytest.mark.parametrize(
    ("labels", "cuda"),
    [
        ({"nvidia.com/cuda.runtime-version.major": "12", "nvidia.com/cuda.runtime-version.minor": "4"}, (12, 4)),
        ({"nvidia.com/cuda.runtime.major": "11", "nvidia.com/cuda.runtime.minor": "8"}, (11, 8)),
        ({"nvidia.com/cuda.runtime.major": "11"}, (11, 0)),
        ({"nvidia.com/cuda.runtime-version": "12.4.1"}, (12, 4)),
        ({"nvidia.com/cuda.runtime-version.major": "x"}, None),
        ({"nvidia.com/cuda.driver-version.major": "550"}, None),  # the driver's own number is no CUDA level
        ({}, None),
    ],
)
def test_cuda_level(labels, cuda):
    assert labelled(labels).cuda == cuda


@pytest.mark.parametrize(
    ("text", "version"), [("8", (8, 0)), (" 12.10 ", (12, 10)), ("", None), ("v1", None), ("1.", None), (".1", None)]
)
def test_versions(text, version):
    assert parse_version(text) == version
