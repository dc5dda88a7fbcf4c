"""List of runs in the sidebar, and the badge with the state of the selected run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from rlpanel.findings.run_marks import known_mark, read_saved_marks
from rlpanel.panels.samples.visible_rows import excluded_html
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds after its last line for which a run is shown as live; later it is shown as idle.
LIVE_SECONDS = 60.0
#: Number of runs whose saved marks are read.
MOST_SAVED_MARKS = 500


class RunChoices(JSComponent):
    """The buttons of the list, drawn by ``run_list.js``; a click sends the name of a run."""

    runs = param.List(default=[], doc="One plain object per run.")
    value = param.String(default="", doc="Name of the selected run.")

    _esm = read_assets("panels/ui/dom.js", "panels/sidebar/run_list.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/sidebar/run_list.css")]


class RunList(Viewer):
    """List of the runs below the root with the mark of each run's worst finding; a click selects one.

    Runs are not read for their marks: a run has one if this process checked it, or if its mark was saved.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._choices = RunChoices(sizing_mode="stretch_width", margin=(0, 12), css_classes=["rl-runs"])
        self._choices.on_msg(lambda event: self._on_click(event.data))
        self._saved_marks: BackgroundTask[int] = BackgroundTask(self._draw)
        context.param.watch(self._draw, ["runs", "now"])
        context.param.watch(self._read_marks, "runs")
        context.selection.param.watch(self._draw, "run")
        self._draw()
        self._read_marks()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._choices

    def _draw(self, *_: Any) -> None:
        shown, value = self._items(), self.context.selection.run
        if (shown, value) != (self._choices.runs, self._choices.value):  # called every second
            self._choices.param.update(runs=shown, value=value)

    def _items(self) -> list[dict[str, str]]:
        """Return the runs; the selected run is listed even before the reader finds its files."""
        runs, selected = self.context.runs, self.context.selection.run
        labels = run_labels(runs)
        items = [_item(labels[info.name], info) for info in runs]
        if selected and selected not in labels:
            label = f"./{selected}" if selected in labels.values() else selected
            items.insert(0, {"name": selected, "label": label, "severity": "", "tip": label})
        return items

    def _read_marks(self, *_: Any) -> None:
        """Read the saved marks of the newest runs in the background."""
        paths = [info.path for info in self.context.runs[:MOST_SAVED_MARKS]]
        self._saved_marks.start(read_saved_marks(paths))

    def _on_click(self, name: Any) -> None:
        if name in {run["name"] for run in self._choices.runs} and name != self.context.selection.run:
            self.context.selection.param.update(
                run=name,
                split="",
                beside=[],
                step=None,
                uid="",
                token=-1,
                follow=True,
                finding="",
            )


def _item(label: str, info: RunInfo) -> dict[str, str]:
    """Return a run of the list: its name, label, severity, and a tooltip that tells the finding."""
    mark = known_mark(info.path)
    if mark is None:
        return {"name": info.name, "label": label, "severity": "", "tip": f"{label}: not checked yet"}
    said = f"{mark.severity}: {mark.sentence}" if mark.severity else "no current findings"
    tip = f"{label} at step {mark.step}: {said}"
    return {"name": info.name, "label": label, "severity": mark.severity, "tip": tip}


def run_labels(runs: Sequence[RunInfo]) -> dict[str, str]:
    """Return the label of each run in lists, by name: its folder, or its path if the label is not unique."""
    counts = Counter(info.label for info in runs)
    return {info.name: info.label if counts[info.label] == 1 else f"./{info.name}" for info in runs}


class RunBadge(Viewer):
    """Badge of the selected run: live or idle, ranks, samples, newest step, age, bad lines."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/ui/badge.css")],
            margin=0,
            css_classes=["rl-badge"],
        )
        context.param.watch(self._draw, ["view", "now", "runs", "failure"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: Any) -> None:
        html = badge_html(self.context.snapshot, time.time(), self._label(), self.context.failure)
        if html != self._pane.object:  # called every second, mostly without a change
            self._pane.object = html

    def _label(self) -> str:
        name = self.context.selection.run
        return next((info.label for info in self.context.runs if info.name == name), name)


def badge_html(snapshot: Snapshot, now: float, label: str, failure: str = "") -> str:
    """Return the badge as HTML; ``failure`` is the reader's error message, or empty."""
    if not label:
        return ""
    name = f'<span class="pill"><b>{safe_text(label)}</b></span>'
    if not snapshot.version:
        return f'{name}<span class="pill">opening …</span>'
    parts = []
    if snapshot.samples:
        ranks = f"{snapshot.ranks} rank{'s' if snapshot.ranks != 1 else ''}"
        parts = [ranks, _sample_count(snapshot), f"step {snapshot.steps.values[-1]}"]
    newest = f"{age(now - snapshot.newest_line)} ago" if snapshot.newest_line else ""
    error = f'<span class="pill bad">reader: {safe_text(failure)}</span>' if failure else ""
    folds = excluded_html(snapshot) + problems_html(snapshot)
    pill = _pill_text(_state(snapshot, now), " · ".join(parts), newest)
    return f'{name}<span class="pill">{pill}</span>{folds}{error}'


def _pill_text(state: str, contents: str, newest: str) -> str:
    """Join the parts of the pill; ``connection.js`` hides state and age while the connection is lost."""
    before = f'<span class="now">{state}{" · " if contents or newest else ""}</span>'
    after = f'<span class="now">{" · " if contents else ""}{newest}</span>' if newest else ""
    return f"{before}{contents}{after}"


def _sample_count(snapshot: Snapshot) -> str:
    if not snapshot.has_splits:
        return f"{snapshot.samples:,} samples"
    return f"<b>{safe_text(snapshot.split)}</b> {snapshot.samples:,} of {snapshot.all_samples:,} samples"


def _state(snapshot: Snapshot, now: float) -> str:
    if not snapshot.progress.caught_up:
        return f'<span class="dot kl">●</span> <b>reading {snapshot.progress.fraction:.0%}</b>'
    if now - snapshot.newest_line <= LIVE_SECONDS:
        return '<span class="dot good">●</span> <b>live</b>'
    return '<span class="dot">●</span> <b>idle</b>'


def problems_html(snapshot: Snapshot) -> str:
    """Return collapsed lists of bad lines and unreadable files, each with its reason, as HTML."""
    bad = "".join(
        f"<li><code>{safe_text(line.file)}:{line.line or f'byte {line.offset:,}'}</code> "
        f"{safe_text(line.reason)}</li>"
        for line in snapshot.bad_lines[:50]
    )
    more = f"<li>and {snapshot.bad_count - 50:,} more</li>" if snapshot.bad_count > 50 else ""
    word = "bad line" if snapshot.bad_count == 1 else "bad lines"
    html = _fold(f"{snapshot.bad_count:,} {word}", bad + more, "rl-bad-lines") if snapshot.bad_count else ""
    problems = "".join(f"<li>{safe_text(problem)}</li>" for problem in snapshot.problems)
    if problems:
        count = len(snapshot.problems)
        html += _fold(f"{count} problem{'s' if count > 1 else ''}", problems, "rl-problems")
    return html


def _fold(title: str, items: str, name: str) -> str:
    return f'<details class="{name}"><summary class="pill kl">{title}</summary><ul>{items}</ul></details>'


def age(seconds: float) -> str:
    """Format a duration with one unit: 12 s, 4 min, 3 h, 2 d."""
    for bound, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < bound:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
