"""Sortable table of the step's groups; a click filters the grid to a group's samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.metrics.engine.column_info import METRICS, describe
from rlpanel.number_text import number
from rlpanel.panels.groups.group_strip import filter_by_group
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.sample_table import PICK, SampleTable, header_tips
from rlpanel.panels.samples.visible_rows import PAGE
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.texts.sample_texts import read_texts
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.table_click import click_field
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.step_groups import StepGroups, groups_of
from rlpanel.texts.prompt_parts import TextStyle, prompt_line

#: Maximum number of groups whose prompts are read.
MAX_PROMPTS = 300

_TITLES = {
    "group_mean": "mean",
    "group_std": "std",
    "group_best": "best",
    "group_worst": "worst",
    "group_pass_rate": "pass",
    "group_diversity": "distinct",
}
_PASSES = ("pass_at_1", "pass_at_2", "pass_at_4", "pass_at_8")


class GroupTable(Viewer):
    """Table of groups with their statistics and prompts.

    Parameters
    ----------
    context : Context
    show_note : callable
        Shows a line of text about the step's groups.
    """

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")
    picks = param.Integer(default=0, doc="Number of clicks on a group.")

    def __init__(self, context: Context, show_note: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._show_note = context, show_note
        self._groups: StepGroups | None = None
        self._prompts_key: tuple[object, ...] = ()
        self._prompts: dict[str, str] = {}
        self._work: BackgroundTask[pd.DataFrame] = BackgroundTask(self._show_frame, context.threads.views)
        self._clicked = click_field(self._pick)
        self._table = self._make_table(pd.DataFrame({"uid": pd.Series(dtype=str)}))
        self._table_box = pn.Column(self._table, sizing_mode="stretch_width", margin=0)
        self._column = pn.Column(self._table_box, self._clicked, sizing_mode="stretch_width", margin=0)
        watch_step(context, self._draw)
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context = self.context
        if not self.active:
            return
        groups = self._groups = groups_of(context.view, context.selection.step)
        self._table_box.visible = groups is not None
        if groups is None or context.index is None:
            self._work.stop()
            self._show_note(tr("This step has no groups"))
            return
        self._show_note(_summary(groups, context.selection.step))
        style = text_style(context)
        key = (context.index, context.selection.step, style)
        if key != self._prompts_key:
            self._prompts_key, self._prompts = key, {}
        self._work.start(_read_frames(context.index, groups, self._prompts, style))

    def _show_frame(self, frame: pd.DataFrame) -> None:
        """Show the rows; if the columns differ, the table is replaced by a new one."""
        if list(frame.columns) == list(self._table.value.columns):
            self._table.value = frame
        else:
            self._table = self._make_table(frame)
            self._table_box[:] = [self._table]

    def _pick(self, event: Any) -> None:
        uid, groups = event.new.partition("\n")[0], self._groups
        group = groups.index_of(uid) if groups is not None and uid else None
        if groups is not None and group is not None:
            filter_by_group(self.context, groups, group)
            self.picks += 1

    def _make_table(self, frame: pd.DataFrame) -> SampleTable:
        numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
        table = SampleTable(
            frame,
            titles=_TITLES,
            header_tooltips=header_tips(name for name in frame.columns if name in METRICS),
            formatters={name: {"type": "plaintext"} for name in frame.columns},
            text_align=dict.fromkeys(numbers, "right"),
            header_align=dict.fromkeys(numbers, "right"),
            widths={**dict.fromkeys(numbers, 72), "n": 44, "group": 72, "prompt": 190, "signal": 66},
            hidden_columns=["uid"],
            pagination="remote",
            page_size=PAGE,
            show_index=False,
            disabled=True,
            selectable=1,
            sizing_mode="stretch_width",
            height=PAGE * 27 + 80,
            margin=(4, 8),
            layout="fit_data",
            stylesheets=[read_assets("panels/ui/table.css")],
            css_classes=["rl-group-table"],
            row_height=27,
            configuration={"columnDefaults": {"headerSortTristate": True}, "renderVertical": "basic"},
        )
        table.jscallback(args={"picked": self._clicked}, **{"event:cell-click": PICK})
        return table


def frame_of(groups: StepGroups, prompts: list[str]) -> pd.DataFrame:
    """Return one row per group, in order of arrival; prompts that were not read are empty."""
    numbers = {name: groups.values[name] for name in _TITLES if name in groups.values}
    return pd.DataFrame(
        {
            "uid": groups.snapshot.uids(_first_rows(groups)),
            "group": groups.names,
            "n": groups.sizes,
            **numbers,
            "signal": groups.states.tolist(),
            "prompt": prompts + [""] * (len(groups) - len(prompts)),
        }
    )


def _read_frames(
    index: RunIndex, groups: StepGroups, cache: dict[str, str], style: TextStyle
) -> Iterator[pd.DataFrame]:
    """Yield the table once, with the first lines of its prompts; ``cache`` holds lines by uid."""
    first = _first_rows(groups)[:MAX_PROMPTS]
    uids = groups.snapshot.uids(first)
    missing = np.array([uid not in cache for uid in uids], bool)
    texts = read_texts(index, groups.snapshot, first[missing])
    lines = [prompt_line(text.get("prompt"), style) for text in texts]
    cache.update(zip(np.array(uids, object)[missing].tolist(), lines, strict=True))
    yield frame_of(groups, [cache[uid] for uid in uids])


def _first_rows(groups: StepGroups) -> np.ndarray:
    """Return the first row of each group, shape (G,)."""
    return np.array([rows[0] for rows in groups.members], int)


def _summary(groups: StepGroups, step: int | None) -> str:
    """Return the number of groups and pass@k."""
    view = groups.view
    position = view.snapshot.steps.position(step) if step is not None else -1
    rates = {
        describe(name).label: view.values_at(name, (position,))[0]
        for name in _PASSES
        if name in view.step_metrics
    }
    passes = [f"{label} {number(value)}" for label, value in rates.items() if np.isfinite(value)]
    return " · ".join([tr("{groups:,} groups", groups=len(groups)), *passes])
