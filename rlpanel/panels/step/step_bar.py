"""Step bar with a slider over the steps, and means of the step that no curve shows."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.curves.curve_bar import curves_of, show_curve
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import current_language, tr, trn
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.context_parts import step_doubts
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

# -- step bar ------------------------------------------------------------------------------------------
# Step bar: ◀ ▶, a slider over the steps, and a switch to follow the newest one.


class StepBar(Component):
    """Buttons, label, slider and switch, drawn by ``step_bar.js``; sends what the user does with them.

    It never sends a value that it received. If the server changed a value twice in a short time, the first
    one would return as if the user had chosen it.

    A message is a pair of an action and its argument: ``["move", ±1]``, ``["show", share]`` while the slider
    is dragged, ``["select", share]`` when it is released, ``["follow", true or false]``. A share is the
    slider's position from 0 (first step) to 1 (last step).
    """

    steps = param.Integer(default=0, doc="Number of steps.")
    position = param.Integer(default=0, doc="Position of the selected step, from 0.")
    label = param.String(default="", doc="Name of the step that is selected or dragged to; empty for none.")
    note = param.String(default="", doc="Text behind the label.")
    doubts = param.String(default="", doc="Remarks on the step's samples; empty for none.")
    follow = param.Boolean(default=True, doc="Whether the newest complete step is selected automatically.")

    _esm = read_assets("panels/ui/dom.js", "panels/step/step_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/step/step_bar.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(
            styles=theme.CARD,
            height=40,
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-card", "rl-stepbar"],
        )
        self.context = context
        context.param.watch(self._draw_later, "view")
        context.selection.param.watch(self._draw_later, ["step", "follow"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Handle what the user did. The message comes from the browser."""
        action, value = pair_of(message)
        if action == "move" and value in (-1, 1):
            self.context.move_step(int(value))
        elif action == "show" and _is_share(value):
            self.param.update(self._texts(self._step_at(value)))
        elif action == "select" and _is_share(value):
            self.context.choose_step(self._step_at(value))
            self._draw()
        elif action == "follow" and isinstance(value, bool):
            self.context.selection.follow = value

    def _draw_later(self, *_: Any) -> None:
        self.context.draw_later(self._draw)

    def _draw(self) -> None:
        steps, selection = self.context.snapshot.steps, self.context.selection
        position = steps.position(selection.step) if selection.step is not None else -1
        self.param.update(
            steps=len(steps.values),
            position=max(0, position),
            follow=selection.follow,
            **self._texts(selection.step),
        )

    def _texts(self, step: int | None) -> dict[str, str]:
        """Return the label of a step, and the texts behind it."""
        steps = self.context.snapshot.steps
        if step is None or not len(steps.values):
            return {"label": "", "note": tr("no steps yet"), "doubts": ""}
        position = steps.position(step)
        count = (
            trn(", {count:,} sample", ", {count:,} samples", int(steps.samples[position]))
            if position >= 0
            else ""
        )
        if position >= 0 and steps.episodes[position] != steps.samples[position]:
            count += trn(", {count:,} episode", ", {count:,} episodes", int(steps.episodes[position]))
        place = tr("of {last}", last=int(steps.values[-1])) if len(steps.values) > 1 else tr("· the only one")
        return {
            "label": tr("Step {step}", step=step),
            "note": f"{place}{count}",
            "doubts": " · ".join(step_doubts(self.context.snapshot, step)),
        }

    def _step_at(self, share: float) -> int | None:
        """Return the step at a share of the slider; steps may have been added since the browser drew it."""
        values = self.context.snapshot.steps.values
        return int(values[round(share * (len(values) - 1))]) if len(values) else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


# -- step summary --------------------------------------------------------------------------------------
# Means of the selected step that no curve shows; a click shows the curve.


#: Step metrics that show whether training can work at all.
_POOLED = ("var_explained", "clipfrac", "engine_mismatch", "zero_variance_groups", "repeated_responses")


class StepSummary(Component):
    """A card with the step's means; a click shows the curve, whose head then has the number."""

    numbers = param.List(default=[], doc="One JSON object per number.")
    tips = param.Dict(default={}, doc="Explanation of each column; it does not change with the step.")

    LARGE = frozenset({"tips"})

    _esm = read_assets("panels/ui/dom.js", "panels/step/step_numbers.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/step/step_summary.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(
            styles=theme.CARD,
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
            css_classes=["rl-numbers"],
        )
        self.context = context
        watch_step(context, self._draw)
        context.display.param.watch(self._draw, ["kl_estimator", "per_sequence"])
        context.selection.param.watch(self._draw, ["curves"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Show the curve of the column that the browser names."""
        if isinstance(message, str):
            show_curve(self.context, message)

    def _draw(self, *_: Any) -> None:
        numbers = step_numbers(self.context)
        tips = {number["column"]: described(number["column"]).tip for number in numbers}
        self.param.update(numbers=numbers or self.numbers, tips=tips or self.tips, visible=bool(numbers))


def step_numbers(context: Context) -> list[dict[str, str]]:
    """Return the step's means as JSON objects, cached on the view; empty while the step has no samples.

    Those that a curve's head shows are left out.
    """
    view, step = context.view, context.selection.step
    position = view.snapshot.steps.position(step) if step is not None else -1
    if position < 0:
        return []
    shown = {curve.columns[0] for curve in curves_of(context)}
    names = [name for name in _names(context) if view.has(name) and name not in shown]
    key = (position, current_language(), *names)
    return cached_on(view, "numbers", key, lambda: [_number_json(view, name, position) for name in names])


def step_numbers_html(context: Context) -> str:
    """Return the step's means as HTML, for the report."""
    numbers = step_numbers(context)
    return f"<dl>{''.join(map(_pair_html, numbers))}</dl>" if numbers else ""


def _names(context: Context) -> list[str]:
    kl = context.display.kl_estimator
    length = "response_tokens" if context.snapshot.has_number("response_tokens") else "response_chars"
    rewards = ["reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "valid_reward_gap"]
    usual = [*rewards, "log_ratio_mean", f"{kl}_sum", length, "truncated", "token_entropy_mean"]
    return [*usual, *_POOLED]


def _number_json(view: RunView, name: str, position: int) -> dict[str, str]:
    """Return a column's mean at a step as JSON object; its texts are not escaped."""
    column = described(name)
    [value] = view.values_at(name, (position,))
    return {
        "column": name,
        "label": column.label + (tr(" sum") if name.endswith("_sum") else ""),
        "value": number(value),
        "unit": tr(column.unit) if column.unit not in ("", "reward", "share") else "",
    }


def _pair_html(shown: dict[str, str]) -> str:
    text = {name: safe_text(value) for name, value in shown.items()}
    tip = safe_text(described(shown["column"]).tip)
    unit = f' <span class="delta">{text["unit"]}</span>' if text["unit"] else ""
    return f'<div title="{tip}"><dt>{text["label"]}</dt><dd>{text["value"]}{unit}</dd></div>'
