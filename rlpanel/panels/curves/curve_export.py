"""Exports a curve card: its lines and the overlay runs' lines, or the value distribution shown instead."""

from __future__ import annotations

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.overlay_curves import OverlayCurves
from rlpanel.panels.curves.value_distribution import ValueDistribution
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.export.plot_tables import PlotLine, lines_frame
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.alignment import AXIS_LABELS, alignment_of


def curve_export(
    context: Context,
    title: str,
    subtitle: str,
    lines: list[PlotLine],
    overlay: OverlayCurves,
    distribution: ValueDistribution,
) -> CardExport:
    """Return the export of a curve card.

    Parameters
    ----------
    context : Context
    title, subtitle : str
        As in the card's head.
    lines : list of PlotLine
        Lines of the selected run; empty if the run is switched off.
    overlay : OverlayCurves
        Lines of the overlay runs.
    distribution : ValueDistribution
        Exported instead of the lines if it has a plot.
    """
    snapshot, selection, curve = context.snapshot, context.selection, overlay.curve
    alignment = alignment_of(snapshot, selection.align)
    overlay_lines = [PlotLine(other.label, curve, points) for other, points in overlay.visible_lines]
    # A copy: the table is built on a thread, while the settings may change.
    display, smoothing = type(context.display)(**context.display.param.values()), selection.smooth
    legend = [(snapshot.name, "policy")] if lines and overlay_lines else []
    legend += [(other.label, other.color(selection.dark)) for other, _ in overlay.visible_lines]
    curve_name = trainer_scalars.scalar_of(curve) or curve
    return CardExport(
        name=f"{file_name(snapshot.name)}-{file_name(curve_name)}-to-step-{snapshot.steps.values[-1]}",
        title=title,
        words=f"{subtitle}, by {AXIS_LABELS[alignment]}{'' if legend else f', {snapshot.name}'}",
        rows=distribution.make_table
        or (lambda: lines_frame([*lines, *overlay_lines], alignment, display, smoothing)),
        legend=tuple(legend),
    )
