"""Marks of curves: a run's events, changes of a chain, and in the head the trend of the last steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d, Scatter, Text

from rlpanel.analysis.recent_trend import LAST, RecentTrend, TrendVerdict, recent_trend
from rlpanel.number_text import DUST, number
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import ChainMark
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.run_events import RunEvent, run_events
from rlpanel.store.snapshot.alignment import RunAxis
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import newest_complete_step
from rlpanel.store.snapshot.snapshot_cache import cached_on

# -- event marks ---------------------------------------------------------------------------------------
# Marks on the curves: a run's events, and the changes of the chain that was found last.
#
# They are small triangles at the top, each with a tooltip of plain text. A change of the chain has its number
# beside its triangle, and on the curve of its own column both levels.


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
    for nth, change in enumerate(chain, 1):
        words = tr("change {number} of {all}: {text}", number=nth, all=len(chain), text=_short(change.text))
        by_step.setdefault(change.step, []).append(("chain", words))
        numbers.setdefault(change.step, []).append(str(nth))
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


# -- trend mark ----------------------------------------------------------------------------------------
# The marks in a curve's head: whether the last steps improved it, and the change of the shown step.
#
# A change is said only where it exceeds the noise of the steps before it.


#: Number of steps before, and the number that is needed to know their noise.
STEPS, _MIN_STEPS = 10, 3


@dataclass(frozen=True)
class RecentChange:
    """A value and those before it.

    Attributes
    ----------
    value : float
    mean : float
        Mean of the last `STEPS` finite values before; NaN if there are fewer than three.
    noise : float
        Two standard deviations of a value from the mean of the others: ``2 s √(1 + 1/n)``.
    steps : int
        Number n of the values before.
    """

    value: float
    mean: float
    noise: float
    steps: int

    @property
    def text(self) -> str:
        """The change, such as ``▲ 0.14``; empty if it is within the noise, or the noise is unknown."""
        change = self.value - self.mean
        if not abs(change) > max(self.noise, DUST * max(abs(self.value), abs(self.mean))):
            return ""
        return f"{'▲' if change > 0 else '▼'} {number(abs(change))}"

    @property
    def tip(self) -> str:
        """The numbers behind the change."""
        return tr(
            "{value}, against {mean} ± {noise} in the {steps} steps before "
            "(mean, and 2 standard deviations of one step). Smaller changes are not shown.",
            value=number(self.value),
            mean=number(self.mean),
            noise=number(self.noise),
            steps=self.steps,
        )

    @property
    def html(self) -> str:
        """The change as HTML with the numbers as its tooltip; empty without a change."""
        return f'<span class="delta" title="{safe_text(self.tip)}">{self.text}</span>' if self.text else ""


def recent_change(values: np.ndarray, position: int) -> RecentChange:
    """Return the change at a position of a curve's values, shape (S,); -1 stands for no position."""
    value = float(values[position]) if position >= 0 else float("nan")
    before = values[: max(position, 0)]
    before = before[np.isfinite(before)][-STEPS:]
    if len(before) < _MIN_STEPS:
        return RecentChange(value, float("nan"), float("nan"), len(before))
    noise = 2 * float(before.std(ddof=1)) * float(np.sqrt(1 + 1 / len(before)))
    return RecentChange(value, float(before.mean()), noise, len(before))


#: Curves that are tested together on a page: the least z is corrected for so many.
_CURVES = 8
#: Trends of a run that are kept.
_KEPT = 64
#: Colour of a verdict, by the class of its mark.
_CLASSES: dict[TrendVerdict, str] = {"improved": "better", "worsened": "worse"}


def trend_of(context: Context, view: RunView, curve: str) -> RecentTrend | None:
    """Return the trend of a curve; None for a scalar of the trainer, and before the first complete step.

    It is computed once for each complete step, and not for each line that arrives.
    """
    snapshot = view.snapshot
    until = newest_complete_step(snapshot, time.time())
    if until is None or trainer_scalars.scalar_of(curve) is not None or not view.has(curve) or ":" in curve:
        return None
    counted = int(snapshot.steps.samples[snapshot.steps.values <= until].sum())
    key = (snapshot.split, snapshot.counts_rows, curve, until, counted)
    return cached_on(
        view if context.index is None else context.index,
        "recent trend",
        key,
        lambda: recent_trend(view, curve, LAST, until=until, tests=_CURVES),
        most=_KEPT,
    )


def trend_html(trend: RecentTrend | None) -> str:
    """Return the mark as HTML with the numbers as its tooltip; empty with too few steps."""
    if trend is None or trend.verdict == "too few steps":
        return ""
    sign = "~" if trend.verdict == "unclear" else "↗" if trend.change > 0 else "↘"
    color = _CLASSES.get(trend.verdict, "")
    label = safe_text(trend_tip(trend))
    return f'<span class="unit trend {color}" title="{label}" aria-label="{label}" role="img">{sign}</span>'


def trend_tip(trend: RecentTrend) -> str:
    """Return the verdict with its numbers as a sentence."""
    values = {
        "steps": f"{trend.steps[0]}–{trend.steps[1]}",
        "since": f"{trend.since[0]}–{trend.since[1]}",
        "change": f"{trend.change:+.3g}".replace("-", "−"),
        "error": number(trend.error),
        "z": number(abs(trend.z)),
    }
    verdict = {
        "improved": tr("Steps {steps} improved on steps {since}.", **values),
        "worsened": tr("Steps {steps} are worse than steps {since}.", **values),
        "rose": tr("Steps {steps} lie above steps {since}.", **values),
        "fell": tr("Steps {steps} lie below steps {since}.", **values),
        "unclear": tr("Steps {steps} do not clearly differ from steps {since}.", **values),
    }[trend.verdict]
    numbers = tr("Change {change} ± {error} (standard error), {z} errors.", **values)
    by = (
        tr("The error is clustered by prompt ({prompts}) and by step.", prompts=trend.prompts)
        if trend.prompts
        else tr("The error is that of the steps.")
    )
    return f"{verdict} {numbers} {by}"
