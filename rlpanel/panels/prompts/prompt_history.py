"""One prompt over the steps: rewards, lengths, what was answered, and what changed from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.response_diff import NOW_CHARS, DiffSide, diff_html
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.export.export_menu import ExportMenu, plot_with_menu
from rlpanel.panels.plots.prompt_history_plot import PromptHistoryPlot
from rlpanel.panels.samples.text_cache import read_texts
from rlpanel.panels.samples.text_table import text_table
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.prompt_text import first_line
from rlpanel.panels.ui.table_click import click_field
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch
from rlpanel.store.snapshot.prompts import SamplesOfPrompt, samples_of_prompt
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Samples of the prompt that are shown with their texts, the nearest steps first.
MOST_SAMPLES = 300
#: Bytes of log that are read on the event loop; more on a thread.
READ_NOW = 1 << 20


class _Texts(NamedTuple):
    """What was read: samples with their texts."""

    uids: list[str]
    texts: list[dict[str, str]]


class PromptHistory(Viewer):
    """Two plots, a strip of answers, and a diff with the step before.

    Parameters
    ----------
    context : Context
    say : callable
        Takes what there is to say about the prompt.
    """

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, say: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._say = context, say
        self._history: SamplesOfPrompt | None = None
        self._snapshot = context.snapshot  # that the history's rows are of
        self._key: tuple[object, ...] | None = None
        self._reading: BackgroundTask[_Texts] = BackgroundTask(self._put_texts)
        self._diffing: BackgroundTask[str] = BackgroundTask(self._put_diff)
        self._diff = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
            sizing_mode="stretch_width",
            margin=(4, 14, 10, 14),
            css_classes=["rl-over-time-diff"],
        )
        self._picked = click_field(self._pick)
        self._reward = PromptHistoryPlot("policy", "prompt-reward", self._choose)
        self._length = PromptHistoryPlot("length", "prompt-length", self._choose)
        self._strip = text_table(("step", "reward", "length", "response"), "rl-strip", self._picked, 190)
        narrow = {"styles": {"flex": "1 1 220px", "min-width": "200px"}}
        plots = [
            plot_with_menu(name, plot.pane, ExportMenu(context, partial(self._taken, name)), **narrow)
            for name, plot in (("reward", self._reward), ("length", self._length))
        ]
        self._column = pn.Column(
            pn.FlexBox(*plots, gap="0", margin=(0, 8)),
            self._strip,
            self._diff,
            self._picked,
            sizing_mode="stretch_width",
            margin=0,
        )
        context.param.watch(self._draw, "sample")
        context.param.watch(self._on_snapshot, "view")
        context.selection.param.watch(lambda event: self._restyle(event.new), "dark")
        context.display.param.watch(self._draw, "pad_token")
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
            self._say("no prompt is logged for this sample" if sample else "no sample selected")
            self._strip.value = self._strip.value.iloc[:0]
            self._diff.object = ""
            return
        snapshot = context.snapshot
        try:
            found = samples_of_prompt(snapshot, snapshot.row(sample.uid))
        except RLPanelError as error:
            self._say(str(error))
            return
        self._history, self._snapshot = found, snapshot
        self._reward.draw(found, found.reward, sample.step)
        self._length.draw(found, found.length, sample.step)
        steps = len(np.unique(found.step))
        first, last = found.means(found.reward)[1][:1], found.means(found.reward)[1][-1:]
        rise = f" · mean reward {number(float(first[0]))} → {number(float(last[0]))}" if len(first) else ""
        self._say(f"{len(found.rows):,} samples at {steps:,} steps{rise}")
        self._read(context.index, snapshot, found, sample)
        self._compare(context.index, context.view, found, sample)

    def _on_snapshot(self, event: Any) -> None:
        """Draw again when the prompt was asked once more."""
        sample, seen = self.context.sample, self._history
        if (
            not self.active
            or sample is None
            or seen is None
            or event.new.snapshot.name != self._snapshot.name
        ):
            return
        try:
            snapshot = event.new.snapshot
            again = samples_of_prompt(snapshot, snapshot.row(sample.uid))
        except RLPanelError:  # its file was written anew; the sample's place says so
            return
        if len(again.rows) != len(seen.rows):
            self._draw()

    def _read(self, index: RunIndex, snapshot: Snapshot, found: SamplesOfPrompt, sample: Sample) -> None:
        """The strip of answers, the nearest steps where there are too many."""
        near = np.sort(np.argsort(np.abs(found.step - sample.step), kind="stable")[:MOST_SAMPLES])
        rows = found.rows[near]
        key = (snapshot.name, *snapshot.uids(rows), self.context.display.pad_token)
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
        found = self._history
        if found is None:
            return
        place = {uid: at for at, uid in enumerate(self._snapshot.uids(found.rows))}
        kept = [(uid, texts) for uid, texts in zip(read.uids, read.texts, strict=True) if uid in place]
        at = [place[uid] for uid, _ in kept]
        self._strip.value = pd.DataFrame(
            {
                "step": [f"{step:,}" for step in found.step[at].tolist()],
                "reward": [number(value) for value in found.reward[at].tolist()],
                "length": [number(value) for value in found.length[at].tolist()],
                "response": [
                    first_line(texts.get("response"), self.context.display.pad_token) for _, texts in kept
                ],
                "uid": [uid for uid, _ in kept],
            },
            dtype=str,
        )
        self._mark()

    def _mark(self) -> None:
        """The row of the sample that is shown."""
        uid = self.context.sample.uid if self.context.sample else ""
        self._strip.selection = np.flatnonzero(self._strip.value["uid"] == uid).tolist()[:1]

    def _compare(self, index: RunIndex, view: RunView, found: SamplesOfPrompt, sample: Sample) -> None:
        """The answer against one of the step before that saw the prompt."""
        self._diffing.stop()
        before = found.rows[found.step < sample.step]
        if not len(before):
            self._put_diff('<p class="note">No earlier step saw this prompt.</p>')
            return
        snapshot = view.snapshot
        step = snapshot.place("step")[before[-1]]
        other = before[snapshot.place("step")[before] == step][0]
        results = _difference(index, view, int(other), sample, self.context.display.pad_token)
        if len(sample.response or "") <= NOW_CHARS // 2 and snapshot.place("length")[other] <= READ_NOW:
            self._put_diff(next(results))
        else:
            self._put_diff('<p class="note">comparing …</p>')
            self._diffing.start(results)

    def _put_diff(self, html: str) -> None:
        self._diff.object = html

    def _taken(self, name: str) -> CardExport | None:
        """One of the plots, by the name of its number; the file holds both numbers."""
        found, snapshot, sample = self._history, self._snapshot, self.context.sample
        if found is None or sample is None:
            return None
        return CardExport(
            name=f"{file_name(snapshot.name)}-{name}-of-a-prompt-to-step-{found.step.max()}",
            title=f"{name.capitalize()} of one prompt over the steps",
            words=f"{snapshot.name}: {first_line(sample.prompt, self.context.display.pad_token)}",
            rows=lambda: pd.DataFrame(
                {
                    "step": found.step,
                    "uid": snapshot.uids(found.rows),
                    "reward": found.reward,
                    "length": found.length,
                }
            ),
        )

    # -- choosing --------------------------------------------------------------------------------

    def _choose(self, at: int) -> None:
        if self._history is not None:
            self.context.choose_sample(self._snapshot.uid(int(self._history.rows[at])))

    def _pick(self, event: Any) -> None:
        uid = event.new.partition("\n")[0]
        if uid:
            self.context.choose_sample(uid)


def _read(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterator[_Texts]:
    yield _Texts(snapshot.uids(rows), read_texts(index, snapshot, rows))


def _difference(index: RunIndex, view: RunView, row: int, sample: Sample, pad_token: str) -> Iterator[str]:
    try:
        other = fetch(index, view, row)
    except RLPanelError as error:
        yield f'<p class="note">{safe_text(error)}</p>'
        return
    place = f"line {other.line:,}"
    side = DiffSide(f"Step {other.step}, the one before", place, "reference", other.response, other.reward)
    yield from diff_html(sample, side, pad_token)
