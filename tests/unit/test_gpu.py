from __future__ import annotations

import math

import pytest

from extender.packing.gpu import (
    GpuModel,
    GpuRequest,
    Match,
    TypeWish,
    model_tokens,
    parse_ladder,
    primary,
    tokens_match,
)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("NVIDIA-H100-80GB-HBM3", ("h100", "80gb", "hbm3")),
        ("nvidia-h100-mega-80gb", ("h100", "mega", "80gb")),
        ("nvidia-tesla-a100", ("a100",)),
        ("Tesla K80", ("k80",)),
        ("Tesla_K80", ("k80",)),
        ("AMD_Instinct_MI300X_OAM", ("mi300x", "oam")),
        ("NVIDIA  RTX (TM) A6000", ("rtx", "tm", "a6000")),
        ("nvidia", ("nvidia",)),  # a name is never empty
        ("", ()),
    ],
)
def test_names_fold_to_tokens(name, tokens):
    assert model_tokens(name) == tokens


@pytest.mark.parametrize(
    ("wish", "model"),
    [
        ("H100", "NVIDIA-H100-80GB-HBM3"),
        ("h100", "nvidia-h100-80gb"),
        ("H100", "NVIDIA-H100-NVL"),
        ("H100-80GB", "H100_NVLINK_80GB"),
        ("A100", "NVIDIA-A100-SXM4-80GB"),
        ("A100-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("A100-80GB", "NVIDIA-A100-80GB-PCIe"),
        ("a100-sxm4", "A100-SXM4-40GB"),
        ("Tesla-K80", "Tesla K80"),
        ("T4", "Tesla-T4"),
        ("nvidia-tesla-t4", "Tesla-T4"),
        ("RTX 3090", "NVIDIA-GeForce-RTX-3090"),
        ("MI300X", "AMD_Instinct_MI300X_OAM"),
        ("h100-mega-80gb", "nvidia-h100-mega-80gb"),
    ],
)
def test_a_wish_matches_its_model(wish, model):
    assert tokens_match(model_tokens(wish), model_tokens(model))


@pytest.mark.parametrize(
    ("wish", "model"),
    [
        ("H200", "NVIDIA-GH200-480GB"),
        ("GH200", "NVIDIA-H200"),
        ("H20", "NVIDIA-H200"),
        ("H100-80GB", "nvidia-h100-mega-80gb"),
        ("H100-MEGA", "nvidia-h100-80gb"),
        ("A100-80GB", "NVIDIA-A100-SXM4-40GB"),
        ("A100-80GB", "nvidia-tesla-a100"),
        ("A10", "NVIDIA-A10G"),
        ("A100", "NVIDIA-A10"),
        ("L4", "NVIDIA-L40S"),
        ("L40", "NVIDIA-L40S"),
        ("T4", "Tesla-T40"),
        ("GB200", "NVIDIA-B200"),
        ("3090", "NVIDIA-GeForce-RTX-3090"),  # starts with the first token
        ("RTX 3090", "NVIDIA-GeForce-RTX-3080"),
        ("NVIDIA-H100-80GB-HBM3", "nvidia-h100-80gb"),  # says more than the node does
        ("H100", ""),
    ],
)
def test_a_wish_does_not_match_another_model(wish, model):
    assert not tokens_match(model_tokens(wish), model_tokens(model))


def test_a_shared_gpu_is_never_what_was_wished_for():
    request = GpuRequest(types=parse_ladder("A10G"))
    assert request.match(GpuModel("NVIDIA-A10G")) is Match.YES
    assert request.match(GpuModel("NVIDIA-A10G-SHARED", exclusive=False, whole=False)) is Match.WRONG_MODEL


@pytest.mark.parametrize(
    ("limits", "model", "match"),
    [
        ({"min_memory_mib": 40_000}, GpuModel(memory_mib=40_000), Match.YES),
        ({"min_memory_mib": 40_000}, GpuModel(memory_mib=39_999), Match.TOO_LITTLE_MEMORY),
        ({"min_memory_mib": 40_000}, GpuModel("H100"), Match.UNKNOWN_MEMORY),
        ({"min_cuda": (12, 4)}, GpuModel(cuda=(12, 10)), Match.YES),
        ({"min_cuda": (12, 4)}, GpuModel(cuda=(11, 8)), Match.OLD_CUDA),
        ({"min_compute": (8, 0)}, GpuModel(compute=(7, 5)), Match.OLD_COMPUTE),
        # wrong beats unknown
        ({"min_compute": (8, 0), "min_cuda": (12, 0)}, GpuModel(cuda=(11, 0)), Match.OLD_CUDA),
        ({"types": parse_ladder("H100"), "min_memory_mib": 1}, GpuModel(memory_mib=2), Match.UNKNOWN),
        ({}, GpuModel(), Match.YES),
    ],
)
def test_limits(limits, model, match):
    assert GpuRequest("nvidia.com/gpu", 1, whole=True, **limits).match(model) is match


def test_any_takes_every_model_known_or_not():
    request = GpuRequest(types=parse_ladder("H100,any"))
    assert request.match(GpuModel()) is Match.YES
    assert request.match(GpuModel("Tesla-T4")) is Match.YES


def test_a_ladder_gives_each_rung_a_penalty():
    assert parse_ladder("H100, A100 = 5 ,any=0.5") == (
        TypeWish("H100", ("h100",), 0.0),
        TypeWish("A100", ("a100",), 5.0),
        TypeWish("any", (), 0.5),
    )
    assert [wish.penalty for wish in parse_ladder("a,b,c")] == [0.0, 1.0, 2.0]


def test_the_best_rung_that_takes_the_model_counts():
    request = GpuRequest(types=parse_ladder("H100,A100=5,any=2"))
    assert request.penalty(GpuModel("NVIDIA-A100-SXM4-40GB")) == 2.0
    assert request.penalty(GpuModel("NVIDIA-H100-NVL")) == 0.0
    assert GpuRequest(types=parse_ladder("H100")).penalty(GpuModel("Tesla-T4")) == math.inf
    assert GpuRequest().penalty(GpuModel("Tesla-T4")) == 0.0


@pytest.mark.parametrize("text", ["", "H100,", ",H100", "=5", "H100=", "H100=x", "H100=-1", "H100=nan", "H100=inf"])
def test_a_faulty_ladder_is_refused(text):
    with pytest.raises(ValueError, match=r"rung|penalty"):
        parse_ladder(text)


@pytest.mark.parametrize(
    ("requests", "chosen"),
    [
        ({}, ("", 0, False)),
        ({"w": 0}, ("", 0, False)),
        ({"w": 1, "m": 7, "s": 50}, ("w", 1, True)),
        ({"m": 1, "s": 50}, ("m", 1, False)),
        ({"m": 1, "m2": 3}, ("m2", 3, False)),
        ({"w": 1, "v": 1}, ("v", 1, True)),
    ],
)
def test_whole_gpus_before_slices_before_shared_then_the_larger_amount(requests, chosen):
    kinds = [("w", True, True), ("v", True, True), ("m", False, True), ("m2", False, True), ("s", False, False)]
    assert primary(requests, [kind for kind in kinds if kind[0] in requests]) == chosen
