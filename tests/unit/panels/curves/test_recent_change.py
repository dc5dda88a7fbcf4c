"""Change of a value against the steps before it."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.panels.curves.curve_marks import recent_change

NOISY = np.random.default_rng(0).normal(0.5, 0.1, 40)


def test_a_change_within_the_noise_is_not_said() -> None:
    said = [bool(recent_change(NOISY, at).text) for at in range(10, 40)]
    assert np.mean(said) < 0.15, "95 % of the steps of a constant mean lie within two standard deviations"


def test_a_change_beyond_the_noise_is_said_with_its_numbers() -> None:
    values = np.append(NOISY[:20], 1.5)
    found = recent_change(values, 20)
    before = values[10:20]
    noise = 2 * before.std(ddof=1) * np.sqrt(1.1)
    assert (found.mean, found.noise, found.steps) == pytest.approx((before.mean(), noise, 10))
    assert found.text == f"▲ {1.5 - before.mean():.2f}"
    assert "in the 10 steps before" in found.tip
    assert found.text in found.html


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 1.0, 1.0, 0.5], "▼ 0.5"),
        ([0.3, 0.3, 0.3, 0.1 + 0.2], ""),
        ([0.0, 0.0, 0.0, 0.0], ""),
        ([1.0, 1.0, 9.0], ""),
        ([1.0, 1.0, 1.0, np.nan], ""),
        ([np.nan, 1.0, np.nan, 1.0, 1.0, 2.0], "▲ 1"),
    ],
    ids=["down", "rounding", "zero", "two steps have no noise", "missing", "missing before"],
)
def test_a_change_is_no_rounding_error_and_needs_three_steps(values: list[float], text: str) -> None:
    assert recent_change(np.array(values), len(values) - 1).text == text


def test_a_step_that_is_not_there_has_no_value() -> None:
    assert np.isnan(recent_change(NOISY, -1).value)
