"""A line with its band as SVG without axes."""

from __future__ import annotations

import numpy as np

from rlpanel.panels.plots.value_axis import fit_axis
from rlpanel.panels.ui.theme import safe_text

#: Size of the drawing's own coordinates; the browser stretches them to the card.
_WIDTH, _HEIGHT = 1000.0, 100.0
#: Maximum number of points; a card is not wider on most screens.
_MAX_POINTS = 400


def line_svg(x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray, color: str) -> str:
    """Return the line and band of P points as SVG; empty if no point is finite.

    Parameters
    ----------
    x, y, low, high : ndarray of float, shape (P,)
        Positions, values, and the band's bounds. Points without a finite value are left out.
    color : str
        Name of a theme colour.
    """
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not len(finite):
        return ""
    chosen = finite[:: max(1, len(finite) // _MAX_POINTS)]
    x, y, low, high = x[chosen], y[chosen], low[chosen], high[chosen]
    bottom, top = fit_axis([{"y": y, "lo": low, "hi": high}]) or (0.0, 1.0)
    across = (x - x[0]) / ((x[-1] - x[0]) or 1.0) * _WIDTH

    def down(values: np.ndarray) -> np.ndarray:
        return (top - np.clip(values, bottom, top)) / (top - bottom) * _HEIGHT

    band = ""
    if np.isfinite(low).all() and np.isfinite(high).all():
        outline = _path(
            [*zip(across, down(high), strict=True), *zip(across[::-1], down(low)[::-1], strict=True)]
        )
        band = f'<polygon class="band" points="{outline}"/>'
    line = _path([*zip(across, down(y), strict=True)])
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" '
        f'style="color: var(--rl-{safe_text(color)})" aria-hidden="true">'
        f'{band}<polyline points="{line}"/></svg>'
    )


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.2f}" for x, y in points)
