"""A curve card as static HTML, as the first view shows it."""

from __future__ import annotations

from rlpanel.number_text import number
from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.curves.curve_selection import Curve
from rlpanel.panels.plots.line_svg import line_svg
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text


def curve_html(context: Context, curve: Curve) -> str:
    """Return a card with the curve's head and line; without points the card has a head only."""
    view, selection = context.view, context.selection
    column = trainer_scalars.describe(curve.columns[0])
    points = curve_points.shared_points(
        view, curve.columns[0], selection.align, context.display, selection.smooth
    )
    step = selection.step
    value = trainer_scalars.values(view, column.name, step)[0] if step is not None else float("nan")
    return (
        f'<div class="card curve"><div class="head"><b>{safe_text(curve.title)}</b>'
        f'<span class="number {safe_text(column.color)}">{number(value)}</span></div>'
        f"{line_svg(points['x'], points['y'], points['lo'], points['hi'], column.color)}</div>"
    )
