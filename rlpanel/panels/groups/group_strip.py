"""Plot of the step's groups: one bar per group from its lowest to its highest reward, sorted by the mean.

Bars are tall where the policy succeeds about half the time, flat where a group has no learning signal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.number_text import number
from rlpanel.panels.export.card_export import BarCard, CardExport, file_name, well_formed
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plain_plots import Layer, bar_plot, tips_of
from rlpanel.panels.plots.plot_elements import GROUP_COLORS
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL, StepGroups, groups_of

_NUMBERS = {
    "mean": "group_mean",
    "std": "group_std",
    "best": "group_best",
    "worst": "group_worst",
    "diversity": "group_diversity",
}
#: Height of the mark at the mean, as a share of the plot's height.
_MARK = 0.035


class GroupStrip(BarCard):
    """Card with the plot; hidden if the step has no groups or no rewards.

    Parameters
    ----------
    context : Context
    picked : callable, optional
        Called after a click on a group.
    """

    def __init__(self, context: Context, picked: Callable[[], None] = lambda: None) -> None:
        super().__init__(context, self._export, "rl-groups", on_pick=self._pick, visible=False)
        self._picked = picked
        self.context = context
        self._groups: StepGroups | None = None
        self._order = np.empty(0, int)
        watch_step(context, self._draw)
        context.param.watch(self._mark, "sample")
        self._draw()

    def _draw(self, *_: Any) -> None:
        before, selection = self._groups, self.context.selection
        groups = groups_of(self.context.view, selection.step)
        by_group = before is not None and selection.filter in before.filters
        if by_group and (groups is None or selection.filter not in groups.filters):
            selection.filter = ""  # it selects a group of the previous step
        if groups is not None and "group_mean" not in groups.values:
            groups = None
        self._groups = groups
        if groups is None:
            self.visible = False
            return
        self._order = np.argsort(groups.values["group_mean"], kind="stable")
        self.draw(_head(groups), _plot(groups, self._order), self._place())

    def _mark(self, *_: Any) -> None:
        self.marker = self._place()

    def _place(self) -> float | None:
        """Return the place of the selected sample's group in the plot; None if the step has none of it."""
        sample, groups = self.context.sample, self._groups
        group = None
        if sample is not None and groups is not None and sample.step == self.context.selection.step:
            group = groups.index_of(sample.uid)
        return None if group is None else float(np.flatnonzero(self._order == group)[0]) + 0.5

    def _export(self) -> CardExport | None:
        groups, order, name = self._groups, self._order, self.context.snapshot.name
        if groups is None:
            return None
        step = self.context.selection.step
        return CardExport(
            name=f"{file_name(name)}-groups-step-{step}",
            title=tr("Groups"),
            words=f"{name}, step {step}: {len(groups):,} groups by mean; lowest to highest, mark at the mean",
            rows=lambda: _frame(groups, order),
            legend=tuple((state, color) for state, color in GROUP_COLORS.items() if state in groups.states),
        )

    def _pick(self, x: float) -> None:
        if self._groups is not None:
            column = int(np.clip(x, 0, len(self._groups) - 1))
            filter_by_group(self.context, self._groups, int(self._order[column]))
            self._picked()


def filter_by_group(context: Context, groups: StepGroups, group: int) -> None:
    """Filter the grid to a group's samples, or remove the filter if it is already set."""
    expression = groups.filters[group]
    is_set = context.selection.filter == expression and context.selection.scope == "step"
    context.choose_range(context.selection.step, "" if is_set else expression)


def _head(groups: StepGroups) -> dict[str, Any]:
    """Return title, tooltip, and as notes the numbers of groups: all, and those without learning signal."""
    low, high = (int((groups.states == state).sum()) for state in (ALL_LOW, ALL_HIGH))
    without_signal = [[tr("{low:,} all low", low=low), "reference"]] if low else []
    without_signal += [[tr("{high:,} all high", high=high), "good"]] if high else []
    comma = "," if without_signal else ""
    finite = groups.values["group_std"][np.isfinite(groups.values["group_std"])]
    mean_std = float(finite.mean()) if len(finite) else float("nan")
    tip = tr(
        "{groups:,} groups of the step, sorted by mean reward. Each bar spans the lowest "
        "to the highest reward, with a mark at the mean. Mean standard deviation within "
        "groups: {mean_std}. A group of equal rewards has no learning signal: all low if "
        "they are below a pass, else all high. {tip} Click to filter the grid to a group.",
        groups=len(groups),
        mean_std=number(mean_std),
        tip=described("zero_variance_groups").tip,
    )
    return {"title": tr("Groups"), "tip": tip, "notes": [[f"{len(groups):,}{comma}", ""], *without_signal]}


def _frame(groups: StepGroups, order: np.ndarray) -> pd.DataFrame:
    """Return the plotted numbers as a table: one row per group, sorted by mean."""
    numbers = {name: groups.values[of][order] for name, of in _NUMBERS.items() if of in groups.values}
    names = [well_formed(groups.names[group]) for group in order.tolist()]
    return pd.DataFrame(
        {"group": names, "samples": groups.sizes[order], **numbers, "state": groups.states[order]}
    )


def _plot(groups: StepGroups, order: np.ndarray) -> dict[str, Any]:
    """Return the plot of the groups in ``order``: tint without signal, range, and mark at the mean."""
    missing = np.full(len(groups), np.nan)
    numbers = {key: groups.values.get(name, missing)[order] for key, name in _NUMBERS.items()}
    floor, roof = _range(numbers["worst"], numbers["best"])
    count, states = len(order), groups.states[order]
    gap = 0.12 if count <= 100 else 0.0
    left, right = np.arange(count) + gap, np.arange(count) + 1.0 - gap
    half = _MARK * (roof - floor) / 2
    mean, ends = numbers["mean"], (np.full(count, floor), np.full(count, roof))
    layers = []
    for state, color in GROUP_COLORS.items():
        of = states == state
        edges = left[of], right[of]
        if state != SIGNAL:
            layers.append(Layer(color, *edges, ends[0][of], ends[1][of], alpha=0.16))
        layers.append(Layer(color, *edges, numbers["worst"][of], numbers["best"][of], alpha=0.38))
        layers.append(Layer(color, *edges, mean[of] - half, mean[of] + half))
    return bar_plot(
        layers,
        x=(0.0, float(count)),
        y=(floor, roof),
        labels=False,
        tips=tips_of(np.arange(count), np.arange(count) + 1, _tips(groups, order, numbers)),
    )


def _range(worst: np.ndarray, best: np.ndarray) -> tuple[float, float]:
    """Return the range of the rewards with a margin; (0, 1) with a margin if there are none."""
    low, high = np.nanmin(worst, initial=np.inf), np.nanmax(best, initial=-np.inf)
    low, high = (float(low), float(high)) if low <= high else (0.0, 1.0)
    padding = 0.08 * ((high - low) or 1.0)
    return low - padding, high + padding


def _tips(groups: StepGroups, order: np.ndarray, numbers: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "group": np.array([groups.names[group][:80] for group in order.tolist()], object),
        "samples": groups.sizes[order],
        "lowest": numbers["worst"],
        "mean": numbers["mean"],
        "highest": numbers["best"],
        "std": numbers["std"],
        "diversity": numbers["diversity"],
        "": groups.states[order],
    }
