"""What is in it? One sample: its numbers, its tokens, and the pair with the reference."""

from __future__ import annotations

import math
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.schema import Sample
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.text import clean, prompt_html
from rlpanel.views.theme import number, safe_text
from rlpanel.views.tokens import TokenView


class SampleDetail(Viewer):
    """The right side of the board."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._head = pn.pane.HTML(
            "", stylesheets=[theme.CSS, _HEAD_CSS], sizing_mode="stretch_width", margin=(8, 14, 0, 14),
            css_classes=["rl-sample-head"],
        )  # fmt: skip
        self._prompt = _text_pane("rl-prompt")
        self._pair = _text_pane("rl-pair")
        self.tokens = TokenView(dark=context.selection.dark, metric=context.selection.metric)
        self._tabs = pmui.Tabs(
            ("Tokens", pn.Column(self._prompt, self.tokens, sizing_mode="stretch_both", scroll="y-auto", margin=0)),
            ("Pair", pn.Column(self._pair, sizing_mode="stretch_both", scroll="y-auto", margin=0)),
            sizing_mode="stretch_both", margin=0, dynamic=False, css_classes=["rl-tabs"],
            sx={"& .MuiTabs-root": {"minHeight": "34px"}, "& .MuiTab-root": {"minHeight": "34px", "padding": "4px 12px"}},
        )  # fmt: skip
        self._card = pn.Column(
            self._head, self._tabs, styles=theme.CARD, sizing_mode="stretch_both", margin=0, min_height=420,
            css_classes=["rl-card", "rl-sample"],
        )  # fmt: skip
        context.param.watch(self._draw, ["sample", "message"])
        context.display.param.watch(self._draw, ["pad_token", "system_end", "kl_estimator"])
        context.selection.param.watch(lambda event: setattr(self.tokens, "dark", event.new), "dark")
        self._link(context)
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _link(self, context: Context) -> None:
        """Metric and token go both ways between the view and the selection."""
        for name in ("metric", "token"):
            context.selection.param.watch(lambda event: setattr(self.tokens, event.name, event.new), name)
            self.tokens.param.watch(lambda event: setattr(context.selection, event.name, event.new), name)

    def _draw(self, *_: Any) -> None:
        sample, display = self.context.sample, self.context.display
        with pn.io.hold():
            self._head.object = self._head_html(sample)
            self._prompt.object = _prompt_block(sample, display.pad_token, display.system_end)
            self._prompt.visible = bool(self._prompt.object)
            self._pair.object = _pair_html(sample, display.pad_token, display.system_end)
            self.tokens.param.update(
                sample=sample, pad_token=display.pad_token, kl_estimator=display.kl_estimator,
                token=self.context.selection.token,
            )  # fmt: skip

    def _head_html(self, sample: Sample | None) -> str:
        if sample is None:
            words = self.context.message or "no sample selected"
            return f'<div class="head"><b>Sample</b><span class="note">{safe_text(words)}</span></div>'
        place = [f"step {sample.step}", f"rank {sample.rank}" if sample.rank >= 0 else "", f"line {sample.line:,}"]
        place += [f"group {sample.group}"] if sample.group else []
        where = " · ".join(part for part in place if part)
        notes = "".join(f'<div class="note kl">{safe_text(note)}</div>' for note in sample.notes)
        return (
            f'<div class="head" title="{safe_text(sample.uid)}" data-uid="{safe_text(sample.uid)}"><b>Sample</b>'
            f'<span class="note">{safe_text(where)}</span><span class="scores">{self._scores(sample)}</span></div>{notes}'
        )

    def _scores(self, sample: Sample) -> str:
        estimator = self.context.display.kl_estimator
        label = {"kl_k3": "KL k3 Σ", "kl_k2": "KL k2 Σ", "kl_rllb": "KL rllb Σ"}.get(estimator, "log-ratio Σ")
        shown = [
            ("reward", sample.reward, "policy", False),
            ("ref", sample.ref_reward, "reference", False),
            ("gap", sample.columns.get("reward_gap", math.nan), "muted", True),
            (label, sample.columns.get(f"{estimator}_sum", math.nan), "kl", True),
            ("advantage", sample.advantage, "muted", True),
            ("tokens", sample.columns.get("response_tokens", math.nan), "length", False),
        ]
        return "".join(
            f'<span>{safe_text(name)} <b class="{color}">{number(value, sign=sign)}</b></span>'
            for name, value, color, sign in shown
            if not math.isnan(value)
        )


def _prompt_block(sample: Sample | None, pad_token: str, system_end: str) -> str:
    if sample is None or sample.prompt is None:
        return ""
    return f'<div class="prompt"><span class="caption">Prompt</span> {prompt_html(sample.prompt, pad_token, system_end)}</div>'


def _pair_html(sample: Sample | None, pad_token: str, system_end: str) -> str:
    """Prompt above, then the answers side by side; what was not logged is not there."""
    if sample is None:
        return ""
    texts = (
        ("Response", sample.response, sample.reward, sample.valid_reward, "policy"),
        ("Reference response", sample.ref_response, sample.ref_reward, sample.ref_valid_reward, "reference"),
        ("Ground truth", sample.ground_truth, math.nan, math.nan, "good"),
    )
    cells = "".join(
        f'<section><h5><span class="{color}">{title}</span>{_score("reward", reward)}{_score("valid", valid)}</h5>'
        f"<p>{safe_text(clean(text, pad_token))}</p></section>"
        for title, text, reward, valid, color in texts
        if text is not None
    )
    gaps = "".join(
        f"<span>{label} <b>{number(sample.columns[name], sign=True)}</b></span>"
        for name, label in (("reward_gap", "reward gap"), ("valid_reward_gap", "valid reward gap"))
        if not math.isnan(sample.columns.get(name, math.nan))
    )
    return (
        _prompt_block(sample, pad_token, system_end)
        + (f'<div class="gaps">{gaps}</div>' if gaps else "")
        + f'<div class="pair">{cells}</div>'
        + _extra_html(sample)
    )


def _score(label: str, value: float) -> str:
    return "" if math.isnan(value) else f'<em>{label} <b>{number(value)}</b></em>'


def _extra_html(sample: Sample) -> str:
    """Everything else the line held, as plain text."""
    if not sample.extra:
        return ""
    rows = "".join(
        f"<tr><td>{safe_text(key)}</td><td>{safe_text(str(value)[:2000])}</td></tr>" for key, value in sample.extra.items()
    )
    return f"<details class='extra'><summary>{len(sample.extra)} further keys of the line</summary><table>{rows}</table></details>"


def _text_pane(name: str) -> pn.pane.HTML:
    return pn.pane.HTML(
        "", stylesheets=[theme.CSS, _TEXT_CSS], sizing_mode="stretch_width", margin=(8, 14, 4, 14), css_classes=[name]
    )


_HEAD_CSS = """
.scores { margin-left: auto; display: flex; gap: 14px; color: var(--rl-muted); font-size: 12px; }
.scores b { font-weight: 650; }
"""
_TEXT_CSS = """
.prompt { color: var(--rl-muted); white-space: pre-wrap; overflow-wrap: anywhere; max-height: 7.5em; overflow-y: auto; }
.prompt .caption { margin-right: 6px; }
details summary { cursor: pointer; color: var(--rl-muted); font-size: 11px; }
.gaps { display: flex; gap: 18px; margin: 8px 0 0; color: var(--rl-muted); }
.gaps b { color: var(--rl-text); }
.pair { display: flex; flex-wrap: wrap; gap: 10px; margin: 10px 0; }
.pair section { flex: 1 1 240px; min-width: 0; border: 1px solid var(--rl-line); border-radius: 7px; padding: 8px 12px;
  background: var(--rl-raised); }
.pair h5 { margin: 0 0 6px; font-size: 12px; font-weight: 600; display: flex; gap: 12px; }
.pair h5 em { font-style: normal; font-weight: 400; color: var(--rl-muted); } .pair h5 em b { color: var(--rl-text); }
.pair p { margin: 0; font-size: 15px; line-height: 1.7; white-space: pre-wrap; overflow-wrap: anywhere; }
.extra table { font-size: 12px; margin-top: 6px; border-collapse: collapse; }
.extra td { padding: 2px 14px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
.extra td:first-child { color: var(--rl-muted); white-space: nowrap; }
"""
