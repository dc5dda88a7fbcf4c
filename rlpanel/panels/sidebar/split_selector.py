"""Which split of the run is shown, and which lie over it; not there where a run has but one."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.multi_choice import multi_choice


class SplitSelector(Viewer):
    """A part of the side panel, below the runs."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._quiet = False
        self._shown = pmui.Select(
            label="Split",
            description="Whose samples every number, grid and finding is of; the other splits are left out.",
            options={},
            size="small",
            margin=(10, 12, 4, 12),
            css_classes=["rl-split"],
            sizing_mode="stretch_width",
            sx=theme.FIELD_SX,
        )
        self._over = multi_choice(
            "Splits over it",
            "Splits of this run whose curves are drawn over the shown one's.",
            "rl-beside",
            margin=(6, 12, 4, 12),
        )
        self._shown.param.watch(self._choose, "value")
        self._over.param.watch(self._lay, "value")
        context.param.watch(self._offer, "view")
        context.selection.param.watch(self._offer, ["split", "beside"])
        self._column = pn.Column(
            self._shown, self._over, sizing_mode="stretch_width", margin=0, visible=False
        )
        self._offer()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _offer(self, *_: Any) -> None:
        snapshot, beside = self.context.snapshot, self.context.selection.beside
        splits = snapshot.splits if snapshot.has_splits else {}
        others = [name for name in splits if name != snapshot.split]
        self._quiet = True
        try:
            self._shown.param.update(options=list(splits), value=snapshot.split if splits else None)
            self._over.param.update(options=others, value=[name for name in beside if name in others])
            self._column.visible = bool(splits)
        finally:
            self._quiet = False

    def _choose(self, event: Any) -> None:
        if not self._quiet and event.new:
            self.context.choose_split(event.new)

    def _lay(self, event: Any) -> None:
        if not self._quiet:
            self.context.selection.beside = list(event.new)
