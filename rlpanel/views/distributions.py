"""The selected step in numbers: how rewards spread, against the reference, and by how much it won."""

from __future__ import annotations

from typing import Any

import holoviews as hv
import numpy as np
import panel as pn
from panel.viewable import Viewer

from rlpanel.metrics import registry
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.theme import delta, number, safe_text

HEIGHT = 112
BINS = 24
#: Up to this many distinct values each gets a bar of its own.
DISTINCT = 12


def edges_of(*values: np.ndarray) -> np.ndarray:
    """Bin edges that suit the values together, shape (B + 1,).

    A few distinct values (rule-based rewards) get a bar each, centred on the value; otherwise equal
    bins over the finite range.
    """
    all_values = np.concatenate(values)
    all_values = all_values[np.isfinite(all_values)]
    if not len(all_values):
        return np.array([0.0, 1.0])
    distinct = np.unique(all_values)
    if len(distinct) == 1:
        return np.array([distinct[0] - 0.5, distinct[0] + 0.5])
    if len(distinct) <= DISTINCT:
        gap = np.diff(distinct).min()
        span = distinct[-1] - distinct[0]
        if span / gap <= 4 * DISTINCT:
            return np.arange(distinct[0] - gap / 2, distinct[-1] + gap, gap)
    return np.linspace(distinct[0], distinct[-1], BINS + 1)


class Distribution(Viewer):
    """The step's rewards as bars, the reference's behind them."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pipe = hv.streams.Pipe(data=_nothing())
        self._head = _head()
        self._pane = _plot_pane(hv.DynamicMap(self._bars, streams=[self._pipe]))
        self._card = _card(self._head, self._pane, "rl-distribution")
        _watch_step(context, self._draw)
        context.selection.param.watch(self._draw, "dark")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        column = _scored(snapshot)
        self._card.visible = column is not None and step is not None
        if not self._card.visible:
            return
        rows = snapshot.rows_of(step)
        reward = snapshot.number(column)[rows]
        reference = snapshot.number("ref_reward")[rows] if snapshot.has("ref_reward") else np.empty(0)
        edges = edges_of(reward, reference)
        self._write_head(column, rows, reward)
        self._pipe.send({"edges": edges, "reward": _count(reward, edges), "reference": _count(reference, edges)})

    def _write_head(self, column: str, rows: np.ndarray, reward: np.ndarray) -> None:
        missing = int(np.isnan(reward).sum())
        lost = f", {missing} without" if missing else ""
        legend = ' <span class="unit reference">▪ reference</span>' if self.context.snapshot.has("ref_reward") else ""
        self._head.object = (
            f'<div class="head"><b>{safe_text(registry.describe(column).label.capitalize())}</b>'
            f'<span class="unit">step {self.context.selection.step}, n = {len(rows):,}{lost}</span>{legend}</div>'
        )

    def _bars(self, data: dict[str, np.ndarray]) -> hv.Overlay:
        colors = theme.palette(self.context.selection.dark)
        layers = (("reference", colors["reference"], 0.45), ("reward", colors["policy"], 0.9))
        return hv.Overlay(
            [
                hv.Histogram((data["edges"], data[name]), kdims="value", vdims="samples").opts(
                    fill_color=color, line_color=colors["surface"], fill_alpha=alpha, line_width=1
                )
                for name, color, alpha in layers
            ]
        ).opts(**_options(self.context))


class Gap(Viewer):
    """Reward minus the reference's, one bar a sample, sorted: how many won, and by how much."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pipe = hv.streams.Pipe(data=(np.empty(0), np.empty(0)))
        self._head = _head()
        self._card = _card(self._head, _plot_pane(hv.DynamicMap(self._bars, streams=[self._pipe])), "rl-gap")
        _watch_step(context, self._draw)
        context.selection.param.watch(self._draw, "dark")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        self._card.visible = snapshot.has("reward_gap") and step is not None
        if not self._card.visible:
            return
        gap = snapshot.number("reward_gap")[snapshot.rows_of(step)]
        gap = np.sort(gap[np.isfinite(gap)])
        wins, losses = int((gap > 0).sum()), int((gap < 0).sum())
        share = f"{wins / len(gap):.0%} win, {losses / len(gap):.0%} lose" if len(gap) else "not logged here"
        self._head.object = (
            f'<div class="head" title="reward minus the reference\'s reward, sorted"><b>Gap to reference</b>'
            f'<span class="unit">sorted, {share}</span></div>'
        )
        self._pipe.send((np.maximum(gap, 0), np.minimum(gap, 0)))

    def _bars(self, data: tuple[np.ndarray, np.ndarray]) -> hv.Overlay:
        colors = theme.palette(self.context.selection.dark)
        edges = np.arange(len(data[0]) + 1)
        return hv.Overlay(
            [
                hv.Histogram((edges, values), kdims="rank", vdims="gap").opts(
                    fill_color=colors[color], line_color=colors["surface"], line_width=0.5
                )
                for values, color in zip(data, ("good", "bad"), strict=True)
            ]
        ).opts(**_options(self.context, xaxis=None))


class Numbers(Viewer):
    """The step's means with their change since the step before."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = pn.pane.HTML(
            "", stylesheets=[theme.CSS, _NUMBERS_CSS], margin=0, sizing_mode="stretch_width",
            css_classes=["rl-numbers"],
        )  # fmt: skip
        _watch_step(context, self._draw)
        context.display.param.watch(self._draw, ["kl_estimator", "per_sequence"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        at = snapshot.steps.position(step) if step is not None else -1
        names = [name for name in self._names() if snapshot.has(name)]
        self._pane.visible = at >= 0 and bool(names)
        if self._pane.visible:
            self._pane.object = "<dl>" + "".join(_pair(snapshot, name, at) for name in names) + "</dl>"

    def _names(self) -> list[str]:
        kl = self.context.display.kl_estimator
        length = "response_tokens" if self.context.snapshot.has("response_tokens") else "response_chars"
        rewards = ["reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "valid_reward_gap"]
        return [*rewards, "log_ratio_mean", f"{kl}_sum", length, "truncated", "token_entropy_mean"]


def _pair(snapshot: Snapshot, name: str, at: int) -> str:
    column = registry.describe(name)
    means = snapshot.steps.mean(name)
    change = delta(float(means[at]), float(means[at - 1])) if at else ""
    label = f"{column.label} {'Σ' if name.endswith('_sum') else ''}"
    return (
        f'<div title="{safe_text(column.axis)}"><dt>{safe_text(label)}</dt>'
        f"<dd>{number(float(means[at]))} {change}</dd></div>"
    )


_NUMBERS_CSS = """
dl { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 0; padding: 6px 12px; }
dl div { display: flex; gap: 6px; align-items: baseline; white-space: nowrap; }
dt { color: var(--rl-muted); font-size: 12px; } dd { margin: 0; font-weight: 600; }
dd .delta { font-weight: 400; }
"""


def _watch_step(context: Context, draw: Any) -> None:
    """Draw again when another step is shown, or when the shown step itself got new samples."""

    def on_snapshot(event: Any) -> None:
        step = context.selection.step
        at = event.new.steps.position(step) if step is not None else -1
        same_run = event.old.name == event.new.name
        if not same_run or (at >= 0 and at in event.new.steps.changed_since(event.old.version)):
            draw()

    context.param.watch(on_snapshot, "snapshot")
    context.selection.param.watch(draw, "step")


def _scored(snapshot: Snapshot) -> str | None:
    """What is shown as the score: the reward, else a held-out one, else the advantage."""
    return next((name for name in ("reward", "valid_reward", "advantage") if snapshot.has(name)), None)


def _count(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(values[np.isfinite(values)], bins=edges)[0]


def _nothing() -> dict[str, np.ndarray]:
    return {"edges": np.array([0.0, 1.0]), "reward": np.zeros(1), "reference": np.zeros(1)}


def _head() -> pn.pane.HTML:
    return pn.pane.HTML("", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(7, 12, 0, 12))


def _plot_pane(plot: hv.DynamicMap) -> pn.pane.HoloViews:
    return pn.pane.HoloViews(plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6))


def _card(head: pn.pane.HTML, pane: pn.pane.HoloViews, name: str) -> pn.Column:
    return pn.Column(
        head, pane, styles={**theme.CARD, "flex": "1 1 200px", "min-width": "200px"}, margin=0,
        css_classes=["rl-card", name],
    )  # fmt: skip


def _options(context: Context, **more: Any) -> dict[str, Any]:
    def style(plot: Any, _: Any) -> None:
        theme.quiet(plot.state)
        theme.restyle(plot.state, context.selection.dark)

    return {
        "responsive": True, "height": HEIGHT, "toolbar": None, "show_legend": False, "xlabel": "", "ylabel": "",
        "framewise": True, "axiswise": True, "hooks": [style], "default_tools": [], **more,
    }  # fmt: skip
