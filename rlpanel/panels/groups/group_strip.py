"""The step's groups as a strip: a column a group, from its worst to its best, sorted by their mean.

The strip is a profile: steep where the policy is right half the time, flat where a group teaches nothing.
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
from rlpanel.panels.export.export_menu import ExportMenu, headed
from rlpanel.panels.plots.bar_chart import HEIGHT
from rlpanel.panels.plots.column_payload import column_payload
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL, StepGroups, groups_of

#: State of a group to the theme's colour for it.
COLORS = {SIGNAL: "policy", ALL_LOW: "bad", ALL_HIGH: "good"}
_NUMBERS = {
    "mean": "group_mean",
    "std": "group_std",
    "best": "group_best",
    "worst": "group_worst",
    "diversity": "group_diversity",
}
#: Share of the plot's height that a mean's mark takes.
_MARK = 0.035


class GroupStrip(Viewer):
    """The strip's card; gone where samples come in no groups, or have no rewards."""

    picks = param.Integer(default=0, doc="How many groups were clicked.")

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
        self._here = Span(dimension="height", line_width=1, visible=False)
        self._plot.add_layout(self._here)
        self._plot.on_event(Tap, self._tapped)
        self._head = HtmlPane("", stylesheets=[theme.CSS], sizing_mode="stretch_width")
        self._card = pn.Column(
            headed(self._head, ExportMenu(context, self._taken)),
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
        """Behind, a tint where there is no signal; the range; the mean."""
        color = {"field": "state", "transform": self._mapper}
        common: dict[str, Any] = {"left": "left", "right": "right", "line_color": None, "fill_color": color}
        *_, everywhere = theme.over(
            self._plot,
            self._source,
            Quad(top="sky", bottom="floor", fill_alpha=0.16, **common),
            Quad(top="best", bottom="worst", fill_alpha=0.38, **common),
            Quad(top="above", bottom="below", **common),
            Quad(top="roof", bottom="floor", fill_alpha=0, **common),
        )
        tips = [("group", "@name"), ("samples", "@size"), ("rewards", "@worst{0.[000]} … @best{0.[000]}")]
        tips += [("mean", "@mean{0.000} ± @std{0.000}"), ("diversity", "@diversity{0%}"), ("", "@state")]
        self._plot.add_tools(HoverTool(tooltips=tips, renderers=[everywhere], limit=1, attachment="below"))

    def _draw(self, *_: Any) -> None:
        before, selection = self._groups, self.context.selection
        groups = groups_of(self.context.view, selection.step)
        gone = before is not None and selection.filter in before.filters
        if gone and (groups is None or selection.filter not in groups.filters):
            selection.filter = ""  # it named a group of the step shown before
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
        room = 0.08 * ((high - low) or 1.0)
        self._head.object = _head_html(groups)
        with theme.drawing():
            self._source.data = column_payload(_columns(groups, self._order, low - room, high + room))
            self._plot.x_range.update(start=0, end=len(groups))
            self._plot.y_range.update(start=low - room, end=high + room)
        self._mark()

    def _mark(self, *_: Any) -> None:
        """A line at the group of the sample that is shown."""
        sample, groups = self.context.sample, self._groups
        at = None
        if sample is not None and groups is not None and sample.step == self.context.selection.step:
            at = groups.holding(sample.uid)
        with theme.drawing():
            self._here.visible = at is not None
            if at is not None:
                self._here.location = float(np.flatnonzero(self._order == at)[0]) + 0.5

    def _restyle(self, *_: Any) -> None:
        colors = theme.palette(self.context.selection.dark)
        with theme.drawing():
            theme.restyle(self._plot, self.context.selection.dark)
            self._mapper.palette = [colors[name] for name in COLORS.values()]
            self._here.line_color = colors["text"]

    def _taken(self) -> CardExport | None:
        groups, order, name = self._groups, self._order, self.context.snapshot.name
        if groups is None:
            return None
        step = self.context.selection.step
        return CardExport(
            name=f"{file_name(name)}-groups-step-{step}",
            title="Groups",
            words=f"{name}, step {step}, {len(groups):,} by mean reward, worst to best, mark at the mean",
            rows=lambda: _frame(groups, order),
            legend=tuple((state, color) for state, color in COLORS.items() if state in groups.states),
        )

    def _tapped(self, event: Any) -> None:
        if self._groups is not None:
            place = int(np.clip(event.x, 0, len(self._groups) - 1))
            choose(self.context, self._groups, int(self._order[place]))
            self.picks += 1


def choose(context: Context, groups: StepGroups, at: int) -> None:
    """The viewer chose a group: the grid is filtered to its samples, and no longer so when chosen again."""
    wanted = groups.filters[at]
    again = context.selection.filter == wanted and context.selection.scope == "step"
    context.choose_range(context.selection.step, "" if again else wanted)


def _head_html(groups: StepGroups) -> str:
    low, high = (int((groups.states == state).sum()) for state in (ALL_LOW, ALL_HIGH))
    flat = [f'<span class="bad">{low:,} all low</span>'] if low else []
    flat += [f'<span class="good">{high:,} all high</span>'] if high else []
    known = groups.values["group_std"][np.isfinite(groups.values["group_std"])]
    spread = float(known.mean()) if len(known) else float("nan")
    tip = (
        f"{len(groups):,} groups of the step, by mean reward: from the worst sample to the best, a mark at "
        f"the mean; mean deviation inside a group {number(spread)}. A group whose rewards are all the same "
        f"teaches nothing: all low below a pass, all high at one. {describe('zero_variance_groups').tip} "
        "Click: the group's samples."
    )
    said = ", ".join([f"{len(groups):,}", *flat])
    return f'<div class="head" title="{safe_text(tip)}"><b>Groups</b><span class="unit">{said}</span></div>'


def _frame(groups: StepGroups, order: np.ndarray) -> pd.DataFrame:
    """The strip as a table, a row a group, by mean."""
    drawn = {name: groups.values[of][order] for name, of in _NUMBERS.items() if of in groups.values}
    names = [well_formed(groups.names[at]) for at in order.tolist()]
    return pd.DataFrame(
        {"group": names, "samples": groups.sizes[order], **drawn, "state": groups.states[order]}
    )


def _columns(
    groups: StepGroups | None = None,
    order: np.ndarray | None = None,
    floor: float = 0.0,
    roof: float = 1.0,
) -> dict[str, Any]:
    """What the browser holds, a column a group in ``order``."""
    if groups is None or order is None:
        places = ("left", "right", "floor", "roof", "sky", "above", "below", "size", "name", "state")
        return {name: [] for name in (*places, *_NUMBERS)}
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
        "name": [names[at][:80] for at in order.tolist()],
        "state": states.tolist(),
        **numbers,
    }
