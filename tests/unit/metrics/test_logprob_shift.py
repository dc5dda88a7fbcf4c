"""Shifts of logprobs are those of numpy's correlation coefficients, one sample at a time."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.metrics.engine.ragged import ragged_fields
from rlpanel.metrics.logged_arrays import shift_columns, shifts

DRAW = np.random.default_rng(5)


def expected(x: np.ndarray, y: np.ndarray) -> float:
    """The better lagged correlation minus the one without lag."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if len(x) < 8 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    same, left, right = (np.corrcoef(*pair)[0, 1] for pair in ((x, y), (x[:-1], y[1:]), (x[1:], y[:-1])))
    return float(max(left, right) - same)


def pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    """Equal, shifted and unrelated arrays of many lengths."""
    found = []
    for length in (8, 9, 30, 500, 7, 1, 12):
        x = -DRAW.exponential(size=length)
        noise = DRAW.normal(0, 0.01, length)
        found += [
            (x, x + noise),
            (x, np.roll(x, 1) + noise),
            (x, np.roll(x, -1) + noise),
            (x, -DRAW.exponential(size=length)),
        ]
    return found


def flat(samples: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = (np.concatenate(part) for part in zip(*samples, strict=True))
    return x, y, np.array([len(a) for a, _ in samples])


def test_shifts_are_differences_of_correlations() -> None:
    samples = pairs()
    found = shifts(*flat(samples))
    np.testing.assert_allclose(found, [expected(*pair) for pair in samples], atol=1e-9)
    assert (found[:4] > 0.5).tolist() == [False, True, True, False]
    assert found[12] < -0.8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_tokens_that_are_not_finite_in_both_are_left_out(bad: float) -> None:
    samples = [(x.copy(), y.copy()) for x, y in pairs()]
    for row, (x, y) in enumerate(samples):
        if row % 3:
            (x, y)[row % 2][0] = bad
    samples.append((np.full(20, bad), np.full(20, -1.0)))
    np.testing.assert_allclose(shifts(*flat(samples)), [expected(*pair) for pair in samples], atol=1e-9)


def test_a_constant_array_has_no_shift() -> None:
    x = -DRAW.exponential(size=10)
    constants = [np.full(10, value) for value in (0.0, -0.1, -1 / 3, -123.456)]
    samples = [pair for one in constants for pair in ((x, one), (one, x), (one, one))]
    assert np.isnan(shifts(*flat(samples))).all()
    # An array that is constant but for its end has no correlation at one of the lags.
    step = np.append(np.zeros(9), -1.0)
    assert np.isfinite(shifts(*flat([(x, step)]))).all()


def test_columns_compare_with_the_engine_and_the_reference() -> None:
    x = -DRAW.exponential(size=20)
    fields = ragged_fields(
        [
            {"logprobs": x, "rollout_logprobs": np.roll(x, 1), "ref_logprobs": x},
            {"logprobs": x, "rollout_logprobs": x[:-1], "loss_mask": np.zeros(20)},
            {"rollout_logprobs": x, "ref_logprobs": x},
            {"logprobs": x, "rollout_logprobs": x, "loss_mask": np.zeros(20)},
            {},
        ]
    )
    columns = shift_columns(fields)
    engine, reference = columns["engine_shift"], columns["ref_shift"]
    assert np.isfinite(engine).tolist() == [True, False, False, True, False]
    assert np.isfinite(reference).tolist() == [True, False, False, False, False]
    assert (engine[0] > 0.5, engine[3] < -0.5, reference[0] < -0.5) == (True, True, True)


def test_there_is_no_column_without_a_number() -> None:
    x = np.zeros(20)
    assert shift_columns({}) == {}
    assert shift_columns(ragged_fields([{"rollout_logprobs": x}])) == {}
    assert shift_columns(ragged_fields([{"logprobs": x, "rollout_logprobs": x}])) == {}
    assert shift_columns(ragged_fields([{"logprobs": x[:7], "ref_logprobs": x[:7]}])) == {}
