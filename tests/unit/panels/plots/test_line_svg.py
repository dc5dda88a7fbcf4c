"""Lines and bands as SVG."""

from __future__ import annotations

import re

import numpy as np

from rlpanel.panels.plots.plain_plots import line_svg

NAN = np.full(3, np.nan)


def line_of(svg: str) -> list[tuple[float, float]]:
    [points] = re.findall(r'<polyline points="([^"]*)"', svg)
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())]


def test_the_line_goes_from_edge_to_edge_and_up_where_values_rise() -> None:
    points = line_of(line_svg(np.array([10.0, 20, 30]), np.array([0.0, 1, 2]), NAN, NAN, "policy"))
    assert [x for x, _ in points] == [0, 500, 1000]
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)


def test_missing_values_are_left_out_not_drawn_as_zero() -> None:
    points = line_of(line_svg(np.arange(3.0), np.array([5.0, np.nan, 5.0]), NAN, NAN, "policy"))
    assert len(points) == 2
    assert points[0][1] == points[1][1]


def test_without_any_value_there_is_no_drawing() -> None:
    assert line_svg(np.arange(3.0), NAN, NAN, NAN, "policy") == ""
    assert line_svg(np.empty(0), np.empty(0), np.empty(0), np.empty(0), "policy") == ""


def test_a_band_that_is_partly_missing_is_left_out() -> None:
    y, low = np.array([1.0, 2, 3]), np.array([0.0, np.nan, 1])
    assert "polygon" not in line_svg(np.arange(3.0), y, low, y + 1, "policy")
    assert "polygon" in line_svg(np.arange(3.0), y, y - 1, y + 1, "policy")


def test_one_step_is_a_point() -> None:
    assert len(line_of(line_svg(np.array([4.0]), np.array([0.0]), NAN[:1], NAN[:1], "policy"))) == 1


def test_a_long_run_is_thinned() -> None:
    steps = np.arange(100_000.0)
    assert len(line_of(line_svg(steps, steps, steps, steps, "policy"))) <= 801


def test_a_spike_of_the_band_does_not_flatten_the_line() -> None:
    y = np.array([1.0, 2, 3])
    points = line_of(line_svg(np.arange(3.0), y, y - 1000, y + 1000, "policy"))
    assert points[0][1] - points[-1][1] > 50
