"""Page of the run that tells what changed: the evidence of the opened finding, and one of four views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.explain.cluster_view import ClusterView
from rlpanel.panels.explain.contrast_sides import ranges_of
from rlpanel.panels.explain.contrast_view import ContrastView
from rlpanel.panels.explain.link_rows import note_pane
from rlpanel.panels.explain.scatter_view import ScatterView
from rlpanel.panels.explain.step_shares import StepShares
from rlpanel.panels.explain.tool_rows import ToolRows
from rlpanel.panels.inputs.input_fields import select_field
from rlpanel.panels.inputs.lazy_view import LazyView
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text

#: Label and view of each question of `rlpanel.board_url.QUESTIONS`.
_VIEWS: dict[str, tuple[str, Callable[[Context], Any]]] = {
    "shares": (marked("Why a number changed at the step"), StepShares),
    "contrast": (marked("What is different in two sets"), ContrastView),
    "repeats": (marked("Responses that repeat"), ClusterView),
    "scatter": (marked("Two numbers of each sample"), ScatterView),
}


class ExplainTab(Viewer):
    """What the opened finding says, the choice of a question, and its view.

    The address holds the choice. Without one, an opened finding asks what is different since its onset.
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._evidence = note_pane("rl-explain-finding")
        self._tools = ToolRows(context)
        self._choice = select_field("explain-what", tr("View"), 260)
        self._choice.param.update(options={tr(label): key for key, (label, _) in _VIEWS.items()})
        self._column = pn.Column(
            self._evidence,
            self._tools,
            pn.Row(self._choice, margin=(8, 10, 0, 10)),
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-explain-tab"],
        )
        self._views = {
            key: LazyView(partial(self._make, key, view), self._column) for key, (_, view) in _VIEWS.items()
        }
        self._choice.param.watch(self._on_choice, "value")
        context.selection.param.watch(self._show, "explain")
        context.param.watch(self._show, "shaded_steps")
        self.param.watch(self._show, "active")
        self._show()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _make(self, key: str, make: Callable[[Context], Any]) -> Any:
        view = make(self.context)
        if "asked" in view.param:
            view.param.watch(partial(self._on_asked, key), "asked")
        return view

    def _question(self) -> tuple[str, tuple[str, ...]]:
        """Return the question of the address and what it needs; without one, that of the opened finding."""
        key, *needs = self.context.selection.explain.split(":")
        if key in _VIEWS:
            return key, tuple(unquote(need) for need in needs)
        found = self.context.shaded_steps
        return ("contrast", ()) if found and ranges_of(found, self.context.snapshot) else ("shares", ())

    def _show(self, *_: Any) -> None:
        """Show the opened finding, and activate the view of the question only."""
        if not self.active:
            for view in self._views.values():
                view.set_active(False)
            self._tools.active = False
            return
        found = self.context.shaded_steps
        lines = found.evidence if found else ()
        self._evidence.html = "".join(f"<p>{safe_text(line)}</p>" for line in lines)
        self._evidence.visible = bool(lines)
        self._tools.active = bool(found and found.tool)
        question, needs = self._question()
        self._choice.value = question
        for key, place in self._views.items():
            if key == question and "asked" in place.view.param:
                place.view.asked = needs
            place.set_active(key == question)

    def _on_choice(self, event: Any) -> None:
        if self.active and event.new != self._question()[0]:
            self.context.selection.explain = event.new

    def _on_asked(self, key: str, event: Any) -> None:
        """Write what a view was asked into the address; nothing where it is what the view asks by itself."""
        if self.active and (key, event.new) != self._question():
            self.context.selection.explain = ":".join([key, *(quote(need, safe="") for need in event.new)])
