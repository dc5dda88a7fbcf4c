"""Page of the run that says what changed: a finding, its evidence and tools, and one of five views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.explain.bisect_view import BisectView
from rlpanel.panels.explain.cluster_view import ClusterView
from rlpanel.panels.explain.contrast_sides import marked_of, ranges_of
from rlpanel.panels.explain.contrast_view import ContrastView
from rlpanel.panels.explain.link_rows import LinkRows, link_row, show_samples
from rlpanel.panels.explain.scatter_view import ScatterView
from rlpanel.panels.explain.step_shares import StepShares, metrics_with_shares
from rlpanel.panels.inputs.input_fields import LazyView, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS
from rlpanel.store.snapshot.snapshot import Snapshot

# -- tool rows -----------------------------------------------------------------------------------------
# Calls and errors of each tool in the steps of the opened finding, beside those of the steps before.


class ToolRows(LinkRows):
    """A row for each tool; a click shows its rollouts with an error.

    Attributes
    ----------
    active : bool
        Whether the opened finding is about a tool.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(self._show_failed, "rl-explain-tools")
        self.context = context
        self.visible = False

    @property
    def active(self) -> bool:
        """Whether the rows are shown."""
        return self.visible

    @active.setter
    def active(self, value: bool) -> None:
        self.visible = value
        if value:
            titles = ["", tr("failed"), tr("tool"), tr("before"), tr("calls"), tr("errors"), tr("rollouts")]
            self.param.update(titles=titles, rows=self._tools(), chosen="")

    def _tools(self) -> list[dict[str, Any]]:
        snapshot, found = self.context.snapshot, self.context.shaded_steps
        if found is None:
            return []
        rows = snapshot.alive_rows
        step = snapshot.metadata("step")[rows]
        ranges = ranges_of(found, snapshot)
        now = rows[np.isin(step, found.steps)]
        before = rows[(step >= ranges.before[0]) & (step <= ranges.before[1])] if ranges else rows[:0]
        tools = [name.removeprefix(TOOL_CALLS) for name in snapshot.numbers if name.startswith(TOOL_CALLS)]
        counted = [(tool, _count(snapshot, tool, now), _count(snapshot, tool, before)) for tool in tools]
        counted = [each for each in counted if each[1][0]]
        counted.sort(key=lambda each: -each[1][1] / each[1][0])
        return [_row(tool, later, earlier) for tool, later, earlier in counted]

    def _show_failed(self, tool: str) -> None:
        snapshot, column = self.context.snapshot, f"{TOOL_ERRORS}{tool}"
        if "`" in tool or not snapshot.has_number(column):
            return
        rows = snapshot.rows_of(self.context.selection.step)
        errors = np.nan_to_num(snapshot.number(column)[rows])
        uids = snapshot.uids(rows[np.argsort(-errors, kind="stable")][:1])
        show_samples(self.context, f"`{column}` > 0", uids, self.context.selection.step)
        self.context.selection.param.update(page="samples", tab="conversation")


def _count(snapshot: Snapshot, tool: str, rows: np.ndarray) -> tuple[float, float, int, int]:
    """Return the calls of a tool and its errors, the rollouts that call it, and those with an error."""
    calls = np.nan_to_num(snapshot.number(f"{TOOL_CALLS}{tool}")[rows])
    errors = (
        np.nan_to_num(snapshot.number(f"{TOOL_ERRORS}{tool}")[rows])
        if snapshot.has_number(f"{TOOL_ERRORS}{tool}")
        else np.zeros(len(rows))
    )
    return float(calls.sum()), float(errors.sum()), int((calls > 0).sum()), int((errors > 0).sum())


def _row(
    tool: str, later: tuple[float, float, int, int], earlier: tuple[float, float, int, int]
) -> dict[str, Any]:
    calls, errors, rollouts, with_error = later
    before = f"{earlier[1] / earlier[0]:.0%}" if earlier[0] else "–"
    tip = tr(
        "{with_error:,} of the {rollouts:,} rollouts that call it have an error of {tool}: {share:.0%}. "
        "Click to see them.",
        with_error=with_error,
        rollouts=rollouts,
        tool=tool,
        share=with_error / max(rollouts, 1),
    )
    figures = [before, number(calls), number(errors), f"{with_error:,} / {rollouts:,}"]
    return link_row(tool, tool, f"{errors / calls:.0%}", errors / calls, figures, tip=tip)


# -- explain tab ---------------------------------------------------------------------------------------
# Page of the run that says what changed: a finding with its evidence, and one of five views.


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
