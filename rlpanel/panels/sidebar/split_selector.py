"""Sidebar fields for the split that is shown and for overlay splits; hidden for runs with one split."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.multi_choice import multi_choice


class SplitSelector(Viewer):
    """Fields of the sidebar, below the list of runs."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._updating = False
        self._split = pmui.Select(
            label="Split",
            description="Split whose samples are used in all curves, lists and findings.",
            options={},
            size="small",
            margin=(10, 12, 4, 12),
            css_classes=["rl-split"],
            sizing_mode="stretch_width",
            sx=theme.FIELD_SX,
        )
        self._overlays = multi_choice(
            "Overlay splits",
            "Splits of this run whose curves are drawn over those of the selected split.",
            "rl-beside",
            margin=(6, 12, 4, 12),
        )
        self._split.param.watch(self._on_split, "value")
        self._overlays.param.watch(self._on_overlays, "value")
        context.param.watch(self._update, "view")
        context.selection.param.watch(self._update, ["split", "beside"])
        self._column = pn.Column(
            self._split, self._overlays, sizing_mode="stretch_width", margin=0, visible=False
        )
        self._update()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _update(self, *_: Any) -> None:
        snapshot, beside = self.context.snapshot, self.context.selection.beside
        splits = snapshot.splits if snapshot.has_splits else {}
        others = [name for name in splits if name != snapshot.split]
        self._updating = True
        try:
            self._split.param.update(options=list(splits), value=snapshot.split if splits else None)
            self._overlays.param.update(options=others, value=[name for name in beside if name in others])
            self._column.visible = bool(splits)
        finally:
            self._updating = False

    def _on_split(self, event: Any) -> None:
        if not self._updating and event.new:
            self.context.choose_split(event.new)

    def _on_overlays(self, event: Any) -> None:
        if not self._updating:
            self.context.selection.beside = list(event.new)
