"""What the samples of one prompt tell about each other: this sample's group, and the step's groups."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.compare.response_diff import select
from rlpanel.panels.groups.group_samples import GroupSamples
from rlpanel.panels.groups.group_table import GroupTable
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import safe_text

_ONE, _ALL = "one", "all"


class GroupsTab(Viewer):
    """The sample's tab: a choice of the two, and what there is to say."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._what = select("what", 190)
        self._what.param.update(options={"this sample's group": _ONE, "groups of the step": _ALL}, value=_ONE)
        self._note = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS],
            sizing_mode="stretch_width",
            margin=(6, 8),
            css_classes=["rl-group-note"],
        )
        self._one = GroupSamples(context, self._say)
        self._all = GroupTable(context, self._say)
        self._column = pn.Column(
            pn.Row(self._what, self._note, sizing_mode="stretch_width", margin=(8, 10, 0, 10)),
            self._one,
            self._all,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-group-tab"],
        )
        self._what.param.watch(self._turned, "value")
        self.param.watch(self._turned, "active")
        self._all.param.watch(self.show_one, "picks")
        self._turned()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def show_one(self, *_: Any) -> None:
        """Turn to the group of the sample that is shown."""
        self._what.value = _ONE

    def _turned(self, *_: Any) -> None:
        parts: tuple[tuple[str, GroupSamples | GroupTable], ...] = ((_ONE, self._one), (_ALL, self._all))
        for key, part in parts:
            part.__panel__().visible = self._what.value == key
            part.active = self.active and self._what.value == key

    def _say(self, words: str) -> None:
        self._note.object = f'<span class="note">{safe_text(words)}</span>'
