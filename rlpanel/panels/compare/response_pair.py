"""Compares two runs on one prompt: the table of prompts, and the chosen pair of responses."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import panel as pn

from rlpanel.analysis.run_comparison import ComparedRun, RunComparison
from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.text_diff import NOW_CHARS, DiffSide
from rlpanel.panels.compare.turn_pair import rollouts_html
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn, DataTable
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, settings_style, text_style
from rlpanel.panels.tokens.token_view import TokenView, sample_scales, widest
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.texts.prompt_parts import TextStyle, prompt_cell, prompt_line
from rlpanel.texts.shorten import one_line

_DIFF, _TOKENS = "diff", "tokens"


class ResponsePair:
    """View of the two responses: choice of text diff or tokens, and buttons that open either sample.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._samples: tuple[Sample, Sample] | None = None
        self._scales: dict[str, Any] = {}
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
        context.selection.param.watch(self._restyle, ["dark", "metric", "scale"])
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
        self._scales = widest(
            sample_scales(comparison.here.snapshot, self._samples[0]),
            sample_scales(comparison.there.snapshot, self._samples[1]),
        )
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
        results = rollouts_html(self._samples, (left, right), settings_style(self.context.display))
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
            for view in self._tokens:
                view.scale = self.context.selection.scale
                view.param.watch(lambda event: setattr(self.context.selection, "scale", event.new), "scale")
        parts: list[Any] = []
        display = self.context.display
        colors = ("policy", "reference")
        sides = zip(self._samples, self._tokens, self._captions, self._labels, colors, strict=True)
        for sample, view, caption, label, color in sides:
            caption.html = f'<h5 class="{color}">{safe_text(label)} · step {sample.step}</h5>'
            options = {"pad_token": display.pad_token, "kl_estimator": display.kl_estimator}
            view.param.update(sample=sample, scales=self._scales, **options)
            parts += [caption, pn.Column(view, sizing_mode="stretch_width", margin=(0, 14))]
        self._body.objects = parts

    def _restyle(self, *_: Any) -> None:
        for view in self._tokens or ():
            selection = self.context.selection
            view.param.update(dark=selection.dark, metric=selection.metric, scale=selection.scale)

    def _open(self, side: int, *_: Any) -> None:
        """Select one of the two samples in the board: its run, its step and the sample."""
        if self._samples is not None:
            selection, sample = self.context.selection, self._samples[side]
            run = (selection.run, selection.compared_run)[side]
            zoom = selection.zoom if run == selection.run else None
            selection.param.update(
                run=run, step=sample.step, uid=sample.uid, token=-1, follow=False, zoom=zoom
            )


def _sample(run: ComparedRun, row: int) -> Sample:
    return fetch(run.index, run.view, int(row))


def _html(name: str) -> Html:
    return Html(
        stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
        sizing_mode="stretch_width",
        margin=(4, 14, 0, 14),
        css_classes=[name] if name else [],
    )


PAGE = 8
_NUMBERS = ("here", "there", "difference", "n here", "n there", "step here", "step there")
#: Column that marks the prompts of the win rate; shown if a best step was chosen by the other prompts.
_USED = "used"
#: Head above a column, and its own.
_HEADS = {
    "here": (marked("reward"), marked("here")),
    "there": (marked("reward"), marked("there")),
    "difference": (marked("reward"), marked("difference")),
    "n here": (marked("samples"), marked("here")),
    "n there": (marked("samples"), marked("there")),
    "step here": (marked("step"), marked("here")),
    "step there": (marked("step"), marked("there")),
    _USED: ("", _USED),
}
_TIPS = {
    "here": marked("Mean of the compared reward over the prompt's samples in this run."),
    "there": marked("Mean of the compared reward over the prompt's samples in the other run."),
    "difference": marked("This run's mean minus the other run's."),
    "n here": marked("Number of samples in this run."),
    "n there": marked("Number of samples in the other run."),
    "step here": marked("Step of this run's samples."),
    "step there": marked("Step of the other run's samples."),
    _USED: marked(
        "✓: counted in the win rate, the mean difference and the chart. The best step was chosen on "
        "the other prompts."
    ),
}


class PromptTable:
    """Sortable table of the prompts in both runs.

    Parameters
    ----------
    choose : callable
        Called with the index of the clicked prompt among the pairs.
    """

    def __init__(self, choose: Callable[[int], None]) -> None:
        self._choose = choose
        self.view = DataTable(
            [DataColumn("prompt", "prompt"), *map(_column, (*_NUMBERS, _USED))],
            key="pair",
            page_size=PAGE,
            by_room=True,
            pick=self._pick,
            empty=tr("The runs have no prompt in common"),
            min_height=PAGE * ROW_HEIGHT + 88,
            sizing_mode="stretch_both",
            margin=(4, 8),
            css_classes=["rl-pairs"],
        )

    def draw(self, comparison: RunComparison, style: TextStyle) -> None:
        """Show the prompts of a comparison."""
        pairs, listed = comparison.pairs, comparison.listed
        here, there = pairs.here.take(listed), pairs.there.take(listed)
        columns = [here.reward, there.reward, here.reward - there.reward]
        columns += [here.samples, there.samples, here.step, there.step]
        prompts = [prompt_line(text, style) for text in comparison.prompts]
        frame = _frame(prompts, dict(zip(_NUMBERS, columns, strict=True)))
        frame["pair"] = listed.astype(str)
        frame[_USED] = np.where(pairs.held_out[listed], "✓", "")
        self.view.hide(_USED, hidden=bool(pairs.held_out.all()))
        if not frame.equals(self.view.frame):
            self.view.draw(frame)

    def _pick(self, pair: str, _: str) -> None:
        if pair.isdecimal():
            self._choose(int(pair))


def _column(name: str) -> DataColumn:
    group, title = _HEADS[name]
    return DataColumn(
        name,
        tr(title),
        tip=tr(_TIPS[name]),
        width=94 if name == "difference" else 70,
        align="center" if name == _USED else "right",
        group=tr(group),
    )


def _frame(prompts: list[str], numbers: dict[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"prompt": pd.Series(prompts, dtype=str), **numbers})
