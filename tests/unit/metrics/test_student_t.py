"""Student's t quantile, compared with the printed table."""

from __future__ import annotations

import pytest

from rlpanel.metrics.win_rate import Z95, t95

#: Two-sided 95 % points as printed in Fisher and Yates, Statistical Tables, table III.
PRINTED = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
    12: 2.179, 15: 2.131, 20: 2.086, 25: 2.060, 29: 2.045, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980,
}  # fmt: skip


@pytest.mark.parametrize("df", PRINTED)
def test_the_quantile_is_the_printed_one(df: int) -> None:
    assert t95(df) == pytest.approx(PRINTED[df], abs=5.1e-4)


def test_two_degrees_of_freedom_have_a_closed_form() -> None:
    """P(|T| < t) = t / √(2 + t²), so t² = 2 · 0.95² / (1 − 0.95²)."""
    assert t95(2) == pytest.approx((2 * 0.9025 / 0.0975) ** 0.5, rel=1e-12)


def test_many_observations_have_the_normal_quantile() -> None:
    assert Z95 < t95(10_000) < Z95 + 3e-4
    assert t95(10**9) == t95(10_000)
