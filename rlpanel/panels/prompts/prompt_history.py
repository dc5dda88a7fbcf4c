"""History of one prompt: its plot, rewards, lengths and responses over steps, and diffs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import panel as pn
import param
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Line, Scatter
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.number_text import number
from rlpanel.panels.compare.siblings import rollout_summary
from rlpanel.panels.compare.text_diff import NOW_CHARS, DiffSide, response_side
from rlpanel.panels.compare.turn_pair import rollouts_html
from rlpanel.panels.export.card_export import CardExport, CardHead, file_name, titled_plot
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.quiet_figure import add_glyphs, quiet_figure
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import DataColumn, DataTable
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, read_texts, settings_style, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.prompts import SamplesOfPrompt, samples_of_prompt
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import TextStyle, clean, prompt_line
from rlpanel.texts.shorten import first_line, last_line

# -- prompt history plot -------------------------------------------------------------------------------
# Plot of one prompt's samples over the steps: a point per sample and a line through the means.


HEIGHT = 116


class PromptHistoryPlot:
    """A small plot of one number of the samples.

    Parameters
    ----------
    color : str
        Name of a theme colour.
    name : str
        Prefix of the data sources' names: ``<name>-points`` and ``<name>-means``.
    choose : callable
        Called with the position in the history of the sample nearest to a click.
    """

    def __init__(self, color: str, name: str, choose: Callable[[int], None]) -> None:
        self._color, self._choose = color, choose
        self._history: SamplesOfPrompt | None = None
        self._values = np.empty(0)
        self._points = ColumnDataSource({"step": [], "value": []}, name=f"{name}-points")
        self._means = ColumnDataSource({"step": [], "value": []}, name=f"{name}-means")
        self._x, self._y = Range1d(start=0, end=1), Range1d(start=0, end=1)
        self.plot = quiet_figure(height=HEIGHT, x_range=self._x, y_range=self._y)
        self._step_line = Span(location=0, dimension="height", line_width=1)
        self.plot.add_layout(self._step_line)
        [self._line] = add_glyphs(self.plot, self._means, Line(x="step", y="value", line_width=1.6))
        dots = Scatter(x="step", y="value", size=6, fill_alpha=0.55, line_width=0)
        [self._dots] = add_glyphs(self.plot, self._points, dots)
        self.plot.on_event(Tap, self._on_tap)
        self.pane = pn.pane.Bokeh(self.plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6))

    def draw(self, history: SamplesOfPrompt, values: np.ndarray, step: int) -> None:
        """Show a history's values, shape (N,), with a vertical line at the selected step."""
        self._history, self._values = history, values
        finite = np.isfinite(values)
        steps, means = history.means(values)
        with theme.hold_changes():
            self._points.data = {"step": history.step[finite], "value": values[finite]}
            self._means.data = {"step": steps, "value": means}
            self._step_line.location = step
            if finite.any():
                _fit(self._x, history.step[finite])
                _fit(self._y, values[finite])

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(dark)
        with theme.hold_changes():
            theme.restyle(self.plot, dark)
            self._line.glyph.line_color = colors[self._color]
            self._dots.glyph.fill_color = colors[self._color]
            self._step_line.line_color = colors["muted"]

    def _on_tap(self, event: Any) -> None:
        if self._history is None or not np.isfinite(self._values).any():
            return
        width = np.ptp(self._history.step) or 1
        height = np.nanmax(self._values) - np.nanmin(self._values) or 1
        distance = np.hypot((self._history.step - event.x) / width * 3, (self._values - event.y) / height)
        self._choose(int(np.nanargmin(distance)))


def _fit(axis_range: Range1d, values: np.ndarray) -> None:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * ((high - low) or 1.0)
    axis_range.update(start=low - margin, end=high + margin)


# -- prompt history ------------------------------------------------------------------------------------
# History of one prompt: rewards, lengths and responses over steps, and the diff to the previous step.


#: Maximum number of listed responses; those of the nearest steps are chosen.
MAX_SAMPLES = 300
#: Up to this many bytes of log are read on the event loop, more on a thread.
READ_NOW = 1 << 20

#: Plots below each other where they do not fit beside each other.
_WRAPPED = ":host { flex-wrap: wrap; }"


class _Texts(NamedTuple):
    """Texts of samples."""

    uids: list[str]
    texts: list[dict[str, str]]


class PromptHistory(Viewer):
    """Two plots, a table of responses, and a diff to the previous step with the prompt.

    Parameters
    ----------
    context : Context
    show_note : callable
        Shows a line of text about the prompt.
    """

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, show_note: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._show_note = context, show_note
        self._history: SamplesOfPrompt | None = None
        self._snapshot = context.snapshot  # the snapshot of the history's rows
        self._key: tuple[object, ...] | None = None
        self._reading: BackgroundTask[_Texts] = BackgroundTask(self._show_texts, context.threads.views)
        self._diffing: BackgroundTask[str] = BackgroundTask(self._show_diff, context.threads.views)
        self._diff = Html(
            stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
            sizing_mode="stretch_width",
            margin=(4, 14, 10, 14),
            css_classes=["rl-over-time-diff"],
        )
        self._reward = PromptHistoryPlot("policy", "prompt-reward", self._choose)
        self._length = PromptHistoryPlot("length", "prompt-length", self._choose)
        self.responses = DataTable(
            [
                *(DataColumn(each, each, width=78, align="right") for each in ("step", "reward", "length")),
                DataColumn("response", "response"),
            ],
            pick=self._pick,
            sortable=False,
            height=190,
            sizing_mode="stretch_width",
            margin=(4, 8),
            css_classes=["rl-strip"],
        )
        narrow = {"styles": {"flex": "1 1 220px", "min-width": "200px"}}
        plots = [
            titled_plot(name, plot.pane, CardHead(context, partial(self._export, name)), **narrow)
            for name, plot in (("reward", self._reward), ("length", self._length))
        ]
        self._column = pn.Column(
            # A `FlexBox` does not pass its size on to the plots, which then stay empty.
            pn.Row(*plots, margin=(0, 8), sizing_mode="stretch_width", stylesheets=[_WRAPPED]),
            self.responses,
            self._diff,
            sizing_mode="stretch_width",
            margin=0,
        )
        context.param.watch(self._draw, "sample")
        context.param.watch(self._on_snapshot, "view")
        context.selection.param.watch(lambda event: self._restyle(event.new), "dark")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")
        self._restyle(context.selection.dark)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- drawing ---------------------------------------------------------------------------------

    def _restyle(self, dark: bool) -> None:
        self._reward.restyle(dark)
        self._length.restyle(dark)

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        context, sample = self.context, self.context.sample
        if sample is None or sample.prompt is None or context.index is None:
            self._show_note(tr("No prompt is logged for this sample") if sample else tr("No sample selected"))
            self.responses.draw(self.responses.frame.iloc[:0])
            self._diff.html = ""
            return
        snapshot = context.snapshot
        try:
            history = samples_of_prompt(snapshot, snapshot.row(sample.uid))
        except RLPanelError as error:
            self._show_note(str(error))
            return
        self._history, self._snapshot = history, snapshot
        self._reward.draw(history, history.reward, sample.step)
        self._length.draw(history, history.length, sample.step)
        steps = len(np.unique(history.step))
        first, last = history.means(history.reward)[1][:1], history.means(history.reward)[1][-1:]
        change = (
            tr(" · mean reward {first} → {last}", first=number(float(first[0])), last=number(float(last[0])))
            if len(first)
            else ""
        )
        self._show_note(
            tr(
                "{rows:,} samples at {steps:,} steps{change}",
                rows=len(history.rows),
                steps=steps,
                change=change,
            )
        )
        self._read(context.index, snapshot, history, sample)
        self._compare(context.index, context.view, history, sample)

    def _on_snapshot(self, event: Any) -> None:
        """Draw again when the run has new samples of the prompt."""
        sample, history, snapshot = self.context.sample, self._history, event.new.snapshot
        if not self.active or sample is None or history is None or snapshot.name != self._snapshot.name:
            return
        try:
            updated = samples_of_prompt(snapshot, snapshot.row(sample.uid))
        except RLPanelError:  # the file was rewritten; the sample panel shows that
            return
        if len(updated.rows) != len(history.rows):
            self._draw()

    def _read(self, index: RunIndex, snapshot: Snapshot, history: SamplesOfPrompt, sample: Sample) -> None:
        """Read the responses for the table; if there are too many, those of the nearest steps."""
        nearest = np.sort(np.argsort(np.abs(history.step - sample.step), kind="stable")[:MAX_SAMPLES])
        rows = history.rows[nearest]
        key = (snapshot.name, *snapshot.uids(rows), settings_style(self.context.display))
        if key == self._key:
            self._mark()
            return
        self._key = key
        self._reading.stop()
        results = _read_texts(index, snapshot, rows)
        if snapshot.metadata("length")[rows].sum() <= READ_NOW:
            self._show_texts(next(results))
        else:
            self._reading.start(results)

    def _show_texts(self, read: _Texts) -> None:
        history = self._history
        if history is None:
            return
        position = {uid: i for i, uid in enumerate(self._snapshot.uids(history.rows))}
        current = [(uid, texts) for uid, texts in zip(read.uids, read.texts, strict=True) if uid in position]
        positions, style = [position[uid] for uid, _ in current], settings_style(self.context.display)
        frame = pd.DataFrame(
            {
                "step": [f"{step:,}" for step in history.step[positions].tolist()],
                "reward": [number(value) for value in history.reward[positions].tolist()],
                "length": [number(value) for value in history.length[positions].tolist()],
                "response": [
                    _response_line(self._snapshot, row, clean(texts.get("response", ""), style))
                    for row, (_, texts) in zip(history.rows[positions].tolist(), current, strict=True)
                ],
                "uid": [uid for uid, _ in current],
            },
            dtype=str,
        )
        self.responses.draw(frame)
        self._mark()

    def _mark(self) -> None:
        """Mark the row of the selected sample."""
        self.responses.chosen = self.context.sample.uid if self.context.sample else ""

    def _compare(self, index: RunIndex, view: RunView, history: SamplesOfPrompt, sample: Sample) -> None:
        """Show the diff to a response of the previous step with the prompt."""
        self._diffing.stop()
        before = history.rows[history.step < sample.step]
        if not len(before):
            self._show_diff(note_html(tr("No earlier step has this prompt.")))
            return
        snapshot = view.snapshot
        step = snapshot.metadata("step")[before[-1]]
        previous = before[snapshot.metadata("step")[before] == step][0]
        results = _read_diff(index, view, int(previous), sample, settings_style(self.context.display))
        if len(sample.response or "") <= NOW_CHARS // 2 and snapshot.metadata("length")[previous] <= READ_NOW:
            self._show_diff(next(results))
        else:
            self._show_diff(note_html(tr("Comparing …")))
            self._diffing.start(results)

    def _show_diff(self, html: str) -> None:
        self._diff.html = html

    def _export(self, name: str) -> CardExport | None:
        """Return the export of the plot ``name``; the table holds reward and length."""
        history, snapshot, sample = self._history, self._snapshot, self.context.sample
        if history is None or sample is None:
            return None
        return CardExport(
            name=f"{file_name(snapshot.name)}-{name}-of-a-prompt-to-step-{history.step.max()}",
            title=f"{name.capitalize()} of one prompt over steps",
            words=f"{snapshot.name}: {prompt_line(sample.prompt, text_style(self.context))}",
            rows=lambda: pd.DataFrame(
                {
                    "step": history.step,
                    "uid": snapshot.uids(history.rows),
                    "reward": history.reward,
                    "length": history.length,
                }
            ),
        )

    # -- choosing --------------------------------------------------------------------------------

    def _choose(self, position: int) -> None:
        """Select a sample by its position in the history."""
        if self._history is not None:
            self.context.choose_sample(self._snapshot.uid(int(self._history.rows[position])))

    def _pick(self, uid: str, _: str) -> None:
        self.context.choose_sample(uid)


def _response_line(snapshot: Snapshot, row: int, text: str) -> str:
    """Return what a row shows of a response: its first line, or how an agent's rollout went and ended."""
    summary = rollout_summary(snapshot, row)
    return f"{summary}: {last_line(text)}" if summary else first_line(text)


def _read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterator[_Texts]:
    yield _Texts(snapshot.uids(rows), read_texts(index, snapshot, rows))


def _read_diff(index: RunIndex, view: RunView, row: int, sample: Sample, style: TextStyle) -> Iterator[str]:
    try:
        previous = fetch(index, view, row)
    except RLPanelError as error:
        yield note_html(error)
        return
    side = DiffSide(
        tr("Step {step} (previous)", step=previous.step),
        f"line {previous.line:,}",
        "reference",
        previous.response,
        previous.reward,
    )
    yield from rollouts_html((sample, previous), (response_side(sample), side), style)
