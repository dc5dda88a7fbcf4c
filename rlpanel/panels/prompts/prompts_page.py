"""Page of the run: which prompts it has learnt, which are dead, forgotten or flaky."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.inputs.tab_bar import TabBar
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import DataColumn, DataTable, cells_of
from rlpanel.panels.texts.sample_texts import read_texts
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.snapshot.prompt_courses import (
    BELOW,
    COURSES,
    DEAD,
    FLAKY,
    FORGOTTEN,
    LEARNT,
    STEADY,
    PromptCourse,
    PromptCourses,
    prompt_courses,
)
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import prompt_line

#: Runs of up to this many samples are computed on the event loop, larger ones on a thread.
COUNT_NOW = 50_000
#: Rows of a page, and points of a trend.
PAGE_ROWS, TREND_POINTS = 50, 32

_TITLES = {
    LEARNT: marked("learnt"),
    DEAD: marked("dead"),
    FORGOTTEN: marked("forgotten"),
    FLAKY: marked("flaky"),
    STEADY: marked("steady"),
    BELOW: marked("below the reference"),
    "": marked("all"),
}
_WORDS = {
    LEARNT: marked("The mean reward moved up once and stayed there."),
    DEAD: marked("At no step was the mean reward above that of the first, and it could have been."),
    FORGOTTEN: marked("The mean reward was higher before, and has not come back."),
    FLAKY: marked("The mean reward moves up and down."),
    STEADY: marked("The mean reward did not move, or was the best possible from the start."),
    BELOW: marked("At no step was the mean reward above that of the reference's responses."),
    "": marked("All prompts, the largest loss first."),
}
_MOVE = marked(
    "A move is at least 30 % of the rewards' range and three times its standard error, but need not exceed "
    "75 % of the range."
)


class PromptsPage(Viewer):
    """Table of prompts by the course of their reward; a click opens the prompt's history.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found, self._listed = PromptCourses([]), list[PromptCourse]()
        self._snapshot = context.snapshot
        self._course = DEAD
        self._work: BackgroundTask[PromptCourses] = BackgroundTask(self._show, context.threads.views)
        self.bar = TabBar(css_classes=["rl-courses"], label=tr("Courses of the prompts"), margin=(6, 8, 0, 8))
        self.bar.on_message(self._choose)
        self.note = Html(stylesheets=[theme.CSS], margin=(2, 14), css_classes=["rl-courses-note"])
        self.table = DataTable(
            [
                DataColumn("prompt", tr("prompt")),
                DataColumn("course", tr("course"), width=96),
                DataColumn("visits", tr("steps"), tr("Steps with this prompt"), 74, align="right"),
                DataColumn("samples", tr("samples"), width=84, align="right"),
                DataColumn("first", tr("first"), tr("Mean reward at its first step"), 74, align="right"),
                DataColumn("last", tr("last"), tr("Mean reward at its last step"), 74, align="right"),
                DataColumn("best", tr("best"), tr("Highest mean reward at a step"), 74, align="right"),
                DataColumn("trend", tr("trend"), tr("Mean reward over its steps"), 140, image=True),
            ],
            page_size=PAGE_ROWS,
            pick=self._pick,
            cells=self._cells,
            sizing_mode="stretch_both",
            margin=(4, 8),
            stylesheets=[_TREND_CSS],
            css_classes=["rl-prompts-table"],
        )
        self._column = pn.Column(
            self.bar, self.note, self.table, sizing_mode="stretch_both", margin=0, css_classes=["rl-prompts"]
        )
        context.param.watch(self._on_view, "view")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "stuck_steps"])
        context.selection.param.watch(self._list, "dark")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- drawing ---------------------------------------------------------------------------------

    def _on_view(self, event: Any) -> None:
        """Draw again for another run, and when a step is complete."""
        new, old = event.new.snapshot, event.old.snapshot
        is_other = new.name != old.name or new.split != old.split
        if is_other or not np.array_equal(new.steps.values, old.steps.values):
            self._draw()

    def _draw(self, *_: Any) -> None:
        self._work.stop()
        if not self.active or self.context.index is None:
            return
        snapshot = self._snapshot = self.context.snapshot
        results = _compute(snapshot, self.context.display.stuck_steps)
        if snapshot.samples <= COUNT_NOW:
            self._show(next(results))
        else:
            self.note.html = note_html(tr("Searching …"))
            self._work.start(results)

    def _show(self, found: PromptCourses) -> None:
        self._found = found
        counts = {course: len(found.of(course)) for course in (*COURSES, BELOW, "")}
        shown = [course for course in _TITLES if course != BELOW or counts[BELOW]]
        self.bar.param.update(
            tabs=[
                {"key": course or "all", "title": f"{tr(_TITLES[course])} {counts[course]:,}"}
                for course in shown
            ],
            value=(self._course if self._course in shown else "") or "all",
        )
        self._list()

    def _list(self, *_: Any) -> None:
        if not self.active:
            return
        prompts = self._found.of(self._course)
        frame = pd.DataFrame(
            {
                "prompt": np.arange(len(prompts)),
                "course": [prompt.course for prompt in prompts],
                "visits": [len(prompt.steps) for prompt in prompts],
                "samples": [prompt.samples for prompt in prompts],
                "first": [float(prompt.means[0]) for prompt in prompts],
                "last": [float(prompt.means[-1]) for prompt in prompts],
                "best": [prompt.best for prompt in prompts],
                "trend": [prompt.gain for prompt in prompts],
                "uid": self._snapshot.uids(np.array([prompt.row for prompt in prompts], int)),
            }
        )
        self._listed = prompts
        self.table.hide("course", hidden=self._course in COURSES)
        self.table.draw(frame)
        self.note.html = note_html(" ".join([tr(_WORDS[self._course]), tr(_MOVE), self._seen()]))

    def _seen(self) -> str:
        """Return how many prompts were seen often enough to have a course."""
        least = max(self.context.display.stuck_steps, 2)
        found = self._found
        counts = {"count": len(found.prompts), "seen": found.seen, "least": least}
        words = tr("{count:,} of {seen:,} prompts were seen at {least:,} steps or more", **counts)
        if not found.prompts and found.seen:
            return tr("{words}; at most at {most:,}.", words=words, most=found.most)
        return f"{words}."

    def _cells(self, page: pd.DataFrame, name: str) -> Sequence[str | None]:
        """Return the texts of a column; prompts are read for the rows of a page only."""
        prompts = [self._listed[at] for at in page["prompt"].tolist()]
        if name == "prompt":
            return self._texts(prompts)
        if name == "course":
            return [tr(_TITLES[prompt.course]) for prompt in prompts]
        if name == "trend":
            color = theme.palette(self.context.selection.dark)["policy"]
            low, high = self._range
            return [trend_image(prompt.means, low, high, color) for prompt in prompts]
        if name in ("first", "last", "best"):
            return [number(value) for value in page[name].tolist()]
        return cells_of(page, name)

    @property
    def _range(self) -> tuple[float, float]:
        """The lowest and the highest mean of all listed prompts, for one axis of their trends."""
        values = [value for prompt in self._listed for value in (prompt.means.min(), prompt.best)]
        return (min(values), max(values)) if values else (0.0, 1.0)

    def _texts(self, prompts: Sequence[PromptCourse]) -> list[str]:
        index = self.context.index
        if index is None:
            return [""] * len(prompts)
        style, rows = text_style(self.context), np.array([prompt.row for prompt in prompts], int)
        return [prompt_line(texts.get("prompt"), style) for texts in read_texts(index, self._snapshot, rows)]

    # -- choosing --------------------------------------------------------------------------------

    def _choose(self, key: Any) -> None:
        if isinstance(key, str) and key in {tab["key"] for tab in self.bar.tabs}:
            self._course = "" if key == "all" else key
            self.bar.value = key
            self._list()

    def _pick(self, uid: str, _: str) -> None:
        """Open the history of a prompt at its newest sample."""
        self.context.choose_sample(uid)
        self.context.selection.param.update(page="samples", tab="prompt")


def _compute(snapshot: Snapshot, least: int) -> Iterator[PromptCourses]:
    yield prompt_courses(snapshot, least)


_TREND_CSS = """
.tabulator-cell img { width: 120px; max-width: 100%; height: 18px; object-fit: fill; }
[tabulator-field="c_prompt"] { min-width: 170px !important; }
"""


def trend_image(means: np.ndarray, low: float, high: float, color: str) -> str:
    """Return a line through a prompt's mean rewards as the data URL of an image."""
    parts = [part.mean() for part in np.array_split(means, min(len(means), TREND_POINTS))]
    scale = high - low or 1.0
    points = " ".join(
        f"{120 * at / max(1, len(parts) - 1):.1f},{16 - 14 * (value - low) / scale:.1f}"
        for at, value in enumerate(parts)
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 18" preserveAspectRatio="none">'
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/></svg>'
    )
    return f"data:image/svg+xml,{quote(svg)}"
