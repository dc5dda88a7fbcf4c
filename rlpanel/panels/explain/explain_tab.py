"""Page of the run that says what changed: a finding with its evidence, and one of five views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.explain.bisect_view import BisectView
from rlpanel.panels.explain.cluster_view import ClusterView
from rlpanel.panels.explain.contrast_sides import marked_of, ranges_of
from rlpanel.panels.explain.contrast_view import ContrastView
from rlpanel.panels.explain.scatter_view import ScatterView
from rlpanel.panels.explain.step_shares import StepShares, metrics_with_shares
from rlpanel.panels.explain.tool_rows import ToolRows
from rlpanel.panels.inputs.input_fields import select_field
from rlpanel.panels.inputs.lazy_view import LazyView
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.marked_steps import MarkedSteps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text

#: Label and view of each question of `rlpanel.board_url.QUESTIONS`.
_VIEWS: dict[str, tuple[str, Callable[[Context], Any]]] = {
    "shares": (marked("Why a number changed"), StepShares),
    "bisect": (marked("What changed first (bisect)"), BisectView),
    "contrast": (marked("What is different in two sets"), ContrastView),
    "repeats": (marked("Responses that repeat"), ClusterView),
    "scatter": (marked("Two numbers of each sample"), ScatterView),
}


class ExplainTab(Viewer):
    """The opened finding, the choice of a question, and its view.

    Without an opened finding it is the worst one of a curve, until the viewer chooses a step. The address
    holds the choice of the question. Without one, the finding asks why its number changed, or what is
    different since its onset if that number has no shares.
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._evidence = Html(
            stylesheets=[theme.CSS, read_assets("panels/explain/finding_card.css")],
            sizing_mode="stretch_width",
            margin=(8, 12, 4, 12),
            css_classes=["rl-explain-finding"],
        )
        self._found: MarkedSteps | None = None
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
        context.param.watch(self._on_marked, ["shaded_steps", "shaded_by_column"])
        context.param.watch(self._show_finding, "headline")
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
        found, context = self._found, self.context
        if found is None or ranges_of(found, context.snapshot) is None:
            return "shares", ()
        has_shares = found.compared is not None and found.column in metrics_with_shares(context.view)
        return ("shares" if has_shares else "contrast"), ()

    def _on_marked(self, *_: Any) -> None:
        if marked_of(self.context) != self._found:
            self._show()

    def _show(self, *_: Any) -> None:
        """Show the finding, and activate the view of the question only."""
        self._found = marked_of(self.context)
        if not self.active:
            for view in self._views.values():
                view.set_active(False)
            self._tools.active = False
            return
        opened = self.context.shaded_steps
        self._show_finding()
        self._tools.active = bool(opened and opened.tool)
        question, needs = self._question()
        self._choice.value = question
        for key, place in self._views.items():
            if key == question and "asked" in place.view.param:
                place.view.asked = needs
            place.set_active(key == question)

    def _show_finding(self, *_: Any) -> None:
        """Show what the finding rests on, and its sentence unless the line above has it."""
        if not self.active:
            return
        found, context = self._found, self.context
        self._evidence.visible = found is not None
        if found is not None:
            sentence = "" if found.sentence == context.headline else found.sentence
            self._evidence.html = _card(found, sentence, is_opened=context.shaded_steps is not None)

    def _on_choice(self, event: Any) -> None:
        if self.active and event.new != self._question()[0]:
            self.context.selection.explain = event.new

    def _on_asked(self, key: str, event: Any) -> None:
        """Write what a view was asked into the address; nothing where it is what the view asks by itself."""
        if self.active and (key, event.new) != self._question():
            self.context.selection.explain = ":".join([key, *(quote(need, safe="") for need in event.new)])


def _card(found: MarkedSteps, sentence: str, *, is_opened: bool) -> str:
    """Return a finding as HTML: title, what it says unless that is empty, evidence, what to check next."""
    kind = found.text if is_opened else tr("{title}, the worst finding now", title=found.text)
    lines = "".join(f"<li>{safe_text(line)}</li>" for line in found.evidence)
    advice = tr("Check next:")
    next_ = f'<p class="next"><b>{advice}</b> {safe_text(found.advice)}</p>' if found.advice else ""
    claim = f'<p class="claim">{safe_text(sentence)}</p>' if sentence else ""
    mark = "▲" if found.color == theme.SEVERITY_COLORS["alarm"] else "●"
    return (
        f'<div class="found" style="--mark: var(--rl-{found.color})">'
        f'<p class="kind"><i aria-hidden="true">{mark}</i> {safe_text(kind)}</p>'
        f"{claim}<ul>{lines}</ul>{next_}</div>"
    )
