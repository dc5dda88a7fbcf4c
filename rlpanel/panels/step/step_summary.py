"""Means of the selected step, with their change since the previous step."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.metrics.engine import column_info
from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import delta, number, safe_text
from rlpanel.store.snapshot.run_view import RunView

#: Step metrics that show whether training can work at all.
_POOLED = ("var_explained", "clipfrac", "engine_mismatch", "zero_variance_groups", "repeated_responses")


class StepSummary(Viewer):
    """A card with the step's means and their change since the previous step."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/step/step_summary.css")],
            margin=0,
            sizing_mode="stretch_width",
        )
        # The card is hidden, not the pane: an HTML pane fails if it is shown before it was first rendered.
        self._card = pn.Column(
            self._pane,
            styles=theme.CARD,
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
            css_classes=["rl-numbers"],
        )
        watch_step(context, self._draw)
        context.display.param.watch(self._draw, ["kl_estimator", "per_sequence"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw(self, *_: Any) -> None:
        view, step = self.context.view, self.context.selection.step
        position = view.snapshot.steps.position(step) if step is not None else -1
        names = [name for name in self._names() if view.has(name)]
        self._card.visible = position >= 0 and bool(names)
        if self._card.visible:
            self._pane.object = cached_on(
                view, "numbers", (position, *names), lambda: _html(view, names, position)
            )

    def _names(self) -> list[str]:
        kl = self.context.display.kl_estimator
        length = (
            "response_tokens" if self.context.snapshot.has_number("response_tokens") else "response_chars"
        )
        rewards = [
            "reward",
            "ref_reward",
            "reward_gap",
            "valid_reward",
            "ref_valid_reward",
            "valid_reward_gap",
        ]
        usual = [*rewards, "log_ratio_mean", f"{kl}_sum", length, "truncated", "token_entropy_mean"]
        return [*usual, *_POOLED]


def _html(view: RunView, names: list[str], position: int) -> str:
    return "<dl>" + "".join(_pair(view, name, position) for name in names) + "</dl>"


def _pair(view: RunView, name: str, position: int) -> str:
    column = column_info.describe(name)
    means = view.step_values(name)
    change = delta(float(means[position]), float(means[position - 1])) if position else ""
    label = f"{column.label} {'sum' if name.endswith('_sum') else ''}"
    return (
        f'<div title="{safe_text(column.tip)}"><dt>{safe_text(label)}</dt>'
        f"<dd>{number(float(means[position]))} {change}</dd></div>"
    )
