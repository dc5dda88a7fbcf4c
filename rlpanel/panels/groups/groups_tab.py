"""Groups tab of the sample panel: cards of the sample's group, or a table of the step's groups.

A click in the table filters the grid to a group's samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.number_text import number
from rlpanel.panels.conversation.image_strip import ImageStrip
from rlpanel.panels.groups.group_samples import GroupSamples
from rlpanel.panels.groups.group_strip import filter_by_group
from rlpanel.panels.inputs.input_fields import FieldRow, select_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.visible_rows import PAGE
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn, DataTable
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, read_texts, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
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
#: Widths in pixels; other columns have 72.
_WIDTHS = {"n": 44, "prompt": 190, "signal": 66}
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
        self.table = DataTable(
            page_size=PAGE,
            pick=self._pick,
            sizing_mode="stretch_width",
            height=PAGE * ROW_HEIGHT + 80,
            margin=(4, 8),
            css_classes=["rl-group-table"],
        )
        watch_step(context, self._draw)
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self.table

    def _draw(self, *_: Any) -> None:
        context = self.context
        if not self.active:
            return
        groups = self._groups = groups_of(context.view, context.selection.step)
        self.table.visible = groups is not None
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
        self.table.define([_column(name, frame[name]) for name in frame.columns if name != "uid"])
        self.table.draw(frame)

    def _pick(self, uid: str, _: str) -> None:
        groups = self._groups
        group = groups.index_of(uid) if groups is not None else None
        if groups is not None and group is not None:
            filter_by_group(self.context, groups, group)
            self.picks += 1


def _column(name: str, values: pd.Series) -> DataColumn:
    number = pd.api.types.is_numeric_dtype(values)
    return DataColumn(
        name,
        _TITLES.get(name, name),
        tip=described(name).tip if name in METRICS else "",
        width=_WIDTHS.get(name, 72),
        align="right" if number else "left",
    )


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
        described(name).label: view.values_at(name, (position,))[0]
        for name in _PASSES
        if name in view.step_metrics
    }
    passes = [f"{label} {number(value)}" for label, value in rates.items() if np.isfinite(value)]
    return " · ".join([tr("{groups:,} groups", groups=len(groups)), *passes])


_ONE, _ALL = "one", "all"


class GroupsTab(Viewer):
    """Tab with the choice of view and a line of text about it."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._context = context
        self._images = ImageStrip(context, given=True)
        self._mode = select_field("what", tr("Groups"), 190)
        self._mode.param.update(
            options={tr("This sample's group"): _ONE, tr("All groups of the step"): _ALL}, value=_ONE
        )
        self._note = Html(
            stylesheets=[theme.CSS],
            sizing_mode="stretch_width",
            margin=(6, 8),
            css_classes=["rl-group-note"],
        )
        self._cards = GroupSamples(context, self._show_note)
        self._table = GroupTable(context, self._show_note)
        self._column = pn.Column(
            FieldRow(self._mode, self._note, margin=(8, 10, 0, 10)),
            self._images,
            self._cards,
            self._table,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-group-tab"],
        )
        self._mode.param.watch(self._activate, "value")
        self.param.watch(self._activate, "active")
        self._table.param.watch(self.show_group, "picks")
        context.param.watch(self._show_images, "sample")
        self._activate()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def show_group(self, *_: Any) -> None:
        """Switch to the group of the selected sample."""
        self._mode.value = _ONE

    def _activate(self, *_: Any) -> None:
        """Show and activate the chosen view only."""
        one = self._mode.value == _ONE
        self._cards.visible, self._table.table.visible = one, not one
        self._cards.active, self._table.active = self.active and one, self.active and not one

        self._show_images()

    def _show_images(self, *_: Any) -> None:
        """Show the images of the prompt, which all samples of the group share, once above the cards."""
        if self._cards.active:
            self._images.sample = self._context.sample
        elif self._mode.value != _ONE:
            self._images.sample = None

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'
