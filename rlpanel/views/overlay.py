"""Other runs' lines over one curve: a colour a run, streamed like the run's own."""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource
from bokeh.models.glyphs import Line
from bokeh.models.renderers import GlyphRenderer

from rlpanel.views import lines, series, trainer_log
from rlpanel.views.alignment import alignment_of, axis_of
from rlpanel.views.context import Context
from rlpanel.views.others import Other

_DRAWN = ("x", "y", "raw")
#: How strong the raw line is behind the smoothed one.
RAW_ALPHA = 0.28


class Overlay:
    """The lines of all other runs in one plot.

    Parameters
    ----------
    context : Context
    plot : figure
    curve : str
        As `rlpanel.views.trainer_log` names it.
    """

    def __init__(self, context: Context, plot: Any, curve: str) -> None:
        self._context, self._plot, self._curve = context, plot, curve
        self._lines: dict[str, _Line] = {}

    def draw(self) -> None:
        """Bring the lines to the newest snapshots, and to the runs that are chosen."""
        context, selection = self._context, self._context.selection
        alignment = alignment_of(context.snapshot, selection.align)
        wanted = {other.key: other for other in context.others}
        gone = [self._lines.pop(key) for key in set(self._lines) - set(wanted)]
        for key, other in wanted.items():
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = _Line(f"over-{key}-{self._curve}", other.color(selection.dark))
            line.show(self._points(other, alignment), muted=key in context.muted, raw=selection.smooth > 0)
        self._place([renderer for line in gone for renderer in line.renderers])

    def restyle(self) -> None:
        """Colours for dark or light."""
        for other in self._context.others:
            if other.key in self._lines:
                self._lines[other.key].paint(other.color(self._context.selection.dark))

    def _place(self, gone: list[GlyphRenderer]) -> None:
        """All at once: a plot is laid out anew each time that something joins it or goes."""
        there = [renderer for renderer in self._plot.renderers if renderer not in gone]
        wanted = [renderer for line in self._lines.values() for renderer in line.renderers]
        new = [renderer for renderer in wanted if renderer not in there]
        if gone or new:
            self._plot.renderers = [*there, *new]

    def _points(self, other: Other, alignment: str) -> series.Points:
        axis = axis_of(other.snapshot, alignment)
        if axis is None or not trainer_log.has(other.snapshot, self._curve):
            return series.Points()
        return lines.points(self._context, other.snapshot, self._curve, axis)


class _Line:
    """One run's line, and its raw values behind it while it is smoothed."""

    def __init__(self, name: str, color: str) -> None:
        self._source = ColumnDataSource({key: [] for key in _DRAWN}, name=name)
        self._sent: series.Points | None = None
        self._color = color
        self._line = self._made("y", line_width=1.4)
        self._raw: GlyphRenderer | None = None

    @property
    def renderers(self) -> list[GlyphRenderer]:
        """What stands in the plot, the raw line first."""
        return [self._line] if self._raw is None else [self._raw, self._line]

    def show(self, points: series.Points, *, muted: bool, raw: bool) -> None:
        """Send what changed; nothing to draw is an empty mapping."""
        drawn = {key: points[key] for key in _DRAWN} if points else {}
        if drawn:
            series.send(self._source, drawn, self._sent)
        elif self._sent:
            self._source.data = {key: [] for key in _DRAWN}
        self._sent = drawn or None
        if raw and self._raw is None:
            self._raw = self._made("raw", line_width=1, line_alpha=RAW_ALPHA)
        _turn(self._line, visible=not muted)
        if self._raw is not None:
            _turn(self._raw, visible=raw and not muted)

    def paint(self, color: str) -> None:
        """The run's colour."""
        self._color = color
        for renderer in self.renderers:
            renderer.glyph.line_color = color

    def _made(self, y: str, **look: Any) -> GlyphRenderer:
        return GlyphRenderer(data_source=self._source, glyph=Line(x="x", y=y, line_color=self._color, **look))


def _turn(renderer: GlyphRenderer, *, visible: bool) -> None:
    if renderer.visible != visible:
        renderer.visible = visible
