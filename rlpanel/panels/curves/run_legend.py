"""Whose line is which: the run and those that lie over it, one legend for all curves; a click toggles one."""

from __future__ import annotations

from typing import Any, ClassVar

import param
from panel.custom import JSComponent
from panel.viewable import Viewable, Viewer

from rlpanel.panels.plots.alignment import STEP, WORDS, alignment_of, axis_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.overlay_run import OverlayRun, split_label
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class RunChips(JSComponent):
    """A button a run, drawn in ``run_legend.js``; a click comes back as the run's key."""

    runs = param.List(default=[], doc="The runs as plain objects.")
    note = param.String(default="", doc="What is said beside them.")

    _esm = read_assets("panels/curves/run_legend.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/curves/run_legend.css")]


class RunLegend(Viewer):
    """A row above the curves; it is not there while no other run is chosen."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._chips = RunChips(
            sizing_mode="stretch_width", margin=(0, 0, 6, 0), visible=False, css_classes=["rl-run-legend"]
        )
        self._chips.on_msg(lambda event: self._toggle(event.data))
        context.param.watch(self._draw, ["others", "muted", "runs", "view"])
        context.selection.param.watch(self._draw, ["run", "align", "dark"])
        self._draw()

    def __panel__(self) -> Viewable:
        return self._chips

    def _draw(self, *_: Any) -> None:
        context = self.context
        runs = [self._own(), *map(self._other, context.others)] if context.others else []
        note = self._note()
        if (runs, note) != (self._chips.runs, self._chips.note):
            self._chips.param.update(runs=runs, note=note, visible=bool(runs or note))

    def _own(self) -> dict[str, Any]:
        context = self.context
        name = context.selection.run
        label = next((info.label for info in context.runs if info.name == name), name)
        color = theme.palette(context.selection.dark)["policy"]
        return {
            "key": "",
            "label": split_label(label, context.snapshot),
            "color": color,
            "on": "" not in context.muted,
            "said": "",
        }

    def _other(self, other: OverlayRun) -> dict[str, Any]:
        context = self.context
        return {
            "key": other.key,
            "label": other.label,
            "color": other.color(context.selection.dark),
            "on": other.key not in context.muted,
            "said": _said(other, alignment_of(context.snapshot, context.selection.align)),
        }

    def _note(self) -> str:
        """What the curves' axis is where it is not the steps."""
        wanted = self.context.selection.align
        got = alignment_of(self.context.snapshot, wanted)
        if got != wanted:
            return "no times are logged in this run: aligned by step"
        return "" if got == STEP else f"aligned by {WORDS[got]}"

    def _toggle(self, key: Any) -> None:
        if isinstance(key, str) and any(run["key"] == key for run in self._chips.runs):
            self.context.muted = self.context.muted ^ {key}


def _said(other: OverlayRun, alignment: str) -> str:
    """Why a run has no lines, where it has none."""
    snapshot = other.snapshot
    if not snapshot.version or not snapshot.progress.caught_up:
        return "reading …"
    if not snapshot.samples:
        return "no samples"
    return "" if axis_of(snapshot, alignment) is not None else "no times logged"
