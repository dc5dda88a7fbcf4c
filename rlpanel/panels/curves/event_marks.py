"""Marks of a run's events on the curves: small triangles at the top, each with a tooltip of plain text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d, Scatter

from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.ui import theme
from rlpanel.store.query.run_events import RunEvent, run_events
from rlpanel.store.snapshot.alignment import RunAxis

#: Name of the range of the marks, whose place does not depend on the curve's values.
_RANGE, _TOP = "events", 0.94
#: Theme colour and label of each kind; the colour of the first kind at a step is shown.
_COLORS = {"note": "policy", "resume": "bad", "event": "kl", "evaluation": "muted"}
_LABELS = {
    "note": marked("note"),
    "resume": marked("restart"),
    "event": marked("event"),
    "evaluation": marked("evaluation"),
}
#: Most steps with a mark, events of a step in its tooltip, and characters of each.
MAX_MARKS, _MOST, _CHARS = 500, 5, 160
#: Seconds between two looks at the events of a run that grows.
_EVERY = 2.0


def marks_of(events: Sequence[RunEvent]) -> dict[int, tuple[str, str]]:
    """Return the kind and the text of the mark of each step; notes are kept longest, evaluations least.

    Parameters
    ----------
    events : sequence of RunEvent
        By step.
    """
    by_step: dict[int, list[RunEvent]] = {}
    for event in events:
        by_step.setdefault(event.step, []).append(event)
    found: dict[int, tuple[str, str]] = {}
    for step, at in by_step.items():
        at.sort(key=lambda event: list(_COLORS).index(event.kind))
        words = [f"{tr(_LABELS[event.kind])}: {_short(event.text)}" for event in at[:_MOST]]
        words += [f"+{len(at) - _MOST}"] * (len(at) > _MOST)
        found[step] = at[0].kind, " · ".join(words)
    if len(found) > MAX_MARKS:
        order = sorted(found, key=lambda step: (list(_COLORS).index(found[step][0]), -step))
        found = {step: found[step] for step in sorted(order[:MAX_MARKS])}
    return found


def _short(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= _CHARS else f"{plain[:_CHARS]}…"


class RunMarks:
    """The marks of the run that a page shows; they are found once for a snapshot and its notes."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._found = 0.0
        self._marks: dict[int, tuple[str, str]] = {}

    def of(self, context: Any) -> dict[int, tuple[str, str]]:
        """Return the marks by step; empty if the viewer has turned them off."""
        notes = context.notes
        if notes is None or not context.display.run_events:
            return {}
        snapshot = context.snapshot
        run = (snapshot.name, snapshot.split, notes.version)
        key, now = (*run, snapshot.version), time.monotonic()
        is_due = self._key[: len(run)] != run or now - self._found > _EVERY
        if key != self._key and is_due:
            self._found = now
            events, _ = run_events(snapshot, notes, snapshot.constants.logged, notes.run)
            self._key, self._marks = key, marks_of(events)
        return self._marks


class EventMarks:
    """The marks in one plot, which are created with the first event."""

    def __init__(self, plot: Any) -> None:
        self._plot = plot
        self._renderer: Any = None

    def draw(self, axis: RunAxis, marks: dict[int, tuple[str, str]], *, dark: bool) -> None:
        """Show these marks; those outside the run stand at the end of the axis."""
        if self._renderer is None:
            if not marks:
                return
            self._create()
        steps = np.array(list(marks), np.int64)
        colors = theme.palette(dark)
        data = {
            "x": axis.positions_of(steps) if len(steps) else np.empty(0),
            "y": np.full(len(steps), _TOP),
            "step": [f"{step:,}" for step in steps.tolist()],
            "text": [text for _, text in marks.values()],
            "color": [colors[_COLORS[kind]] for kind, _ in marks.values()],
        }
        source = self._renderer.data_source
        if any(not np.array_equal(source.data[name], values) for name, values in data.items()):
            source.data = data

    def _create(self) -> None:
        self._plot.extra_y_ranges = {**self._plot.extra_y_ranges, _RANGE: Range1d(start=0, end=1)}
        empty: dict[str, Any] = {"x": [], "y": [], "step": [], "text": [], "color": []}
        mark = Scatter(
            x="x", y="y", marker="inverted_triangle", size=9, fill_color="color", line_color="color"
        )
        source = ColumnDataSource(empty, name="events")
        self._renderer = self._plot.add_glyph(source, mark, y_range_name=_RANGE, level="overlay")
        # A placeholder without {safe} is inserted as text, so an event's words never run.
        tips = [(tr("step"), "@step"), ("", "@text")]
        self._plot.add_tools(HoverTool(renderers=[self._renderer], tooltips=tips, name="events"))
