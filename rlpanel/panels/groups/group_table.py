"""The step's groups as a table: sorted by any of their numbers; a click leads to a group's samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from bokeh.models.widgets.tables import NumberFormatter
from panel.viewable import Viewer

from rlpanel.metrics.engine.column_info import METRICS, describe
from rlpanel.panels.groups.group_strip import choose
from rlpanel.panels.samples.sample_table import PAGE, PICK, SampleTable, header_tips
from rlpanel.panels.samples.text_cache import read_texts
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.prompt_text import first_line
from rlpanel.panels.ui.table_click import click_field
from rlpanel.panels.ui.theme import number
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.step_groups import StepGroups, groups_of

#: Groups whose prompts are read.
MOST_PROMPTS = 300

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
    """The table.

    Parameters
    ----------
    context : Context
    say : callable
        Takes what there is to say about the step's groups.
    """

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")
    picks = param.Integer(default=0, doc="How many groups were clicked.")

    def __init__(self, context: Context, say: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._say = context, say
        self._groups: StepGroups | None = None
        self._seen: tuple[object, ...] = ()
        self._prompts: dict[str, str] = {}
        self._work: BackgroundTask[pd.DataFrame] = BackgroundTask(self._put)
        self._clicked = click_field(self._pick)
        self._table = self._make(pd.DataFrame({"uid": pd.Series(dtype=str)}))
        self._place = pn.Column(self._table, sizing_mode="stretch_width", margin=0)
        self._column = pn.Column(self._place, self._clicked, sizing_mode="stretch_width", margin=0)
        watch_step(context, self._draw)
        context.display.param.watch(self._draw, ["pad_token", "system_end"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context = self.context
        if not self.active:
            return
        groups = self._groups = groups_of(context.view, context.selection.step)
        self._place.visible = groups is not None
        if groups is None or context.index is None:
            self._work.stop()
            self._say("the samples of this step are in no groups")
            return
        self._say(_in_words(groups, context.selection.step))
        pad_token, system_end = context.display.pad_token, context.display.system_end
        seen = (context.index, context.selection.step, pad_token, system_end)
        if seen != self._seen:
            self._seen, self._prompts = seen, {}
        self._work.start(_frames(context.index, groups, self._prompts, pad_token, system_end))

    def _put(self, frame: pd.DataFrame) -> None:
        """Give the table these rows; other columns are another table."""
        if list(frame.columns) == list(self._table.value.columns):
            self._table.value = frame
        else:
            self._table = self._make(frame)
            self._place[:] = [self._table]

    def _pick(self, event: Any) -> None:
        uid, groups = event.new.partition("\n")[0], self._groups
        at = groups.holding(uid) if groups is not None and uid else None
        if groups is not None and at is not None:
            choose(self.context, groups, at)
            self.picks += 1

    def _make(self, frame: pd.DataFrame) -> SampleTable:
        numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
        table = SampleTable(
            frame,
            titles=_TITLES,
            header_tooltips=header_tips(name for name in frame.columns if name in METRICS),
            formatters={
                name: NumberFormatter(format="0" if name == "n" else "0.000", nan_format="–")
                if name in numbers
                else {"type": "plaintext"}
                for name in frame.columns
            },
            text_align=dict.fromkeys(numbers, "right"),
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
    """A row a group, in order of arrival; prompts that are not read are not there."""
    numbers = {name: groups.values[name] for name in _TITLES if name in groups.values}
    return pd.DataFrame(
        {
            "uid": groups.snapshot.uids(_first(groups)),
            "group": groups.names,
            "n": groups.sizes,
            **numbers,
            "signal": groups.states.tolist(),
            "prompt": prompts + [""] * (len(groups) - len(prompts)),
        }
    )


def _frames(
    index: RunIndex, groups: StepGroups, known: dict[str, str], pad_token: str, system_end: str
) -> Iterator[pd.DataFrame]:
    """The table with the first lines of its prompts; those that are ``known`` by uid are not read again."""
    first = _first(groups)[:MOST_PROMPTS]
    uids = groups.snapshot.uids(first)
    missing = np.array([uid not in known for uid in uids], bool)
    texts = read_texts(index, groups.snapshot, first[missing])
    lines = [first_line(text.get("prompt"), pad_token, system_end) for text in texts]
    known.update(zip(np.array(uids, object)[missing].tolist(), lines, strict=True))
    yield frame_of(groups, [known[uid] for uid in uids])


def _first(groups: StepGroups) -> np.ndarray:
    """The first row of each group, shape (G,)."""
    return np.array([rows[0] for rows in groups.members], int)


def _in_words(groups: StepGroups, step: int | None) -> str:
    """How many there are, and the chance that one of k samples passes."""
    view = groups.view
    at = view.snapshot.steps.position(step) if step is not None else -1
    found = {
        describe(name).label: float(view.step_values(name)[at])
        for name in _PASSES
        if name in view.step_metrics
    }
    passes = [f"{label} {number(value)}" for label, value in found.items() if np.isfinite(value)]
    return " · ".join([f"{len(groups):,} groups", *passes])
