"""Rewards of the selected step: their distribution, and the gap to the reference's rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
from panel.viewable import Viewer

from rlpanel.metrics.engine import column_info
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.export.export_menu import ExportMenu, head_with_menu
from rlpanel.panels.plots.bar_chart import BarChart
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.snapshot import Snapshot

BINS = 24
#: If there are at most this many distinct values, each gets its own bar.
DISTINCT = 12


@dataclass(frozen=True)
class Bins:
    """Bins in which values are counted, B in number.

    Attributes
    ----------
    edges : ndarray, shape (B + 1,)
    values : ndarray, shape (B,), or None
        If few values are distinct (rule-based rewards): the value of each bin.
    """

    edges: np.ndarray
    values: np.ndarray | None = None

    def count(self, values: np.ndarray) -> np.ndarray:
        """Return the number of finite values per bin, shape (B,)."""
        return np.histogram(values[np.isfinite(values)], bins=self.edges)[0]

    def bars(self, layer: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the left and right edges of a layer's bars; bars of distinct values are side by side."""
        if self.values is None:
            return self.edges[:-1], self.edges[1:]
        width = 0.28 * _narrowest(self.values)
        start = self.values - width * layers / 2 + width * layer
        return start, start + width

    def frame(self, counted: dict[str, np.ndarray]) -> pd.DataFrame:
        """Return a row per bin: its edges, its value if values are distinct, and the counts."""
        value = {} if self.values is None else {"value": self.values}
        return pd.DataFrame({"from": self.edges[:-1], "to": self.edges[1:], **value, **counted})


def bins_of(*values: np.ndarray) -> Bins:
    """Return bins for all the values: one per value if few are distinct, else bins of equal width."""
    all_values = np.concatenate(values)
    distinct = np.unique(all_values[np.isfinite(all_values)])
    if not len(distinct):
        return Bins(np.array([0.0, 1.0]))
    margin = _narrowest(distinct) / 2
    few = len(distinct) <= DISTINCT and np.ptp(distinct) <= 8 * DISTINCT * margin
    if few:
        between = (distinct[1:] + distinct[:-1]) / 2
        return Bins(np.array([distinct[0] - margin, *between, distinct[-1] + margin]), distinct)
    return Bins(np.linspace(distinct[0], distinct[-1], BINS + 1))


def _narrowest(distinct: np.ndarray) -> float:
    """Return the smallest distance between neighbours; 1 if there is only one value."""
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0


class RewardDistribution(Viewer):
    """The distribution of the step's rewards as bars, with the reference's behind them."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._head = _head()
        self._bars = BarChart({"reference": 0.45, "policy": 0.95})
        self._export: CardExport | None = None
        self._card = _card(
            self._head, self._bars, "rl-distribution", ExportMenu(context, lambda: self._export)
        )
        watch_step(context, self._draw)
        context.selection.param.watch(self._restyle, "dark")
        self._restyle()
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        column = _score_column(snapshot)
        self._card.visible = column is not None and step is not None
        self._export = None
        if column is None or step is None:
            return
        rows = snapshot.rows_of(step)
        reward = snapshot.number(column)[rows]
        reference = snapshot.number("ref_reward")[rows] if snapshot.has_number("ref_reward") else np.empty(0)
        bins = bins_of(reward, reference)
        self._write_head(column, rows, reward)
        layers = {"policy": reward, "reference": reference} if len(reference) else {"policy": reward}
        self._bars.draw(
            {
                name: (*bins.bars(layer, len(layers)), bins.count(values))
                for layer, (name, values) in enumerate(layers.items())
            }
        )
        names = {"policy": column, "reference": "ref_reward"}
        counted = {names[name]: bins.count(values) for name, values in layers.items()}
        self._export = CardExport(
            name=f"{file_name(snapshot.name)}-{column}-distribution-step-{step}",
            title=_title(column),
            words=f"{snapshot.name}, step {step}, n = {len(rows):,}",
            rows=lambda: bins.frame(counted),
            legend=tuple((name, name) for name in layers) if len(layers) > 1 else (),
        )

    def _write_head(self, column: str, rows: np.ndarray, reward: np.ndarray) -> None:
        missing = int(np.isnan(reward).sum())
        missing_note = f", {missing} missing" if missing else ""
        legend = (
            ' <span class="unit reference">▪ reference</span>'
            if self.context.snapshot.has_number("ref_reward")
            else ""
        )
        self._head.object = (
            f'<div class="head"><b>{safe_text(_title(column))}</b>'
            f'<span class="unit">step {self.context.selection.step}, n = {len(rows):,}{missing_note}</span>'
            f"{legend}</div>"
        )

    def _restyle(self, *_: Any) -> None:
        self._bars.restyle(self.context.selection.dark)


class RewardGap(Viewer):
    """Reward minus the reference's reward, sorted, one bar per sample: how many won, and by how much."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._head = _head()
        self._bars = BarChart({"good": 0.95, "bad": 0.95}, x_labels=False)
        self._export: CardExport | None = None
        self._card = _card(self._head, self._bars, "rl-gap", ExportMenu(context, lambda: self._export))
        watch_step(context, self._draw)
        context.selection.param.watch(self._restyle, "dark")
        self._restyle()
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        self._card.visible = snapshot.has_number("reward_gap") and step is not None
        self._export = None
        if step is None or not self._card.visible:
            return
        gap = snapshot.number("reward_gap")[snapshot.rows_of(step)]
        gap = np.sort(gap[np.isfinite(gap)])
        wins, losses = int((gap > 0).sum()), int((gap < 0).sum())
        share = (
            f"{wins / len(gap):.0%} win, {losses / len(gap):.0%} lose"
            if len(gap)
            else "not logged in this step"
        )
        self._head.object = (
            f'<div class="head" title="reward minus the reference\'s reward, sorted"><b>Gap to reference</b>'
            f'<span class="unit">sorted, {share}</span></div>'
        )
        left = np.arange(len(gap), dtype=float)
        self._bars.draw(
            {
                "good": (left, left + 1, np.maximum(gap, 0)),
                "bad": (left, left + 1, np.minimum(gap, 0)),
            }
        )
        self._export = CardExport(
            name=f"{file_name(snapshot.name)}-reward_gap-step-{step}",
            title="Gap to reference",
            words=f"reward minus the reference's reward, sorted, {share}, {snapshot.name}, step {step}",
            rows=lambda: pd.DataFrame({"place": np.arange(1, len(gap) + 1), "reward_gap": gap}),
        )

    def _restyle(self, *_: Any) -> None:
        self._bars.restyle(self.context.selection.dark)


def _score_column(snapshot: Snapshot) -> str | None:
    """Return the column shown as the score: the reward, else a held-out reward, else the advantage."""
    return next((name for name in ("reward", "valid_reward", "advantage") if snapshot.has_number(name)), None)


def _title(column: str) -> str:
    return column_info.describe(column).label.capitalize()


def _head() -> HtmlPane:
    return HtmlPane("", stylesheets=[theme.CSS], sizing_mode="stretch_width")


def _card(head: HtmlPane, bars: BarChart, name: str, menu: ExportMenu) -> pn.Column:
    return pn.Column(
        head_with_menu(head, menu),
        bars.pane,
        styles={**theme.CARD, "flex": "1 1 165px", "min-width": "165px"},
        margin=0,
        visible=False,
        css_classes=["rl-card", name],
    )
