"""Legend of the selected run and the overlay runs, shared by all curves; a click shows or hides a run."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.board_url import STEP
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.overlay_run import OverlayRun, split_label
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.alignment import AXIS_LABELS, alignment_of, axis_of


class RunLegend(Component):
    """The row above the curves with one button per run, hidden while there are no overlay runs and no note.

    Its script also scrolls to a card.
    """

    runs = param.List(default=[], doc="One plain object per run.")
    note = param.String(default="", doc="Text at the end of the row.")

    _esm = read_assets("panels/ui/dom.js", "panels/curves/run_legend.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/curves/run_legend.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(
            sizing_mode="stretch_width", margin=(0, 0, 6, 0), visible=False, css_classes=["rl-run-legend"]
        )
        self.context = context
        context.param.watch(self._draw, ["overlays", "hidden_runs", "runs", "view"])
        context.selection.param.watch(self._draw, ["run", "align", "dark"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Show or hide the run whose key the browser sends."""
        if isinstance(message, str) and any(run["key"] == message for run in self.runs):
            self.context.hidden_runs = self.context.hidden_runs ^ {message}

    def scroll_to(self, position: int, count: int) -> None:
        """Scroll to a card, once the browser has drawn all cards of the row.

        Parameters
        ----------
        position : int
            Position of the card in the row, from 0.
        count : int
            Number of cards in the row.
        """
        self.send({"position": position, "count": count})

    def _draw(self, *_: Any) -> None:
        context = self.context
        runs = [self._own_chip(), *map(self._overlay_chip, context.overlays)] if context.overlays else []
        note = self._note()
        if (runs, note) != (self.runs, self.note):
            self.param.update(runs=runs, note=note, visible=bool(runs or note))

    def _own_chip(self) -> dict[str, Any]:
        context = self.context
        name = context.selection.run
        label = next((info.label for info in context.runs if info.name == name), name)
        color = theme.palette(context.selection.dark)["policy"]
        return {
            "key": "",
            "label": split_label(label, context.snapshot),
            "color": color,
            "on": "" not in context.hidden_runs,
            "said": "",
        }

    def _overlay_chip(self, other: OverlayRun) -> dict[str, Any]:
        context = self.context
        return {
            "key": other.key,
            "label": other.label,
            "color": other.color(context.selection.dark),
            "on": other.key not in context.hidden_runs,
            "said": _status(other, alignment_of(context.snapshot, context.selection.align)),
        }

    def _note(self) -> str:
        """Return a note on the curves' axis; empty if it is the step, as chosen."""
        wanted = self.context.selection.align
        actual = alignment_of(self.context.snapshot, wanted)
        if actual != wanted:
            return tr("no timestamps in this run: aligned by step")
        return "" if actual == STEP else tr("aligned by {actual}", actual=AXIS_LABELS[actual])


def _status(other: OverlayRun, alignment: str) -> str:
    """Return why an overlay run has no lines; empty if it has some."""
    snapshot = other.snapshot
    if not snapshot.version or not snapshot.progress.caught_up:
        return tr("reading …")
    if not snapshot.samples:
        return tr("no samples")
    return "" if axis_of(snapshot, alignment) is not None else tr("no timestamps")
