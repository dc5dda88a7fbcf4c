"""Range of a curve's value axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.plots.value_axis import MIN_SPAN, fit_axis, widen

RISE = np.linspace(0.2, 0.8, 60)


def line(y: object, half: object = None) -> dict[str, np.ndarray]:
    values = np.asarray(y, float)
    if half is None:
        return {"y": values}
    return {"y": values, "lo": values - half, "hi": values + half}


def test_the_axis_holds_the_line_and_little_more() -> None:
    start, end = fit_axis([line(RISE)]) or (0, 0)
    assert start < 0.2 < 0.8 < end
    assert (end - start) < 1.2 * 0.6


def test_one_spike_does_not_flatten_the_rise() -> None:
    spiked = RISE.copy()
    spiked[40] = 1000
    start, end = fit_axis([line(spiked)]) or (0, 0)
    assert 0.8 < end < 2
    assert start < 0.2


def test_a_spike_among_few_values_is_shown() -> None:
    _, end = fit_axis([line([1, 1, 1, 9])]) or (0, 0)
    assert end > 9


def test_a_late_jump_that_lasts_is_no_spike() -> None:
    _, end = fit_axis([line([0.1] * 50 + [5.0] * 5)]) or (0, 0)
    assert end > 5


def test_a_wide_band_gets_some_room_and_leaves_most_to_the_line() -> None:
    start, end = fit_axis([line(RISE, 50)]) or (0, 0)
    assert start < 0.2 - 0.1
    assert (end - start) < 2 * 0.6


def test_a_band_that_leaves_a_third_to_the_line_is_whole() -> None:
    start, end = fit_axis([line(RISE, 0.4)]) or (0, 0)
    assert start < RISE[5] - 0.4
    assert end > RISE[-6] + 0.4
    assert (end - start) < 3 * 0.6


def test_an_interval_of_uncertainty_is_not_cut() -> None:
    start, end = fit_axis([line(RISE, 50)], whole_band=True) or (0, 0)
    assert start < RISE[0] - 45
    assert end > RISE[-1] + 45


def test_a_narrow_band_gets_no_more_room_than_it_needs() -> None:
    narrow, none = fit_axis([line(RISE, 0.01)]), fit_axis([line(RISE)])
    assert narrow == pytest.approx(none, abs=0.05)


def test_a_constant_line_gets_the_room_of_its_band() -> None:
    start, end = fit_axis([line([1.0] * 30, 0.25)]) or (0, 0)
    assert start == pytest.approx(0.75, abs=0.1)
    assert end == pytest.approx(1.25, abs=0.1)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-9])
def test_a_constant_line_without_a_band_is_in_the_middle(value: float) -> None:
    start, end = fit_axis([line([value] * 3)]) or (0, 0)
    assert start < value < end
    assert value - start == pytest.approx(end - value)


def test_without_a_value_there_is_no_axis() -> None:
    assert fit_axis([]) is None
    assert fit_axis([line([]), line([np.nan, np.inf])]) is None
    assert fit_axis([line([0.0, -1.0])], log=True) is None


def test_a_logarithmic_axis_is_positive_and_leaves_out_zero() -> None:
    start, end = fit_axis([line([0.0, 1e-3, 1.0], 0.5)], log=True) or (0, 0)
    assert 0 < start < 1e-3
    assert 1.0 < end < 100


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40))
def test_the_axis_has_a_start_below_its_end(values: list[float]) -> None:
    axis = fit_axis([line(values)])
    assert axis is not None
    assert np.isfinite(axis).all()
    assert axis[0] < axis[1]


@pytest.mark.parametrize("value", [0.65, -3.0, 1e-8, 5.593, 1e6])
def test_an_axis_never_shows_the_noise_of_floats(value: float) -> None:
    noise = value * (1 + 1e-9 * np.arange(8))
    start, end = fit_axis([line(noise)]) or (0, 0)
    assert end - start >= 0.01 * abs(value)
    assert (start + end) / 2 == pytest.approx(value, rel=1e-6)


def test_the_least_span_of_a_unit_flattens_rounding() -> None:
    start, end = fit_axis([line(np.linspace(1e-8, 2.4e-8, 9))], least=MIN_SPAN["nats"]) or (0, 0)
    assert end - start >= 1e-4
    wide = fit_axis([line([0.1, 0.3])], least=MIN_SPAN["nats"])
    assert wide == fit_axis([line([0.1, 0.3])]), "a wide range keeps its own axis"


def test_a_logarithmic_axis_spans_a_factor_of_two() -> None:
    start, end = fit_axis([line([1.0, 1.0001])], log=True) or (0, 0)
    assert end / start > 2


@given(st.floats(-1e6, 1e6), st.floats(0, 1e-3))
def test_ticks_of_four_digits_differ(low: float, span: float) -> None:
    start, end = widen(low, low + span)
    if start == end:
        return
    power = 10 ** np.floor(np.log10((end - start) / 3))
    interval = min((power * part for part in (1, 2, 5, 10)), key=lambda each: abs((end - start) / each - 3))
    ticks = np.arange(np.ceil(start / interval), np.floor(end / interval) + 1) * interval
    labels = [f"{tick:.4g}" for tick in ticks]
    assert len(set(labels)) == len(labels)
