"""The tab that sets a response beside the reference's response and the ground truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.prompt_text import answer_html, extra_html, prompt_block, text_pane
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.prompt_parts import TextStyle


class ReferenceTab(Viewer):
    """Prompt, logged answers side by side with their rewards, and all other keys of the sample's line."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._texts = text_pane("rl-pair")
        self._column = pn.Column(self._texts, sizing_mode="stretch_both", scroll="y-auto", margin=0)
        context.param.watch(self._draw, ["sample", "text_conditions"])
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if self.active:
            context = self.context
            self._texts.html = _answers_html(context.sample, text_style(context), context.text_conditions)


def _answers_html(sample: Sample | None, style: TextStyle, tests: Sequence[TextPredicate]) -> str:
    """The answers that were logged, side by side below the prompt; what the tests find is marked."""
    if sample is None:
        return ""
    texts = (
        ("response", tr("Response"), sample.reward, sample.valid_reward, "policy"),
        ("ref_response", tr("Reference response"), sample.ref_reward, sample.ref_valid_reward, "reference"),
        ("ground_truth", tr("Ground truth"), math.nan, math.nan, "good"),
    )
    finder = PlaceFinder(tests)
    cells = "".join(
        f'<section><h5><span class="{color}">{title}</span>'
        f"{_score('reward', reward)}{_score('valid', valid)}</h5>"
        f"<p>{answer_html(text, style, finder.places(name, text))}</p></section>"
        for name, title, reward, valid, color in texts
        if (text := getattr(sample, name)) is not None
    )
    gaps = "".join(
        f"<span>{label} <b>{number(sample.columns[name], sign=True)}</b></span>"
        for name, label in (("reward_gap", "reward gap"), ("valid_reward_gap", "valid reward gap"))
        if not math.isnan(sample.columns.get(name, math.nan))
    )
    return (
        prompt_block(sample, style, tests)
        + (f'<div class="gaps">{gaps}</div>' if gaps else "")
        + f'<div class="pair">{cells}</div>'
        + extra_html(sample)
    )


def _score(label: str, value: float) -> str:
    return "" if math.isnan(value) else f"<em>{label} <b>{number(value)}</b></em>"
