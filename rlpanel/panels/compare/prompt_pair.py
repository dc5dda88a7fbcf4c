"""Responses of two runs to one prompt: as a text diff or token by token."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import panel as pn

from rlpanel.analysis.run_comparison import ComparedRun, RunComparison
from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.response_diff import NOW_CHARS, DiffSide, diff_html
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, settings_style, text_style
from rlpanel.panels.tokens.token_view import TokenView
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.texts.prompt_parts import prompt_cell
from rlpanel.texts.shorten import one_line

_DIFF, _TOKENS = "diff", "tokens"


class PromptPair:
    """View of the two responses: choice of text diff or tokens, and buttons that open either sample.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._samples: tuple[Sample, Sample] | None = None
        self._labels = ("", "")
        self._rewards, self._reward_name = (math.nan, math.nan), "reward"
        self._work: BackgroundTask[str] = BackgroundTask(self._show_diff, context.threads.views)
        self._head = _html("rl-run-pair-head")
        self._diff = _html("rl-run-pair")
        self._tokens: tuple[TokenView, TokenView] | None = None
        self._captions = (_html(""), _html(""))
        self._mode = select_field("pair-how", tr("How to compare"), 190)
        self._mode.param.update(options={tr("Text diff"): _DIFF, tr("Token by token"): _TOKENS}, value=_DIFF)
        self._open_buttons = tuple(
            button(name) for name in (tr("Open this run's sample"), tr("Open the other run's sample"))
        )
        for side, opener in enumerate(self._open_buttons):
            opener.on_click(partial(self._open, side))
        self._body = pn.Column(
            self._diff, sizing_mode="stretch_width", margin=0, css_classes=["rl-compare-tokens"]
        )
        self.view = pn.Column(
            FieldRow(self._mode, *self._open_buttons, margin=(4, 10, 0, 10)),
            self._head,
            self._body,
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
        )
        self._mode.param.watch(self._draw, "value")
        context.selection.param.watch(self._restyle, ["dark", "metric"])
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "kl_estimator"])

    def show(self, comparison: RunComparison | None, pair: int, labels: tuple[str, str]) -> None:
        """Show a pair of a comparison by its index; None hides the view."""
        self._work.stop()
        self._samples, self._labels = None, labels
        self.view.visible = comparison is not None
        if comparison is None:
            return
        try:
            self._samples = (
                _sample(comparison.here, comparison.pairs.here.row[pair]),
                _sample(comparison.there, comparison.pairs.there.row[pair]),
            )
        except RLPanelError as error:
            self._head.html = note_html(error)
            return
        sides = comparison.pairs.here, comparison.pairs.there
        self._rewards = float(sides[0].row_reward[pair]), float(sides[1].row_reward[pair])
        self._reward_name = "shared reward" if comparison.reward.functions else "reward"
        counts = int(comparison.pairs.here.samples[pair]), int(comparison.pairs.there.samples[pair])
        self._head.html = self._head_html(self._samples[0], counts)
        self._draw()

    def _head_html(self, sample: Sample, counts: tuple[int, int]) -> str:
        prompt = safe_text(one_line(prompt_cell(sample.prompt or "", text_style(self.context))))
        choice = ""
        if max(counts) > 1:
            choice = tr(
                " · of {here:,} and {there:,} samples, those closest to their mean reward",
                here=counts[0],
                there=counts[1],
            )
        return f'<p class="note">{prompt}{choice}</p>'

    def _draw(self, *_: Any) -> None:
        if self._samples is None:
            return
        if self._mode.value == _TOKENS:
            self._draw_tokens()
            return
        here, there = self._samples
        self._body.objects = [self._diff]
        left = DiffSide(
            self._labels[0], "", "policy", here.response, self._rewards[0], here.response_tokens,
            self._reward_name,
        )  # fmt: skip
        right = DiffSide(
            self._labels[1], tr("step {step} · {place}", step=there.step, place=there.place),
            "reference", there.response,
            self._rewards[1], there.response_tokens, self._reward_name,
        )  # fmt: skip
        results = diff_html(left, right, settings_style(self.context.display))
        if len(here.response or "") + len(there.response or "") <= NOW_CHARS:
            self._show_diff(next(results))
        else:
            self._show_diff(note_html(tr("Comparing …")))
            self._work.start(results)

    def _show_diff(self, html: str) -> None:
        self._diff.html = html

    def _draw_tokens(self) -> None:
        """Draw both responses in token views, one above the other, with the same metric."""
        if self._samples is None:
            return
        if self._tokens is None:
            dark, metric = self.context.selection.dark, self.context.selection.metric
            self._tokens = TokenView(dark=dark, metric=metric), TokenView(dark=dark, metric=metric)
        parts: list[Any] = []
        display = self.context.display
        colors = ("policy", "reference")
        sides = zip(self._samples, self._tokens, self._captions, self._labels, colors, strict=True)
        for sample, view, caption, label, color in sides:
            caption.html = f'<h5 class="{color}">{safe_text(label)} · step {sample.step}</h5>'
            view.param.update(sample=sample, pad_token=display.pad_token, kl_estimator=display.kl_estimator)
            parts += [caption, pn.Column(view, sizing_mode="stretch_width", margin=(0, 14))]
        self._body.objects = parts

    def _restyle(self, *_: Any) -> None:
        for view in self._tokens or ():
            view.param.update(dark=self.context.selection.dark, metric=self.context.selection.metric)

    def _open(self, side: int, *_: Any) -> None:
        """Select one of the two samples in the board: its run, its step and the sample."""
        if self._samples is not None:
            selection, sample = self.context.selection, self._samples[side]
            run = (selection.run, selection.compared_run)[side]
            selection.param.update(run=run, step=sample.step, uid=sample.uid, token=-1, follow=False)


def _sample(run: ComparedRun, row: int) -> Sample:
    return fetch(run.index, run.view, int(row))


def _html(name: str) -> Html:
    return Html(
        stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
        sizing_mode="stretch_width",
        margin=(4, 14, 0, 14),
        css_classes=[name] if name else [],
    )
