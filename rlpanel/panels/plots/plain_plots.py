"""Plots that need no Bokeh: bars in layers, as JSON for a script, and a line with its band as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.panels.plots.value_axis import fit_axis, widen
from rlpanel.panels.ui.theme import safe_text

# -- bar layers ----------------------------------------------------------------------------------------
# Bars in layers, as JSON for ``bar_plot.js``, which draws them in the board and in the report.


#: Height of the plot in pixels.
HEIGHT = 112


@dataclass(frozen=True)
class Layer:
    """Bars of one colour, B in number.

    Attributes
    ----------
    color : str
        Name of a theme colour.
    left, right, bottom, top : ndarray of float, shape (B,)
        Edges of the bars. A bar with a missing edge (NaN) is not drawn.
    alpha : float
        Opacity from 0 to 1.
    """

    color: str
    left: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    top: np.ndarray
    alpha: float = 0.95

    @classmethod
    def from_zero(cls, color: str, left: np.ndarray, right: np.ndarray, height: np.ndarray,
                  alpha: float = 0.95) -> Layer:  # fmt: skip
        """Return bars from zero to their heights, shape (B,)."""
        return cls(color, left, right, np.minimum(height, 0), np.maximum(height, 0), alpha)

    def to_json(self) -> dict[str, Any]:
        """Return the layer as JSON object."""
        edges = {name: to_list(getattr(self, name)) for name in ("left", "right", "bottom", "top")}
        return {"color": self.color, "alpha": self.alpha, **edges}


def bar_plot(
    layers: list[Layer],
    *,
    x: tuple[float, float] | None = None,
    y: tuple[float, float] | None = None,
    labels: bool = True,
    tips: dict[str, Any] | None = None,
    counts: bool = False,
    lone: float | None = None,
) -> dict[str, Any]:
    """Return a plot as JSON object.

    Parameters
    ----------
    layers : list of Layer
        The first layer is at the back.
    x, y : (float, float), optional
        Ranges of the axes; by default those of the bars, with a margin.
    labels : bool
        Whether the x axis has labels.
    tips : dict, optional
        Tooltips, as returned by `tips_of`.
    counts : bool
        Whether heights are counts, which have ticks at whole numbers only.
    lone : float, optional
        The only value: the x axis has its label alone.
    """
    layers = [layer for layer in layers if len(layer.left)]
    if not layers:
        return {}
    return {
        "x": x or _x_range(layers),
        "y": y or _y_range(layers),
        "labels": labels,
        "counts": counts,
        "lone": lone,
        "layers": [layer.to_json() for layer in layers],
        "tips": tips,
    }


def tips_of(left: np.ndarray, right: np.ndarray, rows: dict[str, Any]) -> dict[str, Any]:
    """Return tooltips for areas of shape (B,); a row is a label with B values (numbers or texts)."""
    return {
        "left": to_list(left),
        "right": to_list(right),
        "rows": [[label, to_list(np.asarray(values))] for label, values in rows.items()],
    }


def to_list(values: np.ndarray) -> list[Any]:
    """Return values as a list for JSON, which has no NaN: missing numbers become None."""
    if values.dtype.kind != "f":
        return values.tolist()
    rounded = [float(f"{value:.6g}") for value in values.tolist()]
    return [value if np.isfinite(value) else None for value in rounded]


def _x_range(layers: list[Layer]) -> tuple[float, float]:
    left = min(float(layer.left.min()) for layer in layers)
    right = max(float(layer.right.max()) for layer in layers)
    margin = 0.03 * (right - left)
    return widen(left - margin, right + margin)


def _y_range(layers: list[Layer]) -> tuple[float, float]:
    ends = np.concatenate([edge for layer in layers for edge in (layer.bottom, layer.top)])
    finite = ends[np.isfinite(ends)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    low, high = widen(low, high)
    margin = 0.06 * ((high - low) or 1.0)
    return low - (margin if low < 0 else 0.0), high + margin


# -- line svg ------------------------------------------------------------------------------------------
# A line with its band as SVG without axes.


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
