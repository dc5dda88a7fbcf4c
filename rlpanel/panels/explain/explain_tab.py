"""Tab of the sample panel that tells what changed: it shows one of four views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.explain.cluster_view import ClusterView
from rlpanel.panels.explain.contrast_view import ContrastView
from rlpanel.panels.explain.scatter_view import ScatterView
from rlpanel.panels.explain.step_shares import StepShares
from rlpanel.panels.inputs.input_fields import select_field
from rlpanel.panels.inputs.lazy_view import LazyView
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context

#: Label and view of each choice.
_VIEWS: dict[str, Callable[[Context], Any]] = {
    marked("Why a number changed at the step"): StepShares,
    marked("What is different in two sets"): ContrastView,
    marked("Responses that repeat"): ClusterView,
    marked("Two numbers of each sample"): ScatterView,
}


class ExplainTab(Viewer):
    """Choice of a view, and the view."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._choice = select_field("explain-what", tr("View"), 260)
        self._choice.param.update(options={tr(label): label for label in _VIEWS}, value=next(iter(_VIEWS)))
        self._column = pn.Column(
            pn.Row(self._choice, margin=(8, 10, 0, 10)),
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-explain-tab"],
        )
        self._views = {
            label: LazyView(partial(view, context), self._column) for label, view in _VIEWS.items()
        }
        self._choice.param.watch(self._activate, "value")
        self.param.watch(self._activate, "active")
        self._activate()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _activate(self, *_: Any) -> None:
        """Show and activate the chosen view only."""
        for label, view in self._views.items():
            view.set_active(self.active and self._choice.value == label)
