from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.tokens.metric_rows import MetricRow, build_rows, printable

ARRAYS = {
    "logprobs": np.array([-0.1, -2.0, -0.3]),
    "ref_logprobs": np.array([-0.2, -1.0, -0.3]),
    "values": np.array([0.5, 0.6, 0.7]),
    "token_rewards": np.array([0.0, 0.0, 1.0]),
}


def one_row(values: list[float], tokens: int | None = None) -> MetricRow:
    rows, _ = build_rows({"values": np.array(values)}, len(values) if tokens is None else tokens)
    return rows[0]


def sequential_row(logprobs: list[float], name: str) -> MetricRow:
    rows, _ = build_rows({"logprobs": np.array(logprobs)}, len(logprobs))
    return next(row for row in rows if row.name == name)


def test_rows_stand_in_the_order_they_are_looked_at() -> None:
    rows, _ = build_rows(ARRAYS, 3)
    names = [
        "token_reward",
        "log_ratio",
        "kl_k3",
        "value",
        "logprob",
        "ref_logprob",
        "prob",
        "ref_prob",
        "surprisal",
    ]
    assert [row.name for row in rows] == names


@pytest.mark.parametrize(
    ("estimator", "shown"), [("kl_k2", ["kl_k2"]), ("kl_rllb", ["kl_rllb"]), ("log_ratio", [])]
)
def test_one_estimator_of_kl_is_shown(estimator: str, shown: list[str]) -> None:
    rows, _ = build_rows(ARRAYS, 3, estimator)
    assert [row.name for row in rows if row.name.startswith("kl_")] == shown


def test_a_diverging_scale_is_symmetric_and_sets_one_outlier_aside() -> None:
    row = one_row([0.1, -0.2, 0.3, 9.0])
    assert (row.lo, row.hi) == pytest.approx((-0.3, 0.3))


@pytest.mark.parametrize(
    ("values", "range_"),
    [
        ([1.1, 1.2, 1.3, 1.4], (1.2, 1.3)),
        ([-1.1, -1.2, -1.3, -1.4], (-1.3, -1.2)),
        ([0.1, 0.2, 1.3, 1.4], (-1.3, 1.3)),
        ([-1.1, 1.2, 1.3, 1.4], (-1.3, 1.3)),
    ],
)
def test_a_row_far_on_one_side_of_zero_is_scaled_without_zero(
    values: list[float], range_: tuple[float, float]
) -> None:
    row = one_row(values)
    assert (row.lo, row.hi) == pytest.approx(range_)


def test_a_long_row_is_scaled_by_its_percentiles() -> None:
    values = np.random.default_rng(0).normal(size=5000)
    bound = max(abs(np.percentile(values, 1)), abs(np.percentile(values, 99)))
    assert one_row(list(values)).hi == pytest.approx(bound, rel=0.02)


def test_a_score_at_the_end_of_zeros_keeps_its_colour() -> None:
    assert one_row([0.0, 0.0, 0.0, 1.5]).hi == 1.5


def test_a_sequential_scale_is_pale_where_a_token_was_nearly_certain() -> None:
    logprobs = [-0.001, -0.5, -1.0, -2.0]
    flips = {name: sequential_row(logprobs, name).flip for name in ("logprob", "prob", "surprisal")}
    assert flips == {"logprob": True, "prob": True, "surprisal": False}


def test_what_four_digits_do_not_show_gets_no_colour() -> None:
    assert one_row([1e-7, -2e-7, 1e-7]).hi == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("values", "tokens", "note"),
    [
        ([0.0, 0.0], 2, "all zero: not informative"),
        ([0.25, 0.25], 2, "the same for all tokens (0.25)"),
        ([np.nan, 1.0, np.inf, -np.inf, 2.0], 5, "1 NaN; 1 +inf; 1 -inf"),
        ([np.nan, np.nan], 2, "no finite value; 2 NaN"),
        ([1.0, 2.0], 3, "2 values for 3 tokens"),
        ([1.0, 2.0, 3.0], 2, "3 values for 2 tokens"),
        ([1e-6, 2e-6], 2, "all values within 2e−6 of zero"),
        ([1.0, 2.0], 2, ""),
    ],
)
def test_what_is_odd_about_a_row_is_said(values: list[float], tokens: int, note: str) -> None:
    assert one_row(values, tokens).note == note


def test_metrics_of_unequal_inputs_are_left_out_with_a_word() -> None:
    _, notes = build_rows({"logprobs": np.zeros(3), "ref_logprobs": np.zeros(2)}, 3)
    assert notes == ["log-ratio, KL k3 not shown: 3 logprob values but 2 ref logprob values"]


@pytest.mark.parametrize(
    ("ratios", "range_", "center"),
    [
        ([0.8, 1.0, 1.1, 1.3, 3.0], (0.7, 1.3), 1.0),
        ([2.0, 2.2, 2.3, 2.6], (2.2, 2.3), 2.25),
    ],
)
def test_an_importance_ratio_is_coloured_around_one(
    ratios: list[float], range_: tuple[float, float], center: float
) -> None:
    before = np.full(len(ratios), -1.0)
    rows, _ = build_rows({"logprobs": before + np.log(ratios), "old_logprobs": before}, len(ratios))
    (row,) = [row for row in rows if row.name == "ratio"]
    assert (row.lo, row.hi) == pytest.approx(range_, abs=1e-6)
    assert (row.around, row.center) == (1.0, pytest.approx(center, abs=1e-6))


def test_large_values_print_only_digits_that_float32_carries() -> None:
    assert [one_row([1.5, top]).digits for top in (999.0, 1000.0, 123456.0, 1e9)] == [4, 3, 1, 0]


SIX_DIGITS = st.integers(-900_000_000, 900_000_000).map(lambda n: n / 1e6)


@given(st.lists(SIX_DIGITS | st.floats(-999, 999), min_size=1))
def test_float32_prints_the_digits_of_the_log(values: list[float]) -> None:
    singles = printable(np.array(values), 4)
    assert [f"{float(x):.4f}" for x in singles] == [f"{x:.4f}" for x in values]


def test_nan_and_infinities_stay() -> None:
    np.testing.assert_array_equal(
        printable(np.array([np.nan, np.inf, -np.inf]), 4), [np.nan, np.inf, -np.inf]
    )
