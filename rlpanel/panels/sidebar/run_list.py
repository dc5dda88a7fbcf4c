"""List of runs in the sidebar: search, folders, one named entry a run, and a tick that overlays it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, ClassVar

import param

from rlpanel.board_url import MAX_OVERLAY_RUNS, RUNS_PAGE
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.context_parts import kind_label
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_badge import LIVE_SECONDS, QUIET_SECONDS, planned_steps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_summary import RunSummary

# -- run names -----------------------------------------------------------------------------------------
# Names of runs in lists: the part of the path that says which run it is.


#: Most levels that are left out at the end of a path.
_LEVELS = 4


def places(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the place of each run in a tree, by name: its label without an end that says nothing.

    Trainers name the folder of the rollouts: if each of several folders has one run, and all these runs have
    the same name, such as ``run``, then the folders' names are the ones to show.

    Parameters
    ----------
    labels : mapping of str to str
        Name of each run → its path as it is shown.
    """
    found = dict(labels)
    for _ in range(_LEVELS):
        in_folder = Counter(place.rpartition("/")[0] for place in found.values())
        alone = {
            name: place.rpartition("/")
            for name, place in found.items()
            if "/" in place and in_folder[place.rpartition("/")[0]] == 1
        }
        ends = Counter(end for _, _, end in alone.values())
        shorter = {name: folder for name, (folder, _, end) in alone.items() if ends[end] > 1}
        taken = {*found.values()}
        if not shorter or not taken.isdisjoint(shorter.values()):
            return found
        found |= shorter
    return found


def short_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the part of each run's path that differs from the others', by name; of one run its last part."""
    place = places(labels)
    if len(place) == 1:
        return {name: each.rpartition("/")[2] for name, each in place.items()}
    folders = [each.split("/")[:-1] for each in place.values()]
    shared = len(list(takewhile(lambda level: len({*level}) == 1, zip(*folders, strict=False))))
    return {name: "/".join(each.split("/")[shared:]) for name, each in place.items()}


# -- run list ------------------------------------------------------------------------------------------
# List of runs in the sidebar: search, folders, one entry a run, and a tick that overlays it.


#: Minimum seconds between two updates of the list while no run is added or removed.
UPDATE_EVERY = 1.0
#: Number of runs whose saved summaries are read.
MAX_SAVED = 1000
#: Seconds by which a file may be newer than its newest line, because file systems round times.
_ROUNDING = 1.0

#: One run as the browser gets it.
Entry = dict[str, Any]


class RunList(Component):
    """List of the runs below the root; a click opens a run, a tick overlays it.

    No run is read for the list. An entry has what is known of the run: from this process if it read the run,
    else from the summary beside its saved columns, else from the last lines of a file. The browser derives
    states and ages from times, so nothing is sent when only time passes.
    """

    runs = param.List(default=[], doc="All entries, newest run first.")
    changes = param.List(default=[], doc="Entries that replace those of the same run in `runs`.")
    value = param.String(default="", doc="Name of the selected run.")
    over = param.List(default=[], doc="Names of the overlay runs.")
    colors = param.Dict(default={}, doc="Name of an overlay run → colour of its curves.")
    answered = param.Integer(default=0, doc="Number of the browser's tick that `over` takes into account.")
    most = param.Integer(default=MAX_OVERLAY_RUNS, doc="Maximum number of overlay runs.")
    now = param.Number(default=0.0, doc="Time of the last update by the server's clock.")
    ages = param.List(default=[LIVE_SECONDS, QUIET_SECONDS], doc="Maximum ages of live and of quiet runs.")

    LARGE = frozenset({"runs"})
    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/ui/svg.js",
        "panels/sidebar/run_entry.js",
        "panels/sidebar/run_tree.js",
        "panels/sidebar/run_list.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/sidebar/run_list.css", "panels/sidebar/state_dot.css"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-runs"])
        self.context = context
        self._known: dict[str, tuple[RunInfo, RunSummary, str, Entry]] = {}
        self._updated = 0.0
        self._saved: BackgroundTask[int] = BackgroundTask(self._draw, context.threads.views)
        context.param.watch(self._on_clock, "now")
        context.param.watch(self._draw, "failing")
        context.param.watch(self._on_runs, "runs")
        context.selection.param.watch(self._draw, ["run", "overlay_runs", "dark"])
        context.param.watch(self._draw, "overlays")
        self._on_runs()

    def _on_runs(self, *_: Any) -> None:
        """Show the runs, and read their saved summaries or last lines in the background."""
        self._draw()
        runs = self.context.runs[:MAX_SAVED]
        summaries = self.context.summaries
        saved = summaries.read_saved([info.path for info in runs])
        self._saved.start(chain(saved, summaries.read_last_lines(runs)))

    def _on_clock(self, *_: Any) -> None:
        if time.monotonic() - self._updated >= UPDATE_EVERY:
            self._draw()

    def _draw(self, *_: Any) -> None:
        """Send what changed since the last update; all entries if their order or many of them changed."""
        self._updated = time.monotonic()
        entries = self._entries()
        dark = self.context.selection.dark
        sent: dict[str, Any] = {"value": self.context.selection.run, "over": self._overlaid()}
        sent["colors"] = {run.key: run.color(dark) for run in self.context.overlays if not run.is_split}
        changes = changed_entries(self.runs, entries)
        if changes is None:
            sent |= {"runs": entries, "changes": []}
        else:
            sent["changes"] = changes
        updates = {name: new for name, new in sent.items() if new != getattr(self, name)}
        if updates:
            self.param.update(**updates, now=time.time())

    def _overlaid(self) -> list[str]:
        return [name for name in self.context.selection.overlay_runs if name != self.context.selection.run]

    def _entries(self) -> list[Entry]:
        """Return the runs; the selected run is listed even before the reader finds its files."""
        context, selected = self.context, self.context.selection.run
        labels = run_labels(context.runs)
        place = places(labels)
        known, self._known = self._known, {}
        for listed in context.runs:
            info = context.infos.get(listed.name, listed)
            summary, label = context.summaries.of(info.path), labels[info.name]
            problem = context.failing.get(info.path, "")
            before = known.get(info.name)
            if before is None or before[:3] != (info, summary, problem) or before[3]["label"] != label:
                before = info, summary, problem, entry_of(label, info, summary, problem)
            if place[info.name] != before[3].get("place", label):
                before = *before[:3], {**before[3], "place": place[info.name]}
            self._known[info.name] = before
        entries = [entry for *_, entry in self._known.values()]
        if selected and selected not in labels:
            label = f"./{selected}" if selected in labels.values() else selected
            entries.insert(0, {"name": selected, "label": label})
        return entries

    def receive(self, message: Any) -> None:
        """Apply a message of the browser; anything unexpected is ignored."""
        if not isinstance(message, dict):
            return
        names = {entry["name"] for entry in self.runs}
        if isinstance(name := message.get("open"), str) and name in names:
            open_run(self.context.selection, name)
        if isinstance(name := message.get("compare"), str) and name in names:
            self._compare(name, bool(message.get("on")))
        if type(tick := message.get("tick")) is int and 0 <= tick < 2**31:
            self.answered = tick
        if message.get("table") is True:
            self.context.selection.page = RUNS_PAGE
        if message.get("clear") is True:
            self.context.selection.overlay_runs = []

    def _compare(self, name: str, on: bool) -> None:
        """Add a run to the overlay runs or remove it; the selected run itself is no overlay."""
        selection = self.context.selection
        over = [each for each in self._overlaid() if each != name]
        if on and name != selection.run and len(over) < MAX_OVERLAY_RUNS:
            over.append(name)
        selection.overlay_runs = over


def open_run(selection: Selection, name: str, **chosen: Any) -> None:
    """Show a run from its newest step on, on the page that is open; from the table of runs on the overview.

    Parameters
    ----------
    selection : Selection
    name : str
        Name of the run.
    **chosen
        Further values of the selection.
    """
    page = "" if selection.page == RUNS_PAGE else selection.page
    anew = {"split": "", "overlay_splits": [], "step": None, "uid": "", "token": -1, "follow": True}
    reset = {**anew, "finding": "", "zoom": None} if name != selection.run else {}
    selection.param.update(**{"run": name, "page": page, **reset, **chosen})


def entry_of(label: str, info: RunInfo, summary: RunSummary, problem: str = "") -> Entry:
    """Return a run as the browser gets it; what is not known is left out.

    Parameters
    ----------
    label : str
        Path below the root; its last part is the name on screen.
    info : RunInfo
    summary : RunSummary
        Counts that are older than the files are lower bounds, because logs grow. If the files shrank, they
        were replaced, and the counts are left out.
    problem : str
        Reason why the run cannot be read; empty if it can.
    """
    entry: Entry = {"name": info.name, "label": label, "time": round(info.modified, 1)}
    if problem:
        entry["problem"] = problem
    split = summary.split if summary.samples else info.split or TRAIN
    if split != TRAIN:
        entry["split"] = split
    if not summary.samples and summary.step is not None:
        entry["step"], entry["tail"] = summary.step, True
        if summary.reward is not None:
            entry["reward"] = number(summary.reward)
    elif summary.samples and info.bytes >= summary.bytes:
        entry["time"] = round(max(info.modified, summary.newest_line), 1)
        entry["samples"], entry["step"] = summary.samples, summary.step
        entry["more"] = not summary.complete or info.modified > summary.newest_line + _ROUNDING
        if summary.reward is not None:
            entry["reward"] = number(summary.reward)
            entry["trend"] = heights(summary.trend)
        if doubt := kind_label(summary.doubt):
            entry["doubt"] = doubt
    if planned := planned_steps(summary.config, summary.step):
        entry["planned"] = planned
    if summary.severity is not None:
        entry["severity"] = summary.severity
        entry["finding"], entry["checked"] = tr_finding(summary.finding), summary.checked
    elif summary.unchecked:
        entry["unchecked"] = summary.unchecked
    return entry


def heights(trend: Sequence[float]) -> list[int]:
    """Scale a trend to whole numbers from 0 to 100; a flat one is in the middle."""
    if not trend:
        return []
    low, high = min(trend), max(trend)
    return [round(100 * (value - low) / (high - low)) if high > low else 50 for value in trend]


def changed_entries(before: list[Entry], entries: list[Entry]) -> list[Entry] | None:
    """Return the entries that are different; None if their order, or more than a quarter of them, changed."""
    if [entry["name"] for entry in before] != [entry["name"] for entry in entries]:
        return None
    pairs = zip(before, entries, strict=True)
    changes = [new for old, new in pairs if old is not new and old != new]
    return changes if len(changes) <= max(8, len(entries) // 4) else None


def run_labels(runs: Sequence[RunInfo]) -> dict[str, str]:
    """Return the label of each run in lists, by name: its folder, or its path if the label is not unique."""
    counts = Counter(info.label for info in runs)
    return {info.name: info.label if counts[info.label] == 1 else f"./{info.name}" for info in runs}
