"""The range that the grid is filtered by, as a chip: a click lets go of it."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui
from panel.viewable import Viewable, Viewer

from rlpanel.views import ranges
from rlpanel.views.context import Context


class RangeChip(Viewer):
    """``reward 0.3–0.5 ✕`` while a range is chosen."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._button = pmui.Button(
            label="",
            visible=False,
            size="small",
            variant="outlined",
            margin=(7, 4),
            height=26,
            sx={"padding": "0 8px", "fontSize": "12px", "borderRadius": "13px", "whiteSpace": "nowrap"},
            css_classes=["rl-range"],
            description="Only samples in this range are listed; a click lists all again.",
            on_click=lambda _: setattr(context.selection, "within", ""),
        )
        context.selection.param.watch(self._draw, "within")
        context.param.watch(self._draw, "snapshot")
        self._draw()

    def __panel__(self) -> Viewable:
        return self._button

    def _draw(self, *_: Any) -> None:
        text = self.context.selection.within
        wanted = ranges.read(text) if text else None
        known = wanted is not None and self.context.snapshot.has(wanted.column)
        label = f"{wanted.label} ✕" if wanted is not None and known else ""
        self._button.param.update(label=label, visible=bool(label))
