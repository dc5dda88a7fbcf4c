"""Head of a curve card: title, what is drawn, comparison with the trainer's log, value and change."""

from __future__ import annotations

from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_points import BAND_NAMES
from rlpanel.panels.curves.curve_selection import Curve
from rlpanel.panels.curves.value_distribution import DISTRIBUTION_BANDS, ValueDistribution
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.panels.ui.theme import delta, safe_text
from rlpanel.store.snapshot.run_view import RunView

#: What the head calls each band, but ± 1σ, which a setting scales.
_BANDS = {**BAND_NAMES, "density": "density", "ridge": "ridges"}


def head_html(view: RunView, curve: Curve, drawn: str, step: int) -> str:
    """Return the head's HTML for the value at a step; ``drawn`` is the text of `subtitle`."""
    column = trainer_scalars.describe(curve.columns[0])
    value, before = trainer_scalars.values(view, column.name, step)
    comparison = trainer_scalars.comparison_of(view, curve.columns)
    return (
        f'<div class="head" title="{safe_text(column.tip)}">'
        f"<b>{safe_text(curve.title)}</b>"
        f'<span class="unit parts">{_parts_html(drawn)}</span>'
        f"{comparison.html if comparison else ''}"
        f'<span class="number {column.color}">{number(value)}</span>{delta(value, before)}</div>'
    )


def subtitle(
    view: RunView, curve: Curve, display: Display, smoothing: float, distribution: ValueDistribution
) -> str:
    """Return the text after the title: statistic, band, unit, smoothing, and steps per point."""
    column = trainer_scalars.describe(curve.columns[0])
    parts = [_statistic(column) + _band(column, display, distribution)]
    if column.unit and column.unit != "reward":
        parts.append(column.unit)
    if smoothing:
        parts.append(tr("smoothed {smooth:g}", smooth=smoothing))
    if distribution.note:
        parts.append(distribution.note)
    if display.zero_shift:
        parts.append(tr("minus its first step"))
    if curve.log:
        parts.append(tr("log scale"))
    size = _steps_per_point(view, curve.columns[0])
    if size > 1:
        parts.append(tr("{size} steps per point", size=size))
    return ", ".join(parts)


def _statistic(column: column_info.ColumnInfo) -> str:
    return column.detail.removeprefix("mean ") or ("pooled" if column.level == "step" else "mean")


def _band(column: column_info.ColumnInfo, display: Display, distribution: ValueDistribution) -> str:
    """Return what is drawn around the line; empty if there is nothing."""
    if trainer_scalars.scalar_of(column.name) is not None or column.level == "step":
        return ""
    if display.band == "std":
        scale = display.variance_scale
        return " ± 1σ" if scale == 1 else f" ± {scale:g}σ"
    if display.band in DISTRIBUTION_BANDS and not distribution.pane:
        return ""
    return f", {_BANDS[display.band]}" if display.band in _BANDS else ""


def _steps_per_point(view: RunView, column: str) -> int:
    snapshot, scalar = view.snapshot, trainer_scalars.scalar_of(column)
    steps = snapshot.steps.values if scalar is None else snapshot.scalars.series(scalar).steps
    return series.bucket_size(len(steps))


def _parts_html(drawn: str) -> str:
    """Return a subtitle in parts that are shown whole or not at all."""
    first, *rest = (safe_text(part) for part in drawn.split(", "))
    return f"<span>{first}</span>" + "".join(f"<span>, {part}</span>" for part in rest)
