"""Page of the run: pass rate of each prompt at each step, its class and cost, and curriculum files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.board_url import PROMPT_CLASSES
from rlpanel.number_text import number
from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.inputs.tab_bar import TabBar
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.prompts.grid_figure import GridFigure, GridPicture, import_plots, rate_colors
from rlpanel.panels.prompts.grid_head import PassGridHead
from rlpanel.panels.prompts.grid_image import GridWindow, window_of
from rlpanel.panels.prompts.prompt_categories import ALL, Category, categories_of, prompts_of
from rlpanel.panels.prompts.prompt_pictures import BAND_TITLES, picture_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import DataColumn, DataTable, cells_of
from rlpanel.panels.texts.sample_texts import read_texts
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.curriculum import curriculum_effect, curriculum_lines
from rlpanel.store.snapshot.prompt_classes import (
    ALWAYS,
    CLASSES,
    FLICKERS,
    FORGOTTEN,
    LEARNT,
    NEVER,
    SELDOM,
    STEADY,
)
from rlpanel.store.snapshot.prompt_costs import PromptCosts, costs_of_prompts
from rlpanel.store.snapshot.prompt_grid import GridBuilder
from rlpanel.store.snapshot.prompts import unsolved_prompts
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import prompt_line

#: Runs of up to this many samples are computed on the event loop, larger ones on a thread.
COUNT_NOW = 50_000
#: Rows of a page, and points of a trend.
PAGE_ROWS, TREND_POINTS = 50, 32
#: Weights of the curriculum file: 0 drops a prompt.
WEIGHTS = (0, 2, 4, 8)
#: Not a class: prompts of any class whose mean reward never came up to the reference's.
BELOW = "below"

#: Classes in the order in which they are looked at.
_FIRST = (NEVER, FORGOTTEN, FLICKERS, LEARNT, STEADY, ALWAYS, SELDOM)

_WORDS = {
    LEARNT: marked("The pass rate moved up once and stayed there."),
    NEVER: marked("At most 5 % of the samples passed, and no change is shown."),
    FORGOTTEN: marked("The pass rate was higher before, and has not come back."),
    FLICKERS: marked("The pass rate moves up and down, more than chance explains."),
    ALWAYS: marked("At least 95 % of the samples passed, and no change is shown."),
    STEADY: marked("Some samples pass. Chance explains how the pass rate varies."),
    SELDOM: marked("Seen at too few steps for a class."),
    BELOW: marked("At no step was the mean reward above that of the reference's responses."),
    "": marked("All prompts, by class."),
}
_TITLES = {**BAND_TITLES, BELOW: marked("below the reference"), "": marked("all")}
_MOVE = marked(
    "A change must exceed binomial noise between visits (99.9 %). A move is at least 30 points and three "
    "standard errors, but need not exceed 75 points."
)
_ORIGINS = {
    "run.json": marked("A sample passes from reward {reward} on (run.json)."),
    "setting": marked("A sample passes from reward {reward} on (setting)."),
    "usual": marked("A sample passes from reward {reward} on (usual value, not logged)."),
    "range": marked(
        "A sample passes from reward {reward} on: 90 % of the rewards' range, since no threshold is given. "
        "Set the pass threshold in the side panel."
    ),
}
_WASTE = {
    "dead group": marked("dead groups"),
    "discarded": marked("discarded"),
    "failed": marked("failed"),
    "truncated": marked("truncated"),
    "any of these": marked("any of these"),
}


@dataclass(frozen=True)
class _Found:
    """Results for the rows that were read; before that, the number of rows read so far."""

    read: int
    total: int
    costs: PromptCosts | None = None
    order: np.ndarray | None = None
    categories: tuple[Category, ...] = ()
    below: np.ndarray | None = None


class PromptsPage(Viewer):
    """Grid of pass rates, and a table of the prompts of a class; a click opens a prompt's history.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found = _Found(0, 0)
        self._listed = np.empty(0, int)
        self._shown = np.empty(0, int)  # the lanes of the grid
        self._snapshot = context.snapshot
        self._facts: list[str] = []
        self._builder = GridBuilder()
        self._window: GridWindow | None = None  # None if everything is in view
        self._picture: GridPicture | None = None
        # A browser that still builds the page's views ignores a child that is replaced: the plot stays blank.
        self._browser_ready = False
        self._weight = 0
        self._stopped = False
        self._work: BackgroundTask[_Found] = BackgroundTask(self._show, context.threads.pages)
        self._drawing: BackgroundTask[GridPicture] = BackgroundTask(self._show_picture, context.threads.pages)
        self._writing: BackgroundTask[dict[str, Any]] = BackgroundTask(self._send, context.threads.queries)
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-prompts-stop"])
        self.bar = TabBar(css_classes=["rl-courses"], label=tr("Classes of the prompts"), margin=(6, 8, 0, 8))
        self.bar.on_message(self._choose)
        self.note = Html(stylesheets=[theme.CSS], margin=(2, 14), css_classes=["rl-courses-note"])
        self.head = PassGridHead(sizing_mode="stretch_width", margin=(4, 14), css_classes=["rl-grid-head"])
        self.head.on_message(self._on_message)
        self.figure = GridFigure(self._zoom, self._tap)
        self.foot = PassGridHead(sizing_mode="stretch_width", margin=(4, 14), css_classes=["rl-grid-foot"])
        self.foot.on_message(self._on_message)
        self.table = DataTable(
            [
                DataColumn("prompt", tr("prompt")),
                DataColumn("class", tr("class"), width=84),
                DataColumn("visits", tr("steps"), tr("Steps with this prompt"), 62, align="right"),
                DataColumn("samples", tr("samples"), width=78, align="right"),
                DataColumn("first", tr("first"), tr("Pass rate at its first step"), 62, align="right"),
                DataColumn("last", tr("last"), tr("Pass rate at its last step"), 62, align="right"),
                DataColumn("tokens", tr("tokens"), tr("Response tokens of its samples"), 84, align="right"),
                DataColumn(
                    "hours", tr("GPU-hours"), tr("Its part of the GPU-hours, by tokens"), 104, align="right"
                ),
                DataColumn("signal", tr("signal"), tr("Sum of the absolute advantages"), 70, align="right"),
                DataColumn("trend", tr("trend"), tr("Pass rate over its steps"), 140, image=True),
            ],
            page_size=PAGE_ROWS,
            pick=self._pick,
            cells=self._cells,
            sizing_mode="stretch_width",
            margin=(4, 8),
            stylesheets=[_TREND_CSS],
            css_classes=["rl-prompts-table"],
        )
        self._column = pn.Column(
            *(self.head, self.figure, self.bar, self.note, self._stop, self.foot, self.table),
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-prompts"],
        )
        selection = context.selection
        context.param.watch(self._on_view, "view")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "stuck_steps"])
        selection.param.watch(self._redraw_all, "dark")
        selection.param.watch(self._on_category, "prompt_category")
        selection.param.watch(self._list, "prompt_class")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- reading ---------------------------------------------------------------------------------

    def _on_view(self, event: Any) -> None:
        """Draw again for another run, and when a step is complete."""
        new, old = event.new.snapshot, event.old.snapshot
        is_other = new.name != old.name or new.split != old.split or new.counts_rows != old.counts_rows
        if (
            is_other
            or new.constants != old.constants
            or not np.array_equal(new.steps.values, old.steps.values)
        ) and (is_other or not self._stopped):
            self._draw()

    def _draw(self, *_: Any) -> None:
        self._work.stop()
        self._stop.visible = self._stopped = False
        if not self.active or self.context.index is None:
            return
        snapshot = self.context.snapshot
        if snapshot.name != self._snapshot.name or snapshot.split != self._snapshot.split:
            self._window, self._builder = None, GridBuilder()
        results = self._compute(snapshot, self._builder, self.context.display.stuck_steps)
        self._snapshot = snapshot
        if snapshot.samples <= COUNT_NOW:
            for found in results:
                self._show(found)
        else:
            self._stop.param.update(label=tr("Stop"), visible=True)
            self._work.start(results)

    def _on_stop(self, *_: Any) -> None:
        """Stop reading, or read on from where it was stopped."""
        if self._stopped:
            self._draw()
            return
        self._work.stop()
        self._stopped = True
        self._stop.label = tr("Read on")
        self.note.html = note_html(tr("Stopped. The pass rates of the samples read so far are kept."))

    def _compute(self, snapshot: Snapshot, builder: GridBuilder, least: int) -> Iterator[_Found]:
        for progress in builder.update(snapshot):
            if progress.grid is None:
                yield _Found(progress.read, progress.total)
                continue
            import_plots()
            costs = costs_of_prompts(snapshot, progress.grid, least)
            below = (
                _below(snapshot, progress.grid.newest, least) if snapshot.has_number("ref_reward") else None
            )
            categories = categories_of(snapshot, progress.grid.newest)
            yield _Found(progress.read, progress.total, costs, costs.order, categories, below)

    def _show(self, found: _Found) -> None:
        if found.costs is None:
            self.note.html = note_html(
                tr("Reading samples: {read:,} of {total:,} …", read=found.read, total=found.total)
            )
            return
        self._stop.visible = False
        self._found = found
        self._redraw_all()

    def _redraw_all(self, *_: Any) -> None:
        """Show what was found in the current category, class and theme."""
        found, costs = self._found, self._found.costs
        if not self.active or costs is None or found.order is None:
            return
        category = self.context.selection.prompt_category
        inside = prompts_of(self._snapshot, costs.grid.newest, category)
        self._shown = found.order[inside[found.order]]
        self._show_head()
        self._show_facts()
        self._draw_picture()
        self._list()

    # -- the grid --------------------------------------------------------------------------------

    @property
    def _whole(self) -> GridWindow:
        assert self._found.costs is not None
        return GridWindow(0, len(self._found.costs.grid.steps), 0, len(self._shown))

    def _draw_picture(self) -> None:
        """Draw what is in view, with as many cells as the plot has pixels."""
        costs, index, context = self._found.costs, self.context.index, self.context
        if costs is None or index is None:
            return
        if not len(self._shown) or not costs.grid.samples.any():
            self._picture = None
            self.figure.clear()
            return
        whole = self._whole
        window, (columns, rows) = self._window or whole, self.figure.pixels
        window = window_of(costs.grid, whole.last, (window.start, window.stop), (window.first, window.last))
        snapshot, shown, style = self._snapshot, self._shown, text_style(context)

        def draw() -> Iterator[GridPicture]:
            yield picture_of(index, snapshot, costs, shown, window, columns, rows, style)

        if len(costs.grid.prompt) <= COUNT_NOW:
            self._drawing.stop()
            self._show_picture(next(draw()))
        else:
            self._drawing.start(draw())

    def _show_picture(self, picture: GridPicture) -> None:
        self._picture = picture
        if self._browser_ready and self.active:
            whole, dark = self._whole, self.context.selection.dark
            key = (self._snapshot.name, self.context.selection.prompt_category, dark, whole)
            self.figure.show_grid(picture, key, dark, (whole.stop, whole.last))

    def _zoom(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Draw the part that the viewer chose."""
        if self._found.costs is None:
            return
        whole = self._whole
        window = window_of(self._found.costs.grid, whole.last, x, y)
        before, self._window = self._window, None if window == whole else window
        if self._window != before:
            self._show_head()
            self._draw_picture()

    def _tap(self, x: float, y: float) -> None:
        """Open the history of the prompt of a lane."""
        if np.isfinite(y) and 0 <= y < len(self._shown) and self._found.costs is not None:
            row = int(self._found.costs.grid.newest[self._shown[int(y)]])
            self._pick(self._snapshot.uid(row), "")

    def _show_head(self) -> None:
        category = self.context.selection.prompt_category
        found = [(each.key, each.title) for each in self._found.categories]
        if category and category not in [key for key, _ in found]:
            found.append((category, category))
        self.head.data = {
            "legend": {
                "low": tr("0 % pass"),
                "high": tr("100 % pass"),
                "colors": rate_colors(self.context.selection.dark)[::10],
            },
            "categories": [(ALL, tr("all")), *found],
            "category": category,
            "zoomed": self._window is not None,
            "labels": {"category": tr("Category"), "all": tr("Whole grid")},
        }

    # -- cost and curriculum ---------------------------------------------------------------------

    def _show_facts(self) -> None:
        costs = self._found.costs
        assert costs is not None
        facts = []
        for each in costs.waste:
            if each.rows is None:
                continue
            parts = [tr("{rows:,} samples", rows=each.rows)]
            if each.rows == 0:
                facts.append(tr("{kind}: none", kind=tr(_WASTE[each.kind])))
                continue
            parts += [] if each.share is None else [f"{each.share:.1%}"]
            parts += [] if each.tokens is None else [tr("{tokens} tokens", tokens=number(each.tokens))]
            parts += [] if each.gpu_hours is None else [tr("{hours} GPU-hours", hours=number(each.gpu_hours))]
            facts.append(tr("{kind}: {parts}", kind=tr(_WASTE[each.kind]), parts=", ".join(parts)))
        if facts:
            facts.insert(0, tr("Waste"))
        facts += [tr("not known: {what}", what=tr(what)) for what in costs.missing()]
        if not costs.grid.advantages:
            facts.append(tr("No advantages are logged: the signal is computed from each group's rewards."))
        self._facts = facts

    def _show_foot(self) -> None:
        costs = self._found.costs
        if costs is None:
            return
        effect = curriculum_effect(costs, self._listed)
        self.foot.data = {
            "facts": self._facts,
            "weights": [(str(weight), _weight_title(weight)) for weight in WEIGHTS],
            "weight": str(self._weight),
            "effect": effect.sentence(self._weight, tr),
            "labels": {
                "weight": tr("Curriculum"),
                "download": trn("Download {count:,} prompt", "Download {count:,} prompts", effect.prompts),
                "format": tr("A line of JSON for each prompt: key, id, text, class and weight"),
            },
        }

    def _on_message(self, message: Any) -> None:
        """Handle a click in head or foot, and that they are drawn. The message comes from the browser."""
        if not (isinstance(message, list) and len(message) == 2):
            return
        action, value = message
        if action == "ready" and not self._browser_ready:
            self._browser_ready = True
            if self._picture is not None:
                self._show_picture(self._picture)
        elif action == "category" and isinstance(value, str) and len(value) < 1000:
            self.context.selection.prompt_category = value
        elif action == "weight" and value in map(str, WEIGHTS):
            self._weight = int(value)
            self._show_foot()
        elif action == "all" and self._found.costs is not None:
            whole = self._whole
            self.figure.show_all(whole.stop, whole.last)
            self._zoom((0, whole.stop), (0, whole.last))
        elif action == "download":
            self._download()

    def _on_category(self, *_: Any) -> None:
        self._window = None
        self._redraw_all()

    def _download(self) -> None:
        costs, index = self._found.costs, self.context.index
        if costs is None or index is None:
            return
        name = self._class or "all"
        file = f"{file_name(self._snapshot.name)}-{name}-weight-{self._weight}.jsonl"
        self.foot.send({"name": None})
        self._writing.start(_lines(index, self._snapshot, costs, self._listed, self._weight, file))

    def _send(self, message: dict[str, Any]) -> None:
        self.foot.send(message)

    # -- the list --------------------------------------------------------------------------------

    @property
    def _class(self) -> str:
        """The chosen class; by default the first of those to look at that has prompts. Empty for all."""
        chosen = self.context.selection.prompt_class
        if chosen:
            return "" if chosen == "all" else chosen
        return next((name for name in _FIRST if len(self._of_class(name))), "")

    def _of_class(self, name: str) -> np.ndarray:
        """Return the prompts of a class in the current category."""
        costs, below = self._found.costs, self._found.below
        assert costs is not None
        if not name:
            return self._shown
        if name == BELOW:
            return self._shown[np.isin(self._shown, below)] if below is not None else self._shown[:0]
        return self._shown[costs.classes[self._shown] == CLASSES.index(name)]

    def _list(self, *_: Any) -> None:
        costs = self._found.costs
        if not self.active or costs is None:
            return
        counts = {name: len(self._of_class(name)) for name in _TITLES}
        shown = [
            name for name in _TITLES if name not in (BELOW, SELDOM) or counts[name] or name == self._class
        ]
        self.bar.param.update(
            tabs=[{"key": name or "all", "title": f"{tr(_TITLES[name])} {counts[name]:,}"} for name in shown],
            value=self._class or "all",
        )
        grid, prompts = costs.grid, self._of_class(self._class)
        first, last = costs.first_and_last()
        samples = grid.by_prompt(grid.samples)
        self._listed = prompts
        frame = pd.DataFrame(
            {
                "prompt": prompts,
                "class": costs.classes[prompts],
                "visits": grid.visits[prompts],
                "samples": samples[prompts].astype(int),
                "first": first[prompts],
                "last": last[prompts],
                "tokens": costs.tokens[prompts],
                "hours": costs.gpu_hours[prompts],
                "signal": costs.signal[prompts],
                "trend": last[prompts] - first[prompts],
                "uid": self._snapshot.uids(grid.newest[prompts]),
            }
        )
        # The rows come first: those of another run are not in this grid.
        self.table.draw(frame)
        for column, hidden in (
            ("class", self._class in CLASSES),
            ("tokens", not grid.has_tokens),
            ("hours", not np.isfinite(costs.gpu_hours).any()),
        ):
            self.table.hide(column, hidden=hidden)
        rule = grid.rule
        words = [
            tr(_WORDS[self._class]),
            tr(_MOVE),
            tr(_ORIGINS[rule.origin], reward=number(rule.reward)),
            self._seen(),
        ]
        self.note.html = note_html(" ".join(words))
        self._show_foot()

    def _seen(self) -> str:
        """Return how many prompts were seen often enough to have a class, and what has no reward."""
        costs = self._found.costs
        assert costs is not None
        grid, least = costs.grid, max(self.context.display.stuck_steps, 2)
        visits = grid.visits
        seen, known = int(np.count_nonzero(visits)), int(np.count_nonzero(visits >= least))
        words = tr(
            "{count:,} of {seen:,} prompts were seen at {least:,} steps or more",
            count=known,
            seen=seen,
            least=least,
        )
        if not known and seen:
            words = tr("{words}; at most at {most:,}.", words=words, most=int(visits.max()))
        else:
            words += "."
        unrewarded = int(grid.unrewarded.sum())
        if unrewarded:
            words += " " + tr("{count:,} samples without a finite reward are left out.", count=unrewarded)
        return words

    def _cells(self, page: pd.DataFrame, name: str) -> Sequence[str | None]:
        """Return the texts of a column; prompts are read for the rows of a page only."""
        if name == "prompt":
            return self._texts(np.array(page["prompt"].tolist(), int))
        if name == "class":
            return [tr(BAND_TITLES[CLASSES[code]]) for code in page["class"].tolist()]
        if name == "trend":
            color = theme.palette(self.context.selection.dark)["policy"]
            return [trend_image(self._rates(prompt), color) for prompt in page["prompt"].tolist()]
        if name in ("first", "last"):
            return [f"{value:.0%}" if np.isfinite(value) else "–" for value in page[name].tolist()]
        if name in ("tokens", "hours", "signal"):
            return [number(value) for value in page[name].tolist()]
        return cells_of(page, name)

    def _rates(self, prompt: int) -> np.ndarray:
        """Return the pass rates of a prompt's visits."""
        assert self._found.costs is not None
        grid = self._found.costs.grid
        cells = slice(*np.append(grid.firsts, len(grid.prompt))[[prompt, prompt + 1]].tolist())
        samples, passed = grid.samples[cells], grid.passed[cells]
        return passed[samples > 0] / samples[samples > 0]

    def _texts(self, prompts: np.ndarray) -> list[str]:
        index, costs = self.context.index, self._found.costs
        if index is None or costs is None:
            return [""] * len(prompts)
        style, rows = text_style(self.context), costs.grid.newest[prompts]
        return [prompt_line(texts.get("prompt"), style) for texts in read_texts(index, self._snapshot, rows)]

    # -- choosing --------------------------------------------------------------------------------

    def _choose(self, key: Any) -> None:
        if isinstance(key, str) and key in {tab["key"] for tab in self.bar.tabs} and key in PROMPT_CLASSES:
            self.context.selection.prompt_class = key

    def _pick(self, uid: str, _: str) -> None:
        """Open the history of a prompt at its newest sample."""
        self.context.choose_sample(uid)
        self.context.selection.param.update(page="samples", tab="prompt")


def _weight_title(weight: int) -> str:
    return tr("repeat {weight} times", weight=weight) if weight else tr("drop")


def _below(snapshot: Snapshot, newest: np.ndarray, least: int) -> np.ndarray:
    """Return the prompts whose mean reward was at no step above that of the reference's responses."""
    rows = np.array([prompt.row for prompt in unsolved_prompts(snapshot, least)], int)
    return np.flatnonzero(np.isin(snapshot.prompts(newest), snapshot.prompts(rows)))


def _lines(
    index: RunIndex, snapshot: Snapshot, costs: PromptCosts, prompts: np.ndarray, weight: int, file: str
) -> Iterator[dict[str, Any]]:
    for lines, _ in curriculum_lines(index, snapshot, costs, prompts, weight):
        yield {"piece": lines}
    yield {"name": file}


_TREND_CSS = """
.tabulator-cell img { width: 120px; max-width: 100%; height: 18px; object-fit: fill; }
[tabulator-field="c_prompt"] { min-width: 170px !important; }
"""


def trend_image(rates: np.ndarray, color: str) -> str:
    """Return a line through a prompt's pass rates as the data URL of an image; empty without a visit."""
    if not len(rates):
        return ""
    parts = [part.mean() for part in np.array_split(rates, min(len(rates), TREND_POINTS))]
    points = " ".join(
        f"{120 * at / max(1, len(parts) - 1):.1f},{16 - 14 * value:.1f}" for at, value in enumerate(parts)
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 18" preserveAspectRatio="none">'
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/></svg>'
    )
    return f"data:image/svg+xml,{quote(svg)}"
