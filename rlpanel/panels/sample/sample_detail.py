"""What is in it? One sample: its numbers, its tokens, and the pair with the reference."""

from __future__ import annotations

import math
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.compare.runs_tab import RunsTab
from rlpanel.panels.groups.groups_tab import GroupsTab
from rlpanel.panels.prompts.prompts_tab import PromptsTab
from rlpanel.panels.sample.sample_actions import SampleActions
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.metric_rows import build_rows
from rlpanel.panels.tokens.token_ranking import TokenRanking
from rlpanel.panels.tokens.token_view import TokenView
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.lazy_view import LazyView
from rlpanel.panels.ui.prompt_text import clean, one_line, prompt_html
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.schema import Sample

_TOKENS, _PAIR, _COMPARE, _GROUP, _TIME, _RANKING, _RUNS = range(7)


class SampleDetail(Viewer):
    """The right side of the board."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._head = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/sample/sample_head.css")],
            sizing_mode="stretch_width",
            margin=(8, 14, 0, 14),
            css_classes=["rl-sample-head"],
        )
        self._prompt = _text_pane("rl-prompt")
        self._pair = _text_pane("rl-pair")
        self.tokens = TokenView(dark=context.selection.dark, metric=context.selection.metric)
        self.groups = LazyView(lambda: GroupsTab(context))
        self._later: dict[int, LazyView[Any]] = {
            _COMPARE: LazyView(lambda: ResponseDiff(context)),
            _GROUP: self.groups,
            _TIME: LazyView(lambda: PromptsTab(context)),
            _RANKING: LazyView(self._make_ranking),
            _RUNS: LazyView(lambda: RunsTab(context)),
        }
        self._tabs = pmui.Tabs(
            (
                "Tokens",
                pn.Column(
                    self._prompt, _inset(self.tokens), sizing_mode="stretch_both", scroll="y-auto", margin=0
                ),
            ),
            ("Pair", pn.Column(self._pair, sizing_mode="stretch_both", scroll="y-auto", margin=0)),
            ("Compare", self._later[_COMPARE]),
            ("Group", self._later[_GROUP]),
            ("Over time", self._later[_TIME]),
            ("Step's tokens", self._later[_RANKING]),
            ("Runs", self._later[_RUNS]),
            sizing_mode="stretch_both",
            margin=0,
            dynamic=False,
            css_classes=["rl-tabs"],
            sx={
                "& .MuiTabs-root": {"minHeight": "34px"},
                "& .MuiTab-root": {"minHeight": "34px", "padding": "4px 12px"},
            },
        )
        self._card = pn.Column(
            self._head,
            SampleActions(context, margin=(4, 14, 0, 14)),
            self._tabs,
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=420,
            css_classes=["rl-card", "rl-sample"],
        )
        self._tabs.param.watch(self._turned, "active")
        if context.selection.against:  # a link to a comparison
            self._tabs.active = _RUNS
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

    def _turned(self, *_: Any) -> None:
        """Only the tab in sight does its work."""
        with pn.io.hold():
            for tab, later in self._later.items():
                later.set_active(self._tabs.active == tab)

    def _make_ranking(self) -> TokenRanking:
        ranking = TokenRanking(self.context)
        ranking.param.watch(lambda _: setattr(self._tabs, "active", _TOKENS), "picks")
        return ranking

    def show_group(self, *_: Any) -> None:
        """Lay the samples of the sample's group side by side."""
        self.groups.view.show_one()
        self._tabs.active = _GROUP

    def next_metric(self, by: int) -> None:
        """Colour the tokens by another of the sample's metrics."""
        sample = self.context.sample
        rows = build_rows(sample.arrays(), None, self.context.display.kl_estimator)[0] if sample else []
        names = [row.name for row in rows]
        if names:
            at = names.index(self.tokens.metric) if self.tokens.metric in names else -1
            self.tokens.metric = names[(at + by) % len(names)]

    def _draw(self, *_: Any) -> None:
        sample, display = self.context.sample, self.context.display
        with pn.io.hold():
            self._head.object = self._head_html(sample)
            self._prompt.object = _prompt_block(sample, display.pad_token, display.system_end)
            self._pair.object = _pair_html(sample, display.pad_token, display.system_end)
            self.tokens.param.update(
                sample=sample,
                pad_token=display.pad_token,
                kl_estimator=display.kl_estimator,
                token=self.context.selection.token,
            )

    def _head_html(self, sample: Sample | None) -> str:
        if sample is None:
            words = self.context.message or "no sample selected"
            return f'<div class="head"><b>Sample</b><span class="note">{safe_text(words)}</span></div>'
        place = [
            f"step {sample.step}",
            f"rank {sample.rank}" if sample.rank >= 0 else "",
            sample.place,
        ]
        place += [f"group {sample.group}"] if sample.group else []
        where = " · ".join(part for part in place if part)
        notes = "".join(f'<div class="note kl">{safe_text(note)}</div>' for note in sample.notes)
        uid = safe_text(sample.uid)
        return (
            f'<div class="head" title="{uid}" data-uid="{uid}"><b>Sample</b>'
            f'<span class="note">{safe_text(where)}</span>'
            f'<span class="scores">{self._scores(sample)}</span></div>{notes}'
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
    line = one_line(clean(sample.prompt, pad_token, system_end))
    return (
        '<details class="prompt"><summary><span class="caption">Prompt</span>'
        f"<span>{safe_text(line)}</span></summary>"
        f"<div>{prompt_html(sample.prompt, pad_token, system_end)}</div></details>"
    )


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
        f'<section><h5><span class="{color}">{title}</span>'
        f"{_score('reward', reward)}{_score('valid', valid)}</h5>"
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
    return "" if math.isnan(value) else f"<em>{label} <b>{number(value)}</b></em>"


def _extra_html(sample: Sample) -> str:
    """Everything else the line held, as plain text."""
    if not sample.extra:
        return ""
    rows = "".join(
        f"<tr><td>{safe_text(key)}</td><td>{safe_text(_brief(value))}</td></tr>"
        for key, value in sample.extra.items()
    )
    summary = f"<summary>{len(sample.extra)} further keys of the line</summary>"
    return f'<details class="extra">{summary}<table>{rows}</table></details>'


def _brief(value: object) -> str:
    try:
        return str(value)[:2000]
    except RecursionError:
        return "nested too deeply to be shown"


def _inset(view: Viewer) -> pn.Column:
    return pn.Column(view, sizing_mode="stretch_width", margin=(0, 14))


def _text_pane(name: str) -> HtmlPane:
    return HtmlPane(
        "",
        stylesheets=[theme.CSS, read_assets("panels/sample/sample_text.css")],
        sizing_mode="stretch_width",
        margin=(8, 14, 4, 14),
        css_classes=[name],
    )
