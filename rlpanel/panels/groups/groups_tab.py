"""Groups tab of the sample panel: cards of the sample's group, or a table of the step's groups."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.groups.group_samples import GroupSamples
from rlpanel.panels.groups.group_table import GroupTable
from rlpanel.panels.inputs.input_fields import FieldRow, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text

_ONE, _ALL = "one", "all"


class GroupsTab(Viewer):
    """Tab with the choice of view and a line of text about it."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._mode = select_field("what", tr("Groups"), 190)
        self._mode.param.update(
            options={tr("This sample's group"): _ONE, tr("All groups of the step"): _ALL}, value=_ONE
        )
        self._note = Html(
            stylesheets=[theme.CSS],
            sizing_mode="stretch_width",
            margin=(6, 8),
            css_classes=["rl-group-note"],
        )
        self._cards = GroupSamples(context, self._show_note)
        self._table = GroupTable(context, self._show_note)
        self._column = pn.Column(
            FieldRow(self._mode, self._note, margin=(8, 10, 0, 10)),
            self._cards,
            self._table,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-group-tab"],
        )
        self._mode.param.watch(self._activate, "value")
        self.param.watch(self._activate, "active")
        self._table.param.watch(self.show_group, "picks")
        self._activate()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def show_group(self, *_: Any) -> None:
        """Switch to the group of the selected sample."""
        self._mode.value = _ONE

    def _activate(self, *_: Any) -> None:
        """Show and activate the chosen view only."""
        one = self._mode.value == _ONE
        self._cards.visible, self._table.table.visible = one, not one
        self._cards.active, self._table.active = self.active and one, self.active and not one

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'
