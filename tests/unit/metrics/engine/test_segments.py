"""Reductions over segments, against numpy on one segment at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.segments import Segments, SubSegments

values = st.floats(-1e6, 1e6) | st.sampled_from([np.nan, np.inf, -np.inf])
steps = st.lists(st.lists(values, min_size=1, max_size=8), min_size=1, max_size=5)


def laid_out(runs: list[list[float]]) -> tuple[Segments, np.ndarray]:
    sizes = [len(run) for run in runs]
    return Segments(np.cumsum([0, *sizes[:-1]]), sum(sizes)), np.concatenate(runs)


@given(steps, st.floats(0, 1))
def test_a_quantile_is_that_of_the_finite_values_of_each_segment(runs: list[list[float]], q: float) -> None:
    segments, flat = laid_out(runs)
    finite = [np.array(run)[np.isfinite(run)] for run in runs]
    expected = [np.quantile(run, q) if len(run) else np.nan for run in finite]
    np.testing.assert_allclose(segments.quantile(flat, q), expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_a_quantile_of_groups_follows_their_own_order(q: float) -> None:
    step = Segments(np.array([0]), 6)
    groups = SubSegments(step, np.array([1, 0, 1, 0, 1, 0]))
    numbers = np.array([5.0, 2.0, 9.0, 4.0, 1.0, 3.0])
    expected = [np.quantile([2.0, 4.0, 3.0], q), np.quantile([5.0, 9.0, 1.0], q)]
    np.testing.assert_allclose(groups.quantile(numbers, q), expected)


@pytest.mark.parametrize("value", [0.1, 0.2, 0.7, 1e-30])
def test_the_std_of_equal_values_is_zero_without_rounding_errors(value: float) -> None:
    segments, flat = laid_out([[value] * 3, [value] * 7 + [np.nan]])
    assert segments.std(flat).tolist() == [0, 0]
