from __future__ import annotations

import pytest

from extender.modelhints import no_such_model
from extender.packing.gpu import model_tokens, short_names, tokens_match
from tests.builders import H100

A100 = "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("H1000", "H100"),
        ("h10", "H100"),
        ("NVIDIA-H100-80GB-HBM4", None),  # answers to no label, and resembles one
        ("A100-80G", "A100-80GB"),
        ("NVDIA-A100", A100),
        ("V100", ""),  # models of their own
        ("H200", ""),
        ("B200", ""),
        ("MI300X", ""),
    ],
)
def test_a_typo_is_told_from_another_model(name, meant):
    words = no_such_model(name, (A100, H100)) or ""
    assert words.startswith(f"no node has GPUs of model {name}, nodes have {A100}, {H100}")
    if meant is not None:
        assert words.endswith(f"; did you mean {meant}?" if meant else H100)


@pytest.mark.parametrize("name", ["H100", "h100-80gb", "A100-80GB", A100])
def test_what_some_node_has_needs_no_words(name):
    assert no_such_model(name, (A100, H100)) is None


@pytest.mark.parametrize("name", ["H100 A100", "L40S A100", "V100;H100", "T4 | H100", "H200 B200"])
def test_a_forgotten_comma_is_said(name):
    assert (no_such_model(name, (A100, H100)) or "").endswith("; separate models by commas")


@pytest.mark.parametrize("name", ["A100 40GB", "H100 MEGA", "TITAN XP"])
def test_models_of_several_words_are_one(name):
    assert "commas" not in (no_such_model(name, (A100, H100)) or "")


def test_nodes_without_labels_are_said():
    assert no_such_model("H100", ()) == "no node has GPUs of model H100, nodes have no label that names one"


@pytest.mark.parametrize("label", [A100, H100, "Tesla-K80", "Tesla T4", "NVIDIA-H100-MEGA-80GB", "x"])
def test_a_model_answers_to_each_of_its_short_names(label):
    assert all(tokens_match(model_tokens(short), model_tokens(label)) for short in short_names(label))
    assert short_names(H100) == (H100, "H100", "H100-80GB", "H100-80GB-HBM3")
