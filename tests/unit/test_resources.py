from __future__ import annotations

import pytest

from extender.packing.resources import (
    BASE_RESOURCES,
    MAX_AMOUNT,
    QuantityError,
    ResourceAxis,
    capped_sum,
    parse_quantity,
    scale_of,
)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("0", 0),
        ("-0", 0),
        (".5", 1),  # rounded up
        ("5.", 5),
        ("0.1", 1),
        ("1n", 1),
        ("999999999n", 1),
        ("1000000001n", 2),
        ("1u", 1),
        ("12E", 9_223_372_036_854_775_807),  # 12 * 10^18 is above 2^63 - 1
        ("8Ei", MAX_AMOUNT),
        ("1e-3", 1),
        ("1e+3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e999999999", MAX_AMOUNT),
        ("1e-999999999", 1),
        ("0e999999999", 0),
        ("23546372096m", 23_546_373),  # 23,546,372.096, as the vertical pod autoscaler writes memory
        ("1.5Gi", 3 * 2**29),
        ("-1500m", -1),  # rounded up: towards zero
        (3, 3),
        (2.5, 3),
        (1e30, MAX_AMOUNT),
        (None, 0),
    ],
)
def test_quantities_are_rounded_up_and_capped(value, amount):
    assert parse_quantity(value) == amount


@pytest.mark.parametrize(
    "value",
    ["", " ", "1 ", "1K", "1ki", "1KI", "m", "1e", "1e1.5", "1eE", "1.2.3", "--1", "+-1", "0x8", "1_000", "٣", "inf"],
)
def test_other_texts_are_no_quantities(value):
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(value)


@pytest.mark.parametrize(
    ("value", "meant"),
    [("64GB", "64Gi"), ("40g", "40Gi"), ("2 TiB", "2Ti"), ("512mb", "512Mi"), ("8K", ""), ("eight", ""), ("8 B", "")],
)
def test_an_amount_of_bytes_as_people_write_it_is_told_what_was_meant(value, meant):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(value)
    assert str(caught.value) == f"{value!r} is not a quantity" + (f" (did you mean {meant}?)" if meant else "")


@pytest.mark.parametrize("value", [True, [8], {"v": 8}, float("nan"), float("inf"), b"8"])
def test_other_types_are_no_quantities(value):
    with pytest.raises(QuantityError):
        parse_quantity(value)


def test_a_long_text_is_quoted_in_part():
    with pytest.raises(QuantityError) as caught:
        parse_quantity("x" * 10_000)
    assert len(str(caught.value)) < 80


def test_cpu_is_counted_in_thousandths():
    assert parse_quantity("100m", scale=scale_of("cpu")) == 100
    assert parse_quantity("0.0001", scale=scale_of("cpu")) == 1
    assert scale_of("memory") == 1


def test_sums_stay_within_64_bits():
    assert capped_sum(MAX_AMOUNT, 1) == MAX_AMOUNT
    assert capped_sum(2, 3) == 5


def test_an_axis_starts_with_the_base_four_and_sorts_the_rest():
    axis = ResourceAxis.of(["nvidia.com/gpu", "amd.com/gpu", "cpu"])
    assert axis.names == (*BASE_RESOURCES, "amd.com/gpu", "nvidia.com/gpu")
    assert axis.index["amd.com/gpu"] == 4
    assert len(axis) == 6
    assert axis.covers(["cpu", "amd.com/gpu"])
    assert not axis.covers(["cpu", "example.com/gpu"])
