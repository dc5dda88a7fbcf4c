"""Pass rates of prompt × step as the pixels of a view: sums of passes, divided by sums of samples.

The plot is a HoloViews image. Its pixels are summed here, not by datashader: each is a quotient of two sums
over cells that already have whole places, which two `numpy.bincount` give. Datashader would need a frame of
coordinates of all cells, twice the memory, and numba, which compiles for seconds at the first picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.snapshot.prompt_grid import PromptGrid

#: Cells that are added up at once.
_BLOCK = 1 << 21


@dataclass(frozen=True)
class GridWindow:
    """The part of a grid that is in view: positions of steps and lanes, the last of each excluded."""

    start: int
    stop: int
    first: int
    last: int

    @property
    def lanes(self) -> int:
        """Number of lanes in view."""
        return self.last - self.first

    @property
    def steps(self) -> int:
        """Number of steps in view."""
        return self.stop - self.start


@dataclass(frozen=True)
class GridImage:
    """Passes and samples of each pixel, shape (rows, columns) each; the first row is the first lane."""

    window: GridWindow
    passed: np.ndarray
    samples: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """Pass rate of each pixel; NaN without samples."""
        with np.errstate(invalid="ignore"):
            return np.where(self.samples > 0, self.passed / np.maximum(self.samples, 1), np.nan)


def window_of(grid: PromptGrid, lanes: int, x: tuple[float, float], y: tuple[float, float]) -> GridWindow:
    """Return the window of the ranges that a viewer chose: whole steps and lanes, within the grid."""
    steps = len(grid.steps)
    start, stop = (float(np.clip(edge, 0, steps)) for edge in sorted(x))
    first, last = (float(np.clip(edge, 0, lanes)) for edge in sorted(y))
    if not stop > start or not last > first:
        return GridWindow(0, steps, 0, lanes)
    return GridWindow(int(start), int(np.ceil(stop)), int(first), int(np.ceil(last)))


def lanes_of(grid: PromptGrid, prompts: np.ndarray) -> np.ndarray:
    """Return the lane of each prompt of the grid, shape (P,): its place in ``prompts``, or -1 for none."""
    lanes = np.full(len(grid), -1, np.int32)
    lanes[prompts] = np.arange(len(prompts), dtype=np.int32)
    return lanes


def grid_image(grid: PromptGrid, lanes: np.ndarray, window: GridWindow, columns: int, rows: int) -> GridImage:
    """Return the pixels of a window, at most ``rows`` × ``columns``; there are no more than lanes and steps.

    Parameters
    ----------
    grid : PromptGrid
    lanes : ndarray of int, shape (P,)
        See `lanes_of`.
    window : GridWindow
    columns, rows : int
    """
    columns, rows = max(min(columns, window.steps), 1), max(min(rows, window.lanes), 1)
    passed, samples = np.zeros(rows * columns), np.zeros(rows * columns)
    # Tables from position to pixel are short, so that a cell costs two look-ups.
    x = np.full(len(grid.steps), -1, np.int32)
    x[window.start : window.stop] = np.arange(window.steps) * columns // max(window.steps, 1)
    lane = lanes - window.first
    y = np.where((lane >= 0) & (lane < window.lanes) & (lanes >= 0), lane * rows // max(window.lanes, 1), -1)
    y = y.astype(np.int32)
    for begin in range(0, len(grid.prompt), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        column, row = x[grid.step[part]], y[grid.prompt[part]]
        inside = np.flatnonzero((column >= 0) & (row >= 0))
        pixel = row[inside] * columns + column[inside]
        passed += np.bincount(pixel, grid.passed[part][inside], rows * columns)
        samples += np.bincount(pixel, grid.samples[part][inside], rows * columns)
    return GridImage(window, passed.reshape(rows, columns), samples.reshape(rows, columns))
