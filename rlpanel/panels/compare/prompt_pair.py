"""One prompt in two runs: what each answered, side by side with what differs, or token by token."""

from __future__ import annotations

from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.prompt_matching import ComparedRun, RunComparison
from rlpanel.panels.compare.response_diff import NOW_CHARS, DiffSide, pages, select
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.token_view import TokenView
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.prompt_text import clean, one_line
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch import fetch

_DIFF, _TOKENS = "diff", "tokens"
_NOTE = '<p class="note">{}</p>'


class PromptPair:
    """The pair; a choice of diff or tokens, and a way to either sample.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._samples: tuple[Sample, Sample] | None = None
        self._labels = ("", "")
        self._work: BackgroundTask[str] = BackgroundTask(self._put)
        self._head = _html("rl-run-pair-head")
        self._diff = _html("rl-run-pair")
        self._tokens: tuple[TokenView, TokenView] | None = None
        self._captions = (_html(""), _html(""))
        self._how = select("pair-how", 190)
        self._how.param.update(options={"where they differ": _DIFF, "token by token": _TOKENS}, value=_DIFF)
        self._opens = tuple(
            pmui.Button(label=name, size="small", variant="text", margin=0, align="center")
            for name in ("open this run's", "open the other's")
        )
        for place, button in enumerate(self._opens):
            button.on_click(partial(self._go, place))
        self._body = pn.Column(
            self._diff, sizing_mode="stretch_width", margin=0, css_classes=["rl-compare-tokens"]
        )
        self.view = pn.Column(
            pn.Row(self._how, *self._opens, margin=(4, 10, 0, 10)),
            self._head,
            self._body,
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
        )
        self._how.param.watch(self._draw, "value")
        context.selection.param.watch(self._restyle, ["dark", "metric"])
        context.display.param.watch(self._draw, ["pad_token", "kl_estimator"])

    def show(self, found: RunComparison | None, place: int, labels: tuple[str, str]) -> None:
        """Show a pair of a comparison; None takes it away."""
        self._work.stop()
        self._samples, self._labels = None, labels
        self.view.visible = found is not None
        if found is None:
            return
        try:
            self._samples = (
                _sample(found.here, found.pairs.here.row[place]),
                _sample(found.there, found.pairs.there.row[place]),
            )
        except RLPanelError as error:
            self._head.object = _NOTE.format(safe_text(error))
            return
        counts = int(found.pairs.here.samples[place]), int(found.pairs.there.samples[place])
        self._head.object = self._head_html(self._samples[0], counts)
        self._draw()

    def _head_html(self, sample: Sample, counts: tuple[int, int]) -> str:
        display = self.context.display
        prompt = safe_text(one_line(clean(sample.prompt or "", display.pad_token, display.system_end)))
        several = ""
        if max(counts) > 1:
            several = f" · of {counts[0]:,} and {counts[1]:,} samples those nearest to their mean reward"
        return f'<p class="note">{prompt}{several}</p>'

    def _draw(self, *_: Any) -> None:
        if self._samples is None:
            return
        if self._how.value == _TOKENS:
            self._draw_tokens()
            return
        here, there = self._samples
        self._body.objects = [self._diff]
        side = DiffSide(
            self._labels[1], f"step {there.step} · {there.place}", "reference", there.response, there.reward,
            there.response_tokens,
        )  # fmt: skip
        results = pages(here, side, self.context.display.pad_token, self._labels[0])
        if len(here.response or "") + len(there.response or "") <= NOW_CHARS:
            self._put(next(results))
        else:
            self._put(_NOTE.format("comparing …"))
            self._work.start(results)

    def _put(self, html: str) -> None:
        self._diff.object = html

    def _draw_tokens(self) -> None:
        """Both responses, one above the other, coloured alike."""
        if self._samples is None:
            return
        if self._tokens is None:
            dark, metric = self.context.selection.dark, self.context.selection.metric
            self._tokens = TokenView(dark=dark, metric=metric), TokenView(dark=dark, metric=metric)
        parts: list[Any] = []
        display = self.context.display
        colors = ("policy", "reference")
        shown = zip(self._samples, self._tokens, self._captions, self._labels, colors, strict=True)
        for sample, view, caption, label, color in shown:
            caption.object = f'<h5 class="{color}">{safe_text(label)} · step {sample.step}</h5>'
            view.param.update(sample=sample, pad_token=display.pad_token, kl_estimator=display.kl_estimator)
            parts += [caption, pn.Column(view, sizing_mode="stretch_width", margin=(0, 14))]
        self._body.objects = parts

    def _restyle(self, *_: Any) -> None:
        for view in self._tokens or ():
            view.param.update(dark=self.context.selection.dark, metric=self.context.selection.metric)

    def _go(self, place: int, *_: Any) -> None:
        """Show a sample itself, in its run, at its step."""
        if self._samples is not None:
            selection, sample = self.context.selection, self._samples[place]
            run = (selection.run, selection.against)[place]
            selection.param.update(run=run, step=sample.step, uid=sample.uid, token=-1, follow=False)


def _sample(seat: ComparedRun, row: int) -> Sample:
    return fetch(seat.index, seat.view, int(row))


def _html(name: str) -> pn.pane.HTML:
    return pn.pane.HTML(
        "",
        stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
        sizing_mode="stretch_width",
        margin=(4, 14, 0, 14),
        css_classes=[name] if name else [],
    )
