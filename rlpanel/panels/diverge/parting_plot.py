"""Both runs' values of a number over their common steps as SVG, with a mark where they part."""

from __future__ import annotations

import numpy as np

from rlpanel.number_text import number
from rlpanel.panels.ui.theme import safe_text

#: Size of the drawing's own coordinates; the browser stretches it.
_WIDTH, _HEIGHT = 1000.0, 120.0
#: Most points of a line.
_MAX_POINTS = 600


def parting_svg(
    steps: np.ndarray, here: np.ndarray, there: np.ndarray, onset: int | None, names: tuple[str, str]
) -> str:
    """Return the two lines as HTML; empty if there is nothing to draw.

    Parameters
    ----------
    steps : ndarray of int, shape (P,)
    here, there : ndarray of float, shape (P,)
        Values of the first and the second run.
    onset : int or None
        Position where they part.
    names : tuple of str
        Labels of the runs.
    """
    both = np.concatenate([here, there])
    known = both[np.isfinite(both)]
    if len(known) < 2:
        return ""
    low, high = float(known.min()), float(known.max())
    room = (high - low) or 1.0

    def line(values: np.ndarray, color: str) -> str:
        at = np.flatnonzero(np.isfinite(values))
        at = at[:: max(1, len(at) // _MAX_POINTS)]
        across = at / max(len(values) - 1, 1) * _WIDTH
        down = 4 + (high - values[at]) / room * (_HEIGHT - 8)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        return f'<polyline points="{points}" style="stroke: var(--rl-{color})"/>'

    mark = ""
    if onset is not None:
        x = onset / max(len(steps) - 1, 1) * _WIDTH
        mark = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT:.0f}"/>'
    legend = "".join(
        f'<span><i style="background: var(--rl-{color})"></i>{safe_text(name)}</span>'
        for name, color in zip(names, ("policy", "reference"), strict=True)
    )
    return (
        f'<div class="legend">{legend}<em>{number(low)} – {number(high)}</em></div>'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" aria-hidden="true">'
        f"{line(here, 'policy')}{line(there, 'reference')}{mark}</svg>"
        f'<div class="axis"><span>{int(steps[0]):,}</span><span>{int(steps[-1]):,}</span></div>'
    )
