"""Bars as JSON for the browser."""

from __future__ import annotations

import json

import numpy as np

from rlpanel.panels.plots.plain_plots import Layer, bar_plot, tips_of, to_list

LEFT, RIGHT = np.array([0.0, 1.0]), np.array([1.0, 2.0])


def test_missing_and_infinite_numbers_become_null() -> None:
    assert to_list(np.array([1.0, np.nan, np.inf, -np.inf])) == [1.0, None, None, None]
    assert to_list(np.array([1.0, 2.5], np.float32)) == [1.0, 2.5]
    assert to_list(np.array(["a", "b"], object)) == ["a", "b"]


def test_a_bar_reaches_from_zero_to_its_height_on_either_side() -> None:
    layer = Layer.from_zero("good", LEFT, RIGHT, np.array([2.0, -3.0])).to_json()
    assert (layer["bottom"], layer["top"]) == ([0.0, -3.0], [2.0, 0.0])


def test_the_default_ranges_hold_all_bars() -> None:
    plot = bar_plot([Layer.from_zero("good", LEFT, RIGHT, np.array([2.0, -3.0]))])
    assert plot["x"][0] < 0
    assert plot["x"][1] > 2
    assert plot["y"][0] < -3
    assert plot["y"][1] > 2


def test_bars_above_zero_stand_on_the_axis() -> None:
    assert bar_plot([Layer.from_zero("good", LEFT, RIGHT, np.array([2.0, 3.0]))])["y"][0] == 0


def test_equal_heights_have_a_range() -> None:
    low, high = bar_plot([Layer.from_zero("good", LEFT, RIGHT, np.zeros(2))])["y"]
    assert high > low


def test_without_bars_there_is_no_plot() -> None:
    none = np.empty(0)
    assert bar_plot([Layer.from_zero("good", none, none, none)]) == {}


def test_a_plot_with_missing_bars_is_strict_json() -> None:
    layer = Layer("good", LEFT, RIGHT, np.array([0.0, np.nan]), np.array([1.0, np.nan]))
    plot = bar_plot([layer], tips=tips_of(LEFT, RIGHT, {"mean": np.array([0.5, np.nan])}))
    assert json.loads(json.dumps(plot, allow_nan=False))["tips"]["rows"] == [["mean", [0.5, None]]]


def test_bars_that_are_all_missing_have_a_range() -> None:
    missing = np.full(2, np.nan)
    plot = bar_plot([Layer("good", LEFT, RIGHT, missing, missing)])
    json.dumps(plot, allow_nan=False)
    assert plot["y"][0] < plot["y"][1]
