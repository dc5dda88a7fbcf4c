"""The table of all runs: the page on which one sees which of two hundred is broken."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import param

from rlpanel.board_url import MAX_OVERLAY_RUNS, RUNS_PAGE
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.runs.run_axes import Axis, axes_of, axis_json, brushed, lines_of
from rlpanel.panels.runs.run_order import (
    CHIPS,
    FINDING,
    NAME,
    Arranged,
    Choice,
    arrange,
    chip_counts,
    group_title,
    value_of,
)
from rlpanel.panels.runs.run_rows import RunRow, differing, run_row, state_at
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_list import changed_entries, open_run, places, run_labels
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_folder import MAX_SETTINGS as MAX_KEPT_SETTINGS
from rlpanel.store.index.run_summary import RunSummary
from rlpanel.store.query.query import Order, parse_order

#: Seconds between two updates while the page is open.
UPDATE_EVERY = 1.0
#: Most settings in which runs differ that have a column; the filter knows all.
MAX_SETTINGS = 8
#: Most characters of a filter.
MAX_TEXT = 1000

_CHIP_TEXTS = {
    "with": marked("with a finding"),
    "without": marked("no finding"),
    "unchecked": marked("not checked"),
    "unread": marked("cannot be read"),
    "live": marked("live"),
    "quiet": marked("quiet"),
    "finished": marked("finished"),
    "stopped": marked("stopped early"),
}
#: Columns between the settings and the run's name that can be sorted by: key and head.
NUMBERS = {
    "step": marked("step"),
    "reward": marked("reward ± s.e."),
    "kl": marked("KL"),
    "length": marked("length"),
    "best": marked("best reward"),
    "tokens": marked("tokens"),
    "hours": marked("hours"),
    "gpu_hours": marked("GPU hours"),
}
#: Numbers that are axes beside the settings.
_AXES = ("reward", "best", "kl", "length", "alarms", "gpu_hours", "hours")


class RunsTable(Component):
    """Table of all runs with their worst findings; a click opens a run, ticked runs are laid over each other.

    Runs are sorted, filtered and put into folders here; the browser draws the lines in sight. Nothing is
    computed or sent while the page is not open.
    """

    active = param.Boolean(default=False, doc="Whether the page is open.")
    rows = param.List(default=[], doc="The cells of each run.")
    changes = param.List(default=[], doc="Cells that replace those of the same run in `rows`.")
    lines = param.List(default=[], doc="The lines in their order: names of runs, and dicts about folders.")
    facts = param.Dict(default={}, doc="Chips, columns, progress and what is wrong with the filter.")
    ticked = param.List(default=[], doc="Names of the ticked runs.")
    #: Those of the selection.
    sort = param.List(default=[FINDING, False], doc="Column that sorts, and whether its values fall.")
    chips = param.List(default=[], doc="Keys of the chosen chips.")
    text = param.String(default="", doc="Words of the path, or a filter expression.")
    folders = param.Boolean(default=True, doc="Whether runs stand in folders.")
    group = param.String(default="", doc="Setting by whose values runs are grouped; empty for none.")
    axes = param.Boolean(default=False, doc="Whether parallel coordinates are shown.")
    coordinates = param.Dict(default={}, doc="Axes and lines of the parallel coordinates, while shown.")
    back = param.Boolean(default=False, doc="Whether a run is open below the table.")
    toggled = param.List(default=[], doc="Folders that are closed, and + with those shown whole.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/ui/svg.js",
        "panels/runs/runs_rows.js",
        "panels/runs/runs_axes.js",
        "panels/runs/runs_table.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/runs/runs_table.css", "panels/sidebar/state_dot.css"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-runs-table"], visible=False, sizing_mode="stretch_both")
        self.context = context
        self._known: dict[str, tuple[tuple[RunInfo, RunSummary, str, str, str, str], RunRow]] = {}
        self._updated = 0.0
        self._drawn_axes: list[Axis] = []
        self._reading: BackgroundTask[int] = BackgroundTask(self._draw, context.threads.views)
        context.selection.param.watch(self._activate, "page")
        context.param.watch(self._on_runs, "runs")
        context.param.watch(self._on_clock, "now")
        context.selection.param.watch(
            self._choose,
            ["runs_filter", "runs_sort", "runs_chips", "runs_folders", "runs_group", "runs_axes"],
        )
        self.param.watch(
            self._draw, ["sort", "chips", "text", "folders", "group", "axes", "toggled", "ticked"]
        )
        self._choose()
        self._activate()

    def _activate(self, *_: Any) -> None:
        is_open = self.context.selection.page == RUNS_PAGE
        self.param.update(active=is_open, visible=is_open, back=bool(self.context.selection.run))
        self._on_runs()

    def _choose(self, *_: Any) -> None:
        """Sort and filter as the address says."""
        selection = self.context.selection
        order = parse_order(selection.runs_sort)
        self.param.update(
            sort=[order.name, order.falling] if order else [FINDING, False],
            chips=selection.runs_chips,
            text=selection.runs_filter,
            folders=selection.runs_folders,
            group=selection.runs_group,
            axes=selection.runs_axes,
        )

    def _on_runs(self, *_: Any) -> None:
        """Read what is saved of the runs, or their last lines, in the background."""
        self._draw()
        if self.active:
            runs, summaries = self.context.runs, self.context.summaries
            saved = summaries.read_saved([info.path for info in runs])
            self._reading.start(chain(saved, summaries.read_last_lines(runs)))

    def _on_clock(self, *_: Any) -> None:
        if self.active and time.monotonic() - self._updated >= UPDATE_EVERY:
            self._draw()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        """Send what changed since the last update."""
        if not self.active:
            return
        self._updated = time.monotonic()
        rows = self._rows()
        names = {row.name for row in rows}
        arranged = arrange(rows, self._choice())
        cells = [row.cells for row in rows]
        changes = changed_entries(self.rows, cells)
        sent: dict[str, Any] = {
            "lines": arranged.lines,
            "facts": self._facts(rows, arranged),
            "coordinates": self._coordinates(rows, arranged) if self.axes else {},
            "ticked": [name for name in self.ticked if name in names],
        }
        sent |= {"rows": cells, "changes": []} if changes is None else {"changes": changes}
        updates = {name: value for name, value in sent.items() if value != getattr(self, name)}
        if updates:
            self.param.update(**updates)

    def _choice(self) -> Choice:
        name, falls = self.sort
        chips, toggled = frozenset(self.chips), frozenset(self.toggled)
        return Choice(name, falls, chips, self.text, self.folders, toggled, self.group)

    def _rows(self) -> list[RunRow]:
        """Return the rows of all runs; only those of runs of which more is known are made anew."""
        context, now = self.context, time.time()
        labels = run_labels(context.runs)
        place = places(labels)
        known, self._known = self._known, {}
        for listed in context.runs:
            info = context.infos.get(listed.name, listed)
            summary, problem = context.summaries.of(info.path), context.failing.get(info.path, "")
            label, at = labels[info.name], place[info.name]
            key = (info, summary, label, at, problem, state_at(info, summary, now))
            before = known.get(info.name)
            self._known[info.name] = before if before and before[0] == key else (key, run_row(*key))
        return [row for _, row in self._known.values()]

    def _facts(self, rows: list[RunRow], arranged: Arranged) -> dict[str, Any]:
        counts = chip_counts(rows)
        settings = differing(row.settings for row in rows)
        return {
            "chips": [
                [chip, tr(text), counts[chip]]
                for chip, text in _CHIP_TEXTS.items()
                if counts[chip] or chip in self.chips or chip in ("with", "without", "unchecked")
            ],
            "settings": settings[:MAX_SETTINGS],
            "further": settings[MAX_SETTINGS:],
            "groups": settings + [self.group] * (bool(self.group) and self.group not in settings),
            "numbers": [[name, tr(title)] for name, title in NUMBERS.items()],
            "checked": len(rows) - counts["unchecked"],
            "total": len(rows),
            "shown": arranged.shown,
            "error": arranged.error or self._sort_error(),
            "cut": _cut_settings(rows),
            "differ": self._difference(rows),
        }

    def _coordinates(self, rows: list[RunRow], arranged: Arranged) -> dict[str, Any]:
        """Return the axes and a line for each run; those that the filter leaves out are pale."""
        titles = {"alarms": tr("alarms")} | {name: tr(text) for name, text in NUMBERS.items()}
        settings = [(name, name) for name in differing(row.settings for row in rows)[:MAX_SETTINGS]]
        self._drawn_axes = axes_of(rows, [*settings, *((name, titles[name]) for name in _AXES)])
        shown = {line for line in arranged.lines if isinstance(line, str)}
        if self.group or self.folders:  # runs of a closed folder are not left out by the filter
            hidden = replace(self._choice(), folders=False, group="")
            shown = {line for line in arrange(rows, hidden).lines if isinstance(line, str)}
        lines = lines_of(rows, self._drawn_axes)
        return {
            "axes": [axis_json(axis) for axis in self._drawn_axes],
            "lines": [[name, places, name in shown] for name, places in lines.items()],
        }

    def _sort_error(self) -> str:
        """Return why the table is not sorted as the address says; empty if it is."""
        name = self.sort[0]
        return "" if self._is_column(name) else tr("no run has “{column}”, which should sort", column=name)

    def _difference(self, rows: list[RunRow]) -> list[list[Any]]:
        """Return the settings in which the ticked runs differ, each with its value in every ticked run."""
        by_name = {row.name: row for row in rows}
        ticked = [by_name[name] for name in self.ticked if name in by_name]
        if len(ticked) < 2:
            return []
        return [
            [name, [row.cells["settings"].get(name, "") for row in ticked]]
            for name in differing(row.settings for row in ticked)
        ]

    # -- messages --------------------------------------------------------------------------------

    def receive(self, message: Any) -> None:
        """Apply what the viewer did. The message comes from the browser; anything unexpected is ignored."""
        names, selection = set(self._known), self.context.selection
        match message:
            case {"open": str(name)} if name in names:
                open_run(selection, name, page="")
            case {"tick": str(name), "on": bool(on)} if name in names:
                rest = [each for each in self.ticked if each != name]
                self.ticked = [*rest, name][-MAX_OVERLAY_RUNS - 1 :] if on else rest
            case {"clear": True}:
                self.ticked = []
            case {"sort": str(name)} if self._is_column(name):
                falls = not self.sort[1] if name == self.sort[0] else name in NUMBERS
                selection.runs_sort = "" if [name, falls] == [FINDING, False] else Order(name, falls).text
            case {"chip": str(chip)} if chip in CHIPS:
                rest = [each for each in self.chips if each != chip]
                selection.runs_chips = rest if chip in self.chips else [*rest, chip]
            case {"text": str(text)}:
                selection.runs_filter = text[:MAX_TEXT]
            case {"folders": bool(folders)}:
                selection.runs_folders = folders
            case {"group": str(name)} if not name or self._is_setting(name):
                selection.runs_group = name
            case {"axes": bool(axes)}:
                selection.runs_axes = axes
            case {"brush": str(name), "low": float() | int() as low, "high": float() | int() as high}:
                self._brush(name, float(low), float(high))
            case {"unbrush": str(name)}:
                selection.runs_filter = brushed(self.text, name, "")
            case {"toggle": str(folder)} if folder.removeprefix("+") in self._folders():
                closed = folder in self.toggled
                self.toggled = (
                    [each for each in self.toggled if each != folder] if closed else [*self.toggled, folder]
                )
            case {"overlay": True} if self.ticked:
                first, *others = self.ticked
                open_run(selection, first, page="", overlay_runs=others)
            case {"compare": True} if len(self.ticked) == 2:
                first, other = self.ticked
                open_run(selection, first, page="compare", compared_run=other)
            case {"close": True} if selection.run:
                selection.page = ""

    def _is_column(self, name: str) -> bool:
        if name in (FINDING, NAME, "onset", *NUMBERS):
            return True
        return any(value_of(row, name) is not None for _, row in self._known.values())

    def _brush(self, name: str, low: float, high: float) -> None:
        """Filter by a part of an axis, from 0 at its bottom to 1 at its top."""
        axis = next((each for each in self._drawn_axes if each.name == name), None)
        if axis is None or not 0 <= low <= high <= 1:
            return
        text = brushed(self.text, name, axis.condition(low, high))
        if len(text) <= MAX_TEXT:
            self.context.selection.runs_filter = text

    def _is_setting(self, name: str) -> bool:
        return any(name in row.settings for _, row in self._known.values())

    def _folders(self) -> set[str]:
        rows = [row for _, row in self._known.values()]
        titles = {group_title(row, self.group) for row in rows} if self.group else set()
        return titles | {row.folder for row in rows}


def _cut_settings(rows: list[RunRow]) -> str:
    """Return how many runs have so many settings that further ones are left out; empty if none has."""
    count = sum(row.full for row in rows)
    if not count:
        return ""
    return tr(
        "{count} runs have {most} settings or more: further ones are not compared",
        count=count, most=MAX_KEPT_SETTINGS,
    )  # fmt: skip
