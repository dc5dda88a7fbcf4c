"""Finds where a rise begins: the better fit of a step and of a slope after a constant level."""

from __future__ import annotations

import numpy as np


def rise_onset(values: np.ndarray, start: int, stop: int) -> int:
    """Return where the rise begins: the better fit of a step and of a slope after a constant level."""
    part = values[start : stop + 1]
    position = np.flatnonzero(np.isfinite(part))
    if len(position) < 3:
        return min(start + 1, stop)
    known = part[position]
    step_error, step_at = fit_step(known)
    slope_error, slope_at = _fit_slope(position.astype(float), known)
    at = position[step_at] if step_error <= slope_error else position[min(slope_at + 1, len(position) - 1)]
    return start + int(at)


def fit_step(values: np.ndarray) -> tuple[float, int]:
    """Return the squared error of two constant levels, and the first position of the second one."""
    count = np.arange(1, len(values))
    total, squares = np.cumsum(values)[:-1], np.cumsum(values**2)[:-1]
    rest, rest_squares = values.sum() - total, (values**2).sum() - squares
    error = squares - total**2 / count + rest_squares - rest**2 / (len(values) - count)
    best = int(error.argmin())
    return float(error[best]), best + 1


def _fit_slope(position: np.ndarray, values: np.ndarray) -> tuple[float, int]:
    """Return the squared error of a constant level with a slope after it, and where the slope begins.

    At most a hundred beginnings are tried.
    """
    knots = np.arange(0, len(values) - 2, max(1, len(values) // 100))
    if not len(knots):
        return np.inf, 0
    ramp = np.maximum(position[None] - position[knots][:, None], 0.0)
    ramp -= ramp.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    error = centred @ centred - (ramp @ centred) ** 2 / (ramp * ramp).sum(axis=1)
    best = int(error.argmin())
    return float(error[best]), int(knots[best])
