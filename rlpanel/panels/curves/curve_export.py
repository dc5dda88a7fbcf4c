"""A curve's card as a file: its lines and those of other runs, or what stands in its place."""

from __future__ import annotations

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.overlay_curves import OverlayCurves
from rlpanel.panels.curves.value_distribution import ValueDistribution
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.export.plot_tables import PlotLine, lines_frame
from rlpanel.panels.plots.alignment import WORDS, alignment_of
from rlpanel.panels.session.context import Context


def curve_export(
    context: Context,
    title: str,
    words: str,
    lines: list[PlotLine],
    overlay: OverlayCurves,
    spread: ValueDistribution,
) -> CardExport:
    """What the card of a curve shows.

    Parameters
    ----------
    context : Context
    title, words : str
        As the card's head says them.
    lines : list of PlotLine
        The selected run's own; none where it is switched off.
    overlay : OverlayCurves
        The other runs'.
    spread : ValueDistribution
        What stands in the lines' place, where values are wanted rather than their mean.
    """
    snapshot, selection, curve = context.snapshot, context.selection, overlay.curve
    alignment = alignment_of(snapshot, selection.align)
    others = [PlotLine(other.label, curve, points) for other, points in overlay.shown]
    display, smoothing = type(context.display)(**context.display.param.values()), selection.smooth
    legend = [(snapshot.name, "policy")] if lines and others else []
    legend += [(other.label, other.color(selection.dark)) for other, _ in overlay.shown]
    short = trainer_scalars.scalar_of(curve) or curve
    return CardExport(
        name=f"{file_name(snapshot.name)}-{file_name(short)}-to-step-{snapshot.steps.values[-1]}",
        title=title,
        words=f"{words}, by {WORDS[alignment]}{'' if legend else f', {snapshot.name}'}",
        rows=spread.rows or (lambda: lines_frame([*lines, *others], alignment, display, smoothing)),
        legend=tuple(legend),
    )
