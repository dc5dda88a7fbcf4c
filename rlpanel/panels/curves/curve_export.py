"""A curve's card as a file: its lines and those of other runs, or what stands in its place."""

from __future__ import annotations

from rlpanel.panels.curves import trainer_scalars as trainer_log
from rlpanel.panels.curves.overlay_curves import Overlay
from rlpanel.panels.curves.value_distribution import Spread
from rlpanel.panels.export.card_export import Taken, file_name
from rlpanel.panels.export.plot_tables import Line, lines_frame
from rlpanel.panels.plots.alignment import WORDS, alignment_of
from rlpanel.panels.session.context import Context


def curve_taken(
    context: Context, title: str, words: str, lines: list[Line], overlay: Overlay, spread: Spread
) -> Taken:
    """What the card of a curve shows.

    Parameters
    ----------
    context : Context
    title, words : str
        As the card's head says them.
    lines : list of Line
        The selected run's own; none where it is switched off.
    overlay : Overlay
        The other runs'.
    spread : Spread
        What stands in the lines' place, where values are wanted rather than their mean.
    """
    snapshot, selection, curve = context.snapshot, context.selection, overlay.curve
    alignment = alignment_of(snapshot, selection.align)
    others = [Line(other.label, curve, points) for other, points in overlay.shown]
    display, smoothing = type(context.display)(**context.display.param.values()), selection.smooth
    legend = [(snapshot.name, "policy")] if lines and others else []
    legend += [(other.label, other.color(selection.dark)) for other, _ in overlay.shown]
    short = trainer_log.scalar_of(curve) or curve
    return Taken(
        name=f"{file_name(snapshot.name)}-{file_name(short)}-to-step-{snapshot.steps.values[-1]}",
        title=title,
        words=f"{words}, by {WORDS[alignment]}{'' if legend else f', {snapshot.name}'}",
        rows=spread.rows or (lambda: lines_frame([*lines, *others], alignment, display, smoothing)),
        legend=tuple(legend),
    )
