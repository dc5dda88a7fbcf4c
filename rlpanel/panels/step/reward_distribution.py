"""Rewards of the selected step: their distribution, and the gap to the reference's rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.number_text import number
from rlpanel.panels.export.card_export import BarCard, CardExport, file_name
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr, trn
from rlpanel.panels.plots.plain_plots import Layer, bar_plot, tips_of
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.store.snapshot.snapshot import Snapshot

BINS = 24
#: If there are at most this many distinct values, each gets its own bar.
DISTINCT = 12
#: Maximum number of bars of the gap: more are narrower than a pixel.
MAX_GAP_BARS = 512
#: Opacity of the distribution's layers.
_ALPHA = {"policy": 0.95, "reference": 0.45}


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
        # A lone value is a thin bar in the middle, and no wall.
        width = (0.28 if len(self.values) > 1 else 0.04) * _narrowest(self.values)
        start = self.values - width * layers / 2 + width * layer
        return start, start + width

    def range_of(self, column: str, low: float, high: float) -> str:
        """Return the filter on the values in the bins between two places of the axis; empty without any.

        Distinct values are named if only one is chosen. The first and the last bin have their edges.
        """
        first, last = (int(np.searchsorted(self.edges, end, side="right")) - 1 for end in (low, high))
        first, last = max(first, 0), min(last, len(self.edges) - 2)
        if last < first:
            return ""
        if self.values is None:
            return ValueRange(column, float(self.edges[first]), float(self.edges[last + 1])).text
        if first == last:
            return f"`{column}` == {self.values[first]:.12g}"
        return ValueRange(column, float(self.values[first]), float(self.values[last])).text

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
    if np.ptp(distinct) <= 1e-6 * max(abs(distinct[0]), abs(distinct[-1])):
        distinct = distinct[[len(distinct) // 2]]  # they differ in the last digits of floats
    margin = _narrowest(distinct) / 2
    few = len(distinct) <= DISTINCT and np.ptp(distinct) <= 8 * DISTINCT * margin
    if few:
        between = (distinct[1:] + distinct[:-1]) / 2
        return Bins(np.array([distinct[0] - margin, *between, distinct[-1] + margin]), distinct)
    return Bins(np.linspace(distinct[0], distinct[-1], BINS + 1))


def _narrowest(distinct: np.ndarray) -> float:
    """Return the smallest distance between neighbours; for only one value, its size, or 1 for 0."""
    return float(np.diff(distinct).min()) if len(distinct) > 1 else abs(float(distinct[0])) or 1.0


class RewardDistribution(BarCard):
    """The distribution of the step's rewards as bars, with the reference's behind them."""

    def __init__(self, context: Context) -> None:
        self._export: CardExport | None = None
        self._column, self._bins = "", bins_of(np.empty(0))
        super().__init__(
            context,
            lambda: self._export,
            "rl-distribution",
            on_pick=lambda x: self._choose(x, x),
            on_brush=self._choose,
            visible=False,
        )
        self.context = context
        watch_step(context, self._draw)
        self._draw()

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        column = _score_column(snapshot)
        self._export = None
        if column is None or step is None:
            self.visible = False
            return
        rows = snapshot.with_outcome(snapshot.rows_of(step))
        values = {"policy": snapshot.counted(column, rows)}
        if snapshot.has_number("ref_reward"):
            values["reference"] = snapshot.counted("ref_reward", rows)
        bins = bins_of(*values.values())
        counted = {name: bins.count(numbers) for name, numbers in values.items()}
        self._column, self._bins = column, bins
        head = {
            "title": _title(column),
            "tip": tr("Click a bar, or drag over several, to list their samples."),
            "notes": _notes(step, values, bins),
        }
        self.draw(head, _distribution_plot(bins, counted))
        names = {"policy": column, "reference": "ref_reward"}
        self._export = CardExport(
            name=f"{file_name(snapshot.name)}-{column}-distribution-step-{step}",
            title=_title(column),
            words=f"{snapshot.name}, step {step}, n = {len(rows):,}",
            rows=lambda: bins.frame({names[name]: counts for name, counts in counted.items()}),
            legend=tuple((name, name) for name in values) if len(values) > 1 else (),
        )

    def _choose(self, low: float, high: float) -> None:
        """Filter the grid by the values between two places of the axis."""
        within = self._bins.range_of(self._column, low, high)
        if within:
            self.context.choose_range(self.context.selection.step, within)


class RewardGap(BarCard):
    """Reward minus the reference's reward, sorted, one bar per sample: how many won, and by how much."""

    def __init__(self, context: Context) -> None:
        self._export: CardExport | None = None
        super().__init__(context, lambda: self._export, "rl-gap", visible=False)
        self.context = context
        watch_step(context, self._draw)
        self._draw()

    def _draw(self, *_: Any) -> None:
        snapshot, step = self.context.snapshot, self.context.selection.step
        self._export = None
        if step is None or not snapshot.has_number("reward_gap"):
            self.visible = False
            return
        gap = snapshot.counted("reward_gap", snapshot.rows_of(step))
        gap = np.sort(gap[np.isfinite(gap)])
        wins, losses = int((gap > 0).sum()), int((gap < 0).sum())
        share = (
            tr("{won:.0%} win, {lost:.0%} lose", won=wins / len(gap), lost=losses / len(gap))
            if len(gap)
            else tr("not logged in this step")
        )
        tip = tr("reward minus the reference's reward, sorted")
        notes = [[tr("sorted, {share}", share=share), ""]]
        self.draw({"title": tr("Gap to reference"), "tip": tip, "notes": notes}, gap_plot(gap))
        self._export = CardExport(
            name=f"{file_name(snapshot.name)}-reward_gap-step-{step}",
            title="Gap to reference",
            words=f"reward minus the reference's reward, sorted, {share}, {snapshot.name}, step {step}",
            rows=lambda: pd.DataFrame({"place": np.arange(1, len(gap) + 1), "reward_gap": gap}),
        )


def _notes(step: int, values: dict[str, np.ndarray], bins: Bins) -> list[list[str]]:
    """Return the notes of the distribution: step, number of samples or their one value, and the legend."""
    reward = values["policy"]
    missing = int(np.isnan(reward).sum())
    missing_note = tr(", {missing} missing", missing=missing) if missing else ""
    legend = [[tr("▪ reference"), "reference"]] if "reference" in values else []
    text = tr("step {step}, n = {count:,}{missing}", step=step, count=len(reward), missing=missing_note)
    if bins.values is not None and len(bins.values) == 1:
        count, value = len(reward) - missing, number(bins.values[0])
        same = trn("the only one is {value}", "all {count:,} are {value}", count, value=value)
        text = tr("step {step}, {same}{missing}", step=step, same=same, missing=missing_note)
    return [[text, ""], *legend]


def _distribution_plot(bins: Bins, counted: dict[str, np.ndarray]) -> dict[str, Any]:
    # The reference is the layer at the back.
    layers = [
        Layer.from_zero(name, *bins.bars(place, len(counted)), counts, _ALPHA[name])
        for place, (name, counts) in enumerate(counted.items())
    ][::-1]
    if bins.values is None:
        pairs = zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), strict=True)
        values = [f"{number(low)} … {number(high)}" for low, high in pairs]
    else:
        values = [number(value) for value in bins.values.tolist()]
    rows = {tr("reward"): np.array(values), "": np.array([_samples(count) for count in counted["policy"]])}
    if "reference" in counted:
        rows |= {tr("reference"): np.array([_samples(count) for count in counted["reference"]])}
    lone = float(bins.values[0]) if bins.values is not None and len(bins.values) == 1 else None
    return bar_plot(
        layers,
        x=(float(bins.edges[0]), float(bins.edges[-1])) if lone is not None else None,
        tips=tips_of(bins.edges[:-1], bins.edges[1:], rows),
        counts=True,
        lone=lone,
    )


def _samples(count: int) -> str:
    return trn("{count:,} sample", "{count:,} samples", int(count))


def gap_plot(gap: np.ndarray) -> dict[str, Any]:
    """Return bars of the sorted gaps; of many samples, each bar stands for equally many and shows one."""
    starts = np.unique(np.linspace(0, len(gap), min(len(gap), MAX_GAP_BARS) + 1).astype(int))
    left, right = starts[:-1].astype(float), starts[1:].astype(float)
    height = gap[(starts[:-1] + starts[1:] - 1) // 2]
    layers = [
        Layer.from_zero("policy", left, right, np.maximum(height, 0)),
        Layer.from_zero("reference", left, right, np.minimum(height, 0)),
    ]
    return bar_plot(
        layers, labels=False, tips=tips_of(left, right, {"sample": starts[:-1] + 1, "gap": height})
    )


def _score_column(snapshot: Snapshot) -> str | None:
    """Return the column shown as the score: the reward, else a held-out reward, else the advantage."""
    return next((name for name in ("reward", "valid_reward", "advantage") if snapshot.has_number(name)), None)


def _title(column: str) -> str:
    label = described(column).label
    return label[:1].upper() + label[1:]
