"""Texts of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.number_text import fixed, number, plus_minus, size_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (3, "3"), (1.171875, "1.17"), (-0.0451, "−0.0451"), (13.02, "13.0"),
        (9.996, "10.00"), (99.96, "100.0"), (3840.4, "3,840"), (123456, "123,456"), (999_999.7, "1,000,000"),
        (1e9, "1e9"), (2.346e7, "2.35e7"), (1e-6, "1e−6"), (-2.97e-17, "−2.97e−17"), (0.1 + 0.2, "0.3"),
        (math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_numbers_have_at_most_four_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"), (1.499, "1.50"), (float(np.float32(1.2)), "1.2"), (0.4999, "0.500"),
        (0.00012, "0.00012"), (13.0000001, "13"), (12.96, "13.0"), (0.9999, "1.00"),
    ],
)  # fmt: skip
def test_a_zero_at_the_end_means_that_digits_were_rounded(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer()))
def test_no_fraction_has_more_than_four_digits(value: float) -> None:
    digits = number(value).lstrip("−").split("e")[0]
    whole, _, fraction = digits.partition(".")
    assert not fraction or len(f"{whole}{fraction}".lstrip("0")) <= 4
    assert float(number(value).replace("−", "-").replace(",", "")) == pytest.approx(value, rel=5.1e-3)


def test_only_positive_numbers_get_a_plus_sign() -> None:
    assert [number(value, sign=True) for value in (0.5, 0.0, -0.5)] == ["+0.5", "0", "−0.5"]


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [(0.2, 2.97e-17, "0.2 ± 0"), (0.2, 0.05, "0.2 ± 0.05"), (0.0, 1e-17, "0 ± 1e−17")],
)
def test_a_spread_is_no_rounding_error_of_the_mean(mean: float, spread: float, text: str) -> None:
    assert plus_minus(mean, spread) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1e9, "1,000,000,000"), (-12345678, "−12,345,678"), (1e16, "1e16"), (2.5, "2.5")]
)
def test_whole_numbers_of_a_table_keep_all_digits(value: float, text: str) -> None:
    assert number(value, whole=True) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 kB"), (8_044, "8 kB"), (16_540, "16.5 kB"), (999_600, "1 MB"), (3_140_000, "3.1 MB"),
        (123_456_789, "123 MB"), (999_600_000, "1 GB"), (2e9, "2 GB"), (1.08e12, "1,080 GB"),
    ],
)  # fmt: skip
def test_sizes_have_at_most_one_decimal(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [(-0.654, False, "−0.65"), (-0.004, True, "+0.00"), (2.0, True, "+2.00"), (float("nan"), True, "–")],
)
def test_fixed_decimals_have_the_same_minus(value: float, sign: bool, text: str) -> None:
    assert fixed(value, sign=sign) == text
