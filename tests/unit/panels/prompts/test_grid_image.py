"""Pixels of the grid are sums of its cells, for the whole grid and for a part of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rlpanel.panels.prompts.grid_figure import (
    GridWindow,
    grid_image,
    lanes_of,
    rate_colors,
    step_ticks,
    window_of,
)
from rlpanel.panels.ui.theme import palette
from tests.color_vision import EYES, distance
from tests.unit.store.snapshot.test_prompt_classes import grid_of

PROMPTS, STEPS, OF = 23, 17, 8


@pytest.fixture(scope="module")
def passed() -> np.ndarray:
    return np.random.default_rng(0).integers(-1, OF + 1, (PROMPTS, STEPS))


def bins(count: int, pixels: int) -> list[np.ndarray]:
    return [np.flatnonzero(np.arange(count) * pixels // count == pixel) for pixel in range(pixels)]


@pytest.mark.parametrize("window", [GridWindow(0, STEPS, 0, PROMPTS), GridWindow(3, 11, 5, 9)])
@pytest.mark.parametrize("size", [(100, 100), (5, 4), (1, 1)])
def test_pixels_are_sums_of_cells(passed: np.ndarray, window: GridWindow, size: tuple[int, int]) -> None:
    order = np.random.default_rng(1).permutation(PROMPTS)
    grid = grid_of(passed, OF)
    image = grid_image(grid, lanes_of(grid, order), window, *size)
    shown = passed[order][window.first : window.last, window.start : window.stop]
    rows = bins(window.lanes, min(size[1], window.lanes))
    columns = bins(window.steps, min(size[0], window.steps))

    def sums(values: np.ndarray) -> list[list[int]]:
        return [[values[np.ix_(row, column)].sum() for column in columns] for row in rows]

    assert image.passed.tolist() == sums(np.maximum(shown, 0))
    assert image.samples.tolist() == sums(np.where(shown >= 0, OF, 0))


def test_pixels_without_samples_have_no_rate() -> None:
    grid = grid_of(np.array([[-1, 4], [8, 0]]), OF)
    rate = grid_image(grid, lanes_of(grid, np.array([0, 1])), GridWindow(0, 2, 0, 2), 10, 10).rate
    assert np.isnan(rate[0, 0])
    assert rate[[0, 1, 1], [1, 0, 1]].tolist() == [0.5, 1.0, 0.0]


def test_prompts_that_are_not_shown_have_no_lane() -> None:
    grid = grid_of(np.full((3, 1), 4), OF)
    lanes = lanes_of(grid, np.array([2, 0]))
    assert lanes.tolist() == [1, -1, 0]
    assert grid_image(grid, lanes, GridWindow(0, 1, 0, 2), 5, 5).samples.tolist() == [[8.0], [8.0]]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ((0, 2), (0, 3), (0, 2, 0, 3)),
        ((1.2, 1.4), (2.9, 0.1), (1, 2, 0, 3)),
        ((-5, 99), (-5, 99), (0, 2, 0, 3)),
        ((1, 1), (0, 3), (0, 2, 0, 3)),
    ],
)
def test_a_choice_becomes_whole_steps_and_lanes(
    x: tuple[float, float], y: tuple[float, float], expected: Sequence[int]
) -> None:
    assert window_of(grid_of(np.zeros((3, 2), int), OF), 3, x, y) == GridWindow(*expected)


def test_few_steps_are_labelled_at_the_middle_of_their_columns() -> None:
    steps = np.arange(100, 2100, 10)
    ticks = step_ticks(steps, 0, 200)
    assert ticks == {0.5: "100", 40.5: "500", 90.5: "1,000", 140.5: "1,500", 199.5: "2,090"}
    assert list(step_ticks(np.arange(1, 1001), 0, 1000).values()) == [
        "1",
        "200",
        "400",
        "600",
        "800",
        "1,000",
    ]
    uneven = step_ticks(np.r_[0:50, 5000:5050], 0, 100)
    assert uneven == {0.5: "0", 50.5: "5,000", 99.5: "5,049"}
    assert step_ticks(steps, 4, 5) == {4.5: "140"}


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("eye", EYES.values(), ids=EYES)
def test_readers_without_one_kind_of_cones_tell_passes_from_failures(dark: bool, eye: np.ndarray) -> None:
    colors, surface = rate_colors(dark), palette(dark)["surface"]
    shades = [colors[0], colors[len(colors) // 2], colors[-1]]
    for at, shade in enumerate(shades):
        assert distance(shade, surface, eye) > 15
        assert all(distance(shade, other, eye) > 15 for other in shades[at + 1 :])
