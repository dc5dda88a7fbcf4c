"""Plot of the step's groups: one bar per group from its lowest to its highest reward, sorted by the mean.

Bars are tall where the policy succeeds about half the time, flat where a group has no learning signal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from bokeh.events import Tap
from bokeh.models import CategoricalColorMapper, ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Quad
from panel.viewable import Viewer

from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.export.card_export import CardExport, file_name, well_formed
from rlpanel.panels.export.export_menu import ExportMenu, head_with_menu
from rlpanel.panels.plots.bar_chart import HEIGHT
from rlpanel.panels.plots.column_payload import column_payload
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL, StepGroups, groups_of

#: Theme colour of each state of a group.
COLORS = {SIGNAL: "policy", ALL_LOW: "bad", ALL_HIGH: "good"}
_NUMBERS = {
    "mean": "group_mean",
    "std": "group_std",
    "best": "group_best",
    "worst": "group_worst",
    "diversity": "group_diversity",
}
#: Height of the mark at the mean, as a share of the plot's height.
_MARK = 0.035


class GroupStrip(Viewer):
    """Card with the plot; hidden if the step has no groups or no rewards."""

    picks = param.Integer(default=0, doc="Number of clicks on a group.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._groups: StepGroups | None = None
        self._order = np.empty(0, int)
        self._mapper = CategoricalColorMapper(factors=list(COLORS), palette=["#000000"] * len(COLORS))
        self._source = ColumnDataSource(_columns(), name="groups")
        self._plot: Any = theme.quiet_figure(
            height=HEIGHT,
            x_range=Range1d(start=0, end=1),
            y_range=Range1d(start=0, end=1),
        )
        self._plot.xaxis.visible = False
        self._draw_glyphs()
        self._marker = Span(dimension="height", line_width=1, visible=False)
        self._plot.add_layout(self._marker)
        self._plot.on_event(Tap, self._on_tap)
        self._head = HtmlPane("", stylesheets=[theme.CSS], sizing_mode="stretch_width")
        self._card = pn.Column(
            head_with_menu(self._head, ExportMenu(context, self._export)),
            pn.pane.Bokeh(self._plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6)),
            styles={**theme.CARD, "flex": "1 1 165px", "min-width": "165px"},
            margin=0,
            visible=False,
            css_classes=["rl-card", "rl-groups"],
        )
        watch_step(context, self._draw)
        context.param.watch(self._mark, "sample")
        context.selection.param.watch(self._restyle, "dark")
        self._restyle()
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _draw_glyphs(self) -> None:
        """Add the glyphs: tint of groups without signal, range, mean, and an area for the tooltip."""
        color = {"field": "state", "transform": self._mapper}
        common: dict[str, Any] = {"left": "left", "right": "right", "line_color": None, "fill_color": color}
        *_, full_height = theme.add_glyphs(
            self._plot,
            self._source,
            Quad(top="sky", bottom="floor", fill_alpha=0.16, **common),
            Quad(top="best", bottom="worst", fill_alpha=0.38, **common),
            Quad(top="above", bottom="below", **common),
            Quad(top="roof", bottom="floor", fill_alpha=0, **common),
        )
        tips = [("group", "@name"), ("samples", "@size"), ("rewards", "@worst{0.[000]} … @best{0.[000]}")]
        tips += [("mean", "@mean{0.000} ± @std{0.000}"), ("diversity", "@diversity{0%}"), ("", "@state")]
        self._plot.add_tools(HoverTool(tooltips=tips, renderers=[full_height], limit=1, attachment="below"))

    def _draw(self, *_: Any) -> None:
        before, selection = self._groups, self.context.selection
        groups = groups_of(self.context.view, selection.step)
        by_group = before is not None and selection.filter in before.filters
        if by_group and (groups is None or selection.filter not in groups.filters):
            selection.filter = ""  # it selects a group of the previous step
        if groups is not None and "group_mean" not in groups.values:
            groups = None
        self._groups = groups
        self._card.visible = groups is not None
        if groups is None:
            return
        self._order = np.argsort(groups.values["group_mean"], kind="stable")
        low = float(np.nanmin(groups.values["group_worst"], initial=np.inf))
        high = float(np.nanmax(groups.values["group_best"], initial=-np.inf))
        low, high = (low, high) if low <= high else (0.0, 1.0)
        padding = 0.08 * ((high - low) or 1.0)
        self._head.object = _head_html(groups)
        with theme.hold_changes():
            self._source.data = column_payload(_columns(groups, self._order, low - padding, high + padding))
            self._plot.x_range.update(start=0, end=len(groups))
            self._plot.y_range.update(start=low - padding, end=high + padding)
        self._mark()

    def _mark(self, *_: Any) -> None:
        """Mark the group of the selected sample with a line."""
        sample, groups = self.context.sample, self._groups
        group = None
        if sample is not None and groups is not None and sample.step == self.context.selection.step:
            group = groups.index_of(sample.uid)
        with theme.hold_changes():
            self._marker.visible = group is not None
            if group is not None:
                self._marker.location = float(np.flatnonzero(self._order == group)[0]) + 0.5

    def _restyle(self, *_: Any) -> None:
        colors = theme.palette(self.context.selection.dark)
        with theme.hold_changes():
            theme.restyle(self._plot, self.context.selection.dark)
            self._mapper.palette = [colors[name] for name in COLORS.values()]
            self._marker.line_color = colors["text"]

    def _export(self) -> CardExport | None:
        groups, order, name = self._groups, self._order, self.context.snapshot.name
        if groups is None:
            return None
        step = self.context.selection.step
        return CardExport(
            name=f"{file_name(name)}-groups-step-{step}",
            title="Groups",
            words=f"{name}, step {step}: {len(groups):,} groups by mean; lowest to highest, mark at the mean",
            rows=lambda: _frame(groups, order),
            legend=tuple((state, color) for state, color in COLORS.items() if state in groups.states),
        )

    def _on_tap(self, event: Any) -> None:
        if self._groups is not None:
            column = int(np.clip(event.x, 0, len(self._groups) - 1))
            filter_by_group(self.context, self._groups, int(self._order[column]))
            self.picks += 1


def filter_by_group(context: Context, groups: StepGroups, group: int) -> None:
    """Filter the grid to a group's samples, or remove the filter if it is already set."""
    expression = groups.filters[group]
    is_set = context.selection.filter == expression and context.selection.scope == "step"
    context.choose_range(context.selection.step, "" if is_set else expression)


def _head_html(groups: StepGroups) -> str:
    low, high = (int((groups.states == state).sum()) for state in (ALL_LOW, ALL_HIGH))
    without_signal = [f'<span class="bad">{low:,} all low</span>'] if low else []
    without_signal += [f'<span class="good">{high:,} all high</span>'] if high else []
    finite = groups.values["group_std"][np.isfinite(groups.values["group_std"])]
    mean_std = float(finite.mean()) if len(finite) else float("nan")
    tip = (
        f"{len(groups):,} groups of the step, sorted by mean reward. Each bar spans the lowest to the "
        f"highest reward, with a mark at the mean. Mean standard deviation within groups: "
        f"{number(mean_std)}. A group of equal rewards has no learning signal: all low if they are below "
        "a pass, else all high. "
        f"{describe('zero_variance_groups').tip} Click to filter the grid to a group."
    )
    counts = ", ".join([f"{len(groups):,}", *without_signal])
    return f'<div class="head" title="{safe_text(tip)}"><b>Groups</b><span class="unit">{counts}</span></div>'


def _frame(groups: StepGroups, order: np.ndarray) -> pd.DataFrame:
    """Return the plotted numbers as a table: one row per group, sorted by mean."""
    numbers = {name: groups.values[of][order] for name, of in _NUMBERS.items() if of in groups.values}
    names = [well_formed(groups.names[group]) for group in order.tolist()]
    return pd.DataFrame(
        {"group": names, "samples": groups.sizes[order], **numbers, "state": groups.states[order]}
    )


def _columns(
    groups: StepGroups | None = None,
    order: np.ndarray | None = None,
    floor: float = 0.0,
    roof: float = 1.0,
) -> dict[str, Any]:
    """Return the columns of the plot's data source: one entry per group, in ``order``."""
    if groups is None or order is None:
        names = ["left", "right", "floor", "roof", "sky", "above", "below", "size", "name", "state"]
        return {name: [] for name in (*names, *_NUMBERS)}
    count, names, states = len(order), groups.names, groups.states[order]
    missing = np.full(len(groups), np.nan)
    numbers = {key: groups.values.get(name, missing)[order] for key, name in _NUMBERS.items()}
    half, gap = _MARK * (roof - floor) / 2, 0.12 if count <= 100 else 0.0
    return {
        "left": np.arange(count) + gap,
        "right": np.arange(count) + 1.0 - gap,
        "floor": np.full(count, floor),
        "roof": np.full(count, roof),
        "sky": np.where(states == SIGNAL, floor, roof),
        "above": numbers["mean"] + half,
        "below": numbers["mean"] - half,
        "size": groups.sizes[order],
        "name": [names[group][:80] for group in order.tolist()],
        "state": states.tolist(),
        **numbers,
    }
