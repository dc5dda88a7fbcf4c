"""Marks on the curves: a run's events, and the changes of the chain that was found last.

They are small triangles at the top, each with a tooltip of plain text. A change of the chain has its number
beside its triangle, and on the curve of its own column both levels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d, Scatter, Text

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.marked_steps import ChainMark
from rlpanel.panels.ui import theme
from rlpanel.store.query.run_events import RunEvent, run_events
from rlpanel.store.snapshot.alignment import RunAxis

#: Name of the range of the marks, whose place does not depend on the curve's values.
_RANGE, _TOP = "events", 0.94
#: Theme colour and label of each kind; the colour of the first kind at a step is shown.
_COLORS = {"chain": "text", "note": "policy", "resume": "bad", "event": "kl", "evaluation": "muted"}
_LABELS = {
    "note": marked("note"),
    "resume": marked("restart"),
    "event": marked("event"),
    "evaluation": marked("evaluation"),
}
#: Most steps with a mark, events of a step in its tooltip, and characters of each.
MAX_MARKS, _MAX_EVENTS, _CHARS = 500, 5, 160
#: Seconds between two looks at the events of a run that grows.
_EVERY = 2.0
#: Pixels from the middle of a triangle to its label, and of a line of labels.
_BESIDE, _LINE = 7, 12
#: Parts of the axis at its right end in which a short and a long label stand to the left, and the length of
#: a short one.
_RIGHT_END, _SHORT = (0.25, 0.6), 8


@dataclass(frozen=True)
class EventMark:
    """The mark of a step.

    Attributes
    ----------
    kind : str
        Key of its colour.
    text : str
        What happened.
    label : str
        Numbers of the chain's changes that begin here; empty for events alone.
    effects : dict
        Column → both levels of its change.
    """

    kind: str
    text: str
    label: str = ""
    effects: dict[str, str] = field(default_factory=dict)


def marks_of(events: Sequence[RunEvent], chain: Sequence[ChainMark] = ()) -> dict[int, EventMark]:
    """Return the mark of each step; the chain and notes are kept longest, evaluations least.

    Parameters
    ----------
    events : sequence of RunEvent
        By step.
    chain : sequence of ChainMark
        The first cause first.
    """
    by_step: dict[int, list[tuple[str, str]]] = {}
    numbers: dict[int, list[str]] = {}
    effects: dict[int, dict[str, str]] = {}
    for number, change in enumerate(chain, 1):
        words = tr(
            "change {number} of {all}: {text}", number=number, all=len(chain), text=_short(change.text)
        )
        by_step.setdefault(change.step, []).append(("chain", words))
        numbers.setdefault(change.step, []).append(str(number))
        effects.setdefault(change.step, {})[change.column] = change.effect
    for event in events:
        words = f"{tr(_LABELS[event.kind])}: {_short(event.text)}"
        by_step.setdefault(event.step, []).append((event.kind, words))
    found: dict[int, EventMark] = {}
    for step in sorted(by_step):
        at = sorted(by_step[step], key=lambda each: list(_COLORS).index(each[0]))
        said = [words for _, words in at[:_MAX_EVENTS]] + [f"+{len(at) - _MAX_EVENTS}"] * (
            len(at) > _MAX_EVENTS
        )
        label = ", ".join(numbers.get(step, ()))
        found[step] = EventMark(at[0][0], " · ".join(said), label, effects.get(step, {}))
    if len(found) > MAX_MARKS:
        order = sorted(found, key=lambda step: (list(_COLORS).index(found[step].kind), -step))
        found = {step: found[step] for step in sorted(order[:MAX_MARKS])}
    return found


def _short(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= _CHARS else f"{plain[:_CHARS]}…"


def _places(x: np.ndarray, lengths: Sequence[int], axis: RunAxis) -> tuple[np.ndarray, np.ndarray]:
    """Return the side and the line of each label, so that those of steps that are near do not overlap.

    The first half stands to the left of its triangles, each one a line lower than the one before it; the
    others stand to the right, the last one in the first line.

    Parameters
    ----------
    x : ndarray of float, shape (M,)
        Positions of the marks, ascending.
    lengths : sequence of int
        Characters of the labels; 0 without one.
    axis : RunAxis

    Returns
    -------
    ndarray of int, shape (M,)
        -1 for the left, 1 for the right.
    ndarray of int, shape (M,)
        From 0 at the top.
    """
    side, line = np.ones(len(x), int), np.zeros(len(x), int)
    labelled = np.flatnonzero(lengths)
    if not len(labelled) or not len(axis.positions):
        return side, line
    first, last = axis.positions[[0, -1]]
    is_left = np.arange(len(labelled)) < len(labelled) / 2
    if len(labelled) == 1:
        is_left[0] = x[labelled[0]] > (first + last) / 2
    room = np.where(np.array(lengths)[labelled] > _SHORT, _RIGHT_END[1], _RIGHT_END[0])
    is_left |= x[labelled] > last - room * (last - first)
    side[labelled[is_left]] = -1
    line[labelled[is_left]] = np.arange(is_left.sum())
    line[labelled[~is_left]] = np.arange((~is_left).sum())[::-1]
    return side, line


class RunMarks:
    """Event marks of the shown run, found once for a snapshot, its notes and a chain of changes."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._found = 0.0
        self._marks: dict[int, EventMark] = {}

    def of(self, context: Any) -> dict[int, EventMark]:
        """Return the marks by step; without events if the viewer has turned them off."""
        notes, chain = context.notes, tuple(context.chain_marks)
        if notes is None or not context.display.run_events:
            return marks_of((), chain)
        snapshot = context.snapshot
        run = (snapshot.name, snapshot.split, notes.version, chain)
        key, now = (*run, snapshot.version), time.monotonic()
        is_due = self._key[: len(run)] != run or now - self._found > _EVERY
        if key != self._key and is_due:
            self._found = now
            events, _ = run_events(snapshot, notes, snapshot.constants.logged, notes.run)
            self._key, self._marks = key, marks_of(events, chain)
        return self._marks


class EventMarks:
    """The marks in one plot, which are created with the first one.

    Parameters
    ----------
    plot : figure
    columns : sequence of str
        The columns that it draws.
    """

    def __init__(self, plot: Any, columns: Sequence[str] = ()) -> None:
        self._plot, self._columns = plot, columns
        self._renderer: Any = None

    def draw(self, axis: RunAxis, marks: dict[int, EventMark], *, dark: bool) -> None:
        """Show these marks; those outside the run stand at the end of the axis."""
        if self._renderer is None:
            if not marks:
                return
            self._create()
        steps = np.array(list(marks), np.int64)
        colors = theme.palette(dark)
        x = axis.positions_of(steps) if len(steps) else np.empty(0)
        labels = [self._label(mark) for mark in marks.values()]
        side, line = _places(x, [len(each) for each in labels], axis)
        data = {
            "x": x,
            "y": np.full(len(steps), _TOP),
            "step": [f"{step:,}" for step in steps.tolist()],
            "text": [mark.text for mark in marks.values()],
            "color": [colors[_COLORS[mark.kind]] for mark in marks.values()],
            "label": labels,
            "align": np.where(side < 0, "right", "left").tolist(),
            "across": side * _BESIDE,
            "down": line * _LINE,
        }
        source = self._renderer.data_source
        if any(not np.array_equal(source.data[name], values) for name, values in data.items()):
            source.data = data

    def _label(self, mark: EventMark) -> str:
        names = [trainer_scalars.scalar_of(column) or column for column in self._columns]
        effect = next((mark.effects[name] for name in names if name in mark.effects), "")
        return f"{mark.label}: {effect}" if effect else mark.label

    def _create(self) -> None:
        self._plot.extra_y_ranges = {**self._plot.extra_y_ranges, _RANGE: Range1d(start=0, end=1)}
        names = ("x", "y", "step", "text", "color", "label", "align", "across", "down")
        empty: dict[str, Any] = {name: [] for name in names}
        mark = Scatter(
            x="x", y="y", marker="inverted_triangle", size=9, fill_color="color", line_color="color"
        )
        label = Text(
            x="x", y="y", text="label", x_offset="across", y_offset="down", text_align="align",
            text_baseline="middle", text_color="color", text_font_size="11px",
        )  # fmt: skip
        source = ColumnDataSource(empty, name="events")
        self._renderer = self._plot.add_glyph(source, mark, y_range_name=_RANGE, level="overlay")
        self._plot.add_glyph(source, label, y_range_name=_RANGE, level="overlay")
        # A placeholder without {safe} is inserted as text, so an event's words never run.
        tips = [(tr("step"), "@step"), ("", "@text")]
        self._plot.add_tools(HoverTool(renderers=[self._renderer], tooltips=tips, name="events"))
