"""One prompt over the steps: rewards, lengths, what was answered, and what changed from step to step.

And the prompts that never get better, which lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.schema import Sample
from rlpanel.store.index import RunIndex
from rlpanel.store.prompts import History, Stuck, history, never_better
from rlpanel.store.run import fetch
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.background import Background
from rlpanel.views.compare import NOW_CHARS, Side, pages, select
from rlpanel.views.context import Context
from rlpanel.views.samples_table import PICK, Table
from rlpanel.views.samples_texts import read_texts
from rlpanel.views.text import clean
from rlpanel.views.theme import number, safe_text
from rlpanel.views.time_plot import TimePlot

#: Samples of the prompt that are shown with their texts, the nearest steps first.
MOST_SAMPLES = 300
MOST_STUCK = 300
#: Bytes of log, and samples of a run, that are read on the event loop; more on a thread.
READ_NOW = 1 << 20
COUNT_NOW = 100_000

ONE, STUCK = "one", "stuck"


class _Texts(NamedTuple):
    """What was read: rows with their texts."""

    rows: list[int]
    texts: list[dict[str, str]]


class OverTime(Viewer):
    """The tab of the sample's prompt through training."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._history: History | None = None
        self._key: tuple[object, ...] | None = None
        self._reading: Background[_Texts] = Background(self._put_texts)
        self._diffing: Background[str] = Background(self._put_diff)
        self._counting: Background[tuple[list[Stuck], list[str], list[str]]] = Background(self._put_stuck)
        self._what = select("what", 250)
        self._what.param.update(
            options={"this prompt over the steps": ONE, "prompts that never get better": STUCK}, value=ONE
        )
        self._note = _pane("rl-over-time-note")
        self._diff = pn.pane.HTML(
            "", stylesheets=[theme.CSS, theme.style("compare")], sizing_mode="stretch_width",
            margin=(4, 14, 10, 14), css_classes=["rl-over-time-diff"],
        )  # fmt: skip
        self._picked = pn.widgets.TextInput(visible=False)
        self._reward = TimePlot("policy", "prompt-reward", self._choose)
        self._length = TimePlot("length", "prompt-length", self._choose)
        self._strip = _table(("step", "reward", "length", "response"), "rl-strip", self._picked, 190)
        self._stuck = _table(
            ("prompt", "steps", "samples", "best", "last", "bar"), "rl-stuck", self._picked, 420
        )
        self._one = pn.Column(
            pn.FlexBox(
                _titled("reward", self._reward), _titled("length", self._length), gap="0", margin=(0, 8)
            ),
            self._strip,
            self._diff,
            sizing_mode="stretch_width",
            margin=0,
        )
        self._column = pn.Column(
            pn.Row(self._what, self._note, self._picked, sizing_mode="stretch_width", margin=(8, 10, 0, 10)),
            self._one,
            self._stuck,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self._stuck.visible = False
        self._picked.param.watch(self._pick, "value")
        self._what.param.watch(self._turned, "value")
        context.param.watch(self._draw, "sample")
        context.selection.param.watch(lambda event: self._restyle(event.new), "dark")
        context.display.param.watch(self._draw, ["pad_token", "system_end", "stuck_steps"])
        self.param.watch(self._draw, "active")
        self._restyle(context.selection.dark)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        if self._what.value == STUCK:
            self._draw_stuck()
        else:
            self._draw_one()

    def _turned(self, *_: Any) -> None:
        self._one.visible = self._what.value == ONE
        self._stuck.visible = self._what.value == STUCK
        self._draw()

    def _restyle(self, dark: bool) -> None:
        self._reward.restyle(dark)
        self._length.restyle(dark)

    def _draw_one(self) -> None:
        context, sample = self.context, self.context.sample
        if sample is None or sample.prompt is None or context.index is None:
            self._say("no prompt is logged for this sample" if sample else "no sample selected")
            self._strip.value = self._strip.value.iloc[:0]
            self._diff.object = ""
            return
        snapshot = context.snapshot
        try:
            found = self._history = history(snapshot, snapshot.row(sample.uid))
        except RLPanelError as error:
            self._say(str(error))
            return
        self._reward.draw(found, found.reward, sample.step)
        self._length.draw(found, found.length, sample.step)
        steps = len(np.unique(found.step))
        first, last = found.means(found.reward)[1][:1], found.means(found.reward)[1][-1:]
        rise = f" · mean reward {number(float(first[0]))} → {number(float(last[0]))}" if len(first) else ""
        self._say(f"{len(found.rows):,} samples at {steps:,} steps{rise}")
        self._read(context.index, snapshot, found, sample)
        self._compare(context.index, snapshot, found, sample)

    def _say(self, words: str) -> None:
        self._note.object = f'<span class="note">{safe_text(words)}</span>'

    def _read(self, index: RunIndex, snapshot: Snapshot, found: History, sample: Sample) -> None:
        """The strip of answers, the nearest steps where there are too many."""
        near = np.sort(np.argsort(np.abs(found.step - sample.step), kind="stable")[:MOST_SAMPLES])
        rows = found.rows[near]
        key = (snapshot.name, rows.tobytes(), self.context.display.pad_token)
        if key == self._key:
            self._mark()
            return
        self._key = key
        self._reading.stop()
        results = _read(index, snapshot, rows)
        if snapshot.place("length")[rows].sum() <= READ_NOW:
            self._put_texts(next(results))
        else:
            self._reading.start(results)

    def _put_texts(self, read: _Texts) -> None:
        snapshot, found = self.context.snapshot, self._history
        if found is None:
            return
        place = {row: at for at, row in enumerate(found.rows.tolist())}
        kept = [(place[row], texts) for row, texts in zip(read.rows, read.texts, strict=True) if row in place]
        at = [where for where, _ in kept]
        self._strip.value = pd.DataFrame(
            {
                "step": [f"{step:,}" for step in found.step[at].tolist()],
                "reward": [number(value) for value in found.reward[at].tolist()],
                "length": [number(value) for value in found.length[at].tolist()],
                "response": [
                    _line(texts.get("response"), self.context.display.pad_token) for _, texts in kept
                ],
                "uid": snapshot.uids(found.rows[at]),
            },
            dtype=str,
        )
        self._mark()

    def _mark(self) -> None:
        """The row of the sample that is shown."""
        uid = self.context.sample.uid if self.context.sample else ""
        self._strip.selection = np.flatnonzero(self._strip.value["uid"] == uid).tolist()[:1]

    def _compare(self, index: RunIndex, snapshot: Snapshot, found: History, sample: Sample) -> None:
        """The answer against one of the step before that saw the prompt."""
        self._diffing.stop()
        before = found.rows[found.step < sample.step]
        if not len(before):
            self._put_diff('<p class="note">No earlier step saw this prompt.</p>')
            return
        step = snapshot.place("step")[before[-1]]
        other = before[snapshot.place("step")[before] == step][0]
        results = _difference(index, snapshot, int(other), sample, self.context.display.pad_token)
        if len(sample.response or "") <= NOW_CHARS // 2 and snapshot.place("length")[other] <= READ_NOW:
            self._put_diff(next(results))
        else:
            self._put_diff('<p class="note">comparing …</p>')
            self._diffing.start(results)

    def _put_diff(self, html: str) -> None:
        self._diff.object = html

    # -- prompts that never get better -------------------------------------------------------------

    def _draw_stuck(self) -> None:
        context = self.context
        if context.index is None:
            return
        self._counting.stop()
        results = self._count(context.index, context.snapshot, context.display.stuck_steps)
        if context.snapshot.samples <= COUNT_NOW:
            self._put_stuck(next(results))
        else:
            self._say("counting …")
            self._counting.start(results)

    def _count(
        self, index: RunIndex, snapshot: Snapshot, least: int
    ) -> Iterator[tuple[list[Stuck], list[str], list[str]]]:
        found = never_better(snapshot, least)
        rows = np.array([prompt.row for prompt in found[:MOST_STUCK]], int)
        texts = read_texts(index, snapshot, rows)
        display = self.context.display
        prompts = [_line(each.get("prompt"), display.pad_token, display.system_end) for each in texts]
        yield found, prompts, snapshot.uids(rows)

    def _put_stuck(self, counted: tuple[list[Stuck], list[str], list[str]]) -> None:
        found, prompts, uids = counted
        shown = found[: len(prompts)]
        self._stuck.value = pd.DataFrame(
            {
                "prompt": prompts,
                "steps": [f"{one.steps:,}" for one in shown],
                "samples": [f"{one.samples:,}" for one in shown],
                "best": [number(one.best) for one in shown],
                "last": [number(one.last) for one in shown],
                "bar": [number(one.bar) for one in shown],
                "uid": uids,
            },
            dtype=str,
        )
        least = self.context.display.stuck_steps
        below = (
            "below the reference" if self.context.snapshot.has("ref_reward") else "no better than at first"
        )
        self._say(f"{len(found):,} prompts still {below} after {least:,} steps or more")

    # -- choosing --------------------------------------------------------------------------------

    def _choose(self, at: int) -> None:
        if self._history is not None:
            self.context.choose_sample(self.context.snapshot.uid(int(self._history.rows[at])))

    def _pick(self, event: Any) -> None:
        uid = event.new.partition("\n")[0]
        if uid:
            self.context.choose_sample(uid)
            self._what.value = ONE


def _read(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterator[_Texts]:
    yield _Texts(rows.tolist(), read_texts(index, snapshot, rows))


def _difference(
    index: RunIndex, snapshot: Snapshot, row: int, sample: Sample, pad_token: str
) -> Iterator[str]:
    try:
        other = fetch(index, snapshot, row)
    except RLPanelError as error:
        yield f'<p class="note">{safe_text(error)}</p>'
        return
    place = f"line {other.line:,}"
    side = Side(f"Step {other.step}, the one before", place, "reference", other.response, other.reward)
    yield from pages(sample, side, pad_token)


def _line(text: str | None, pad_token: str, system_end: str = "") -> str:
    """The first line that shows anything."""
    lines = clean(text or "", pad_token, system_end).strip().splitlines()
    return lines[0][:300] if lines else "–"


def _titled(title: str, plot: TimePlot) -> pn.Column:
    head = pn.pane.HTML(f'<span class="caption">{title}</span>', stylesheets=[theme.CSS], margin=(4, 8, 0, 8))
    return pn.Column(head, plot.pane, margin=0, styles={"flex": "1 1 220px", "min-width": "200px"})


def _pane(name: str) -> pn.pane.HTML:
    return pn.pane.HTML(
        "", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(6, 8), css_classes=[name]
    )


def _table(names: tuple[str, ...], name: str, picked: pn.widgets.TextInput, height: int) -> Table:
    """Rows of texts; a click puts the row's uid into ``picked``."""
    wide = {"response": 420, "prompt": 380}
    table = Table(
        pd.DataFrame({column: pd.Series(dtype=str) for column in (*names, "uid")}),
        show_index=False,
        disabled=True,
        selectable=1,
        height=height,
        sizing_mode="stretch_width",
        margin=(4, 8),
        layout="fit_columns",
        stylesheets=[theme.style("table")],
        css_classes=[name],
        hidden_columns=["uid"],
        formatters={key: {"type": "plaintext"} for key in names},
        text_align={column: "right" for column in names if column not in wide},
        widths={column: 78 for column in names if column not in wide},
        titles={"bar": "to reach"},
        row_height=27,
        configuration={"columnDefaults": {"headerSort": False}, "placeholder": ""},
    )
    table.jscallback(args={"picked": picked}, **{"event:cell-click": PICK})
    return table
