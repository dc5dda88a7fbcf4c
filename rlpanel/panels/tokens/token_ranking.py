"""Across samples: the tokens of the step that stand out, each with where it does most.

Of the step, those samples count that pass the grid's search and filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewer

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.token_tally import PLACES, RankedToken
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.tokens.display_text import Encoding, read_piece
from rlpanel.panels.tokens.tally_task import VALUE_ERROR, TallyProgress, TokenReader, named
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.table_click import ClickTable, click_field
from rlpanel.panels.ui.theme import number, safe_text

#: Bytes of log that are read for one step; of a larger step the first samples count.
MOST_BYTES = 256 << 20
#: Bytes below which samples are read on the event loop.
READ_NOW = 1 << 18
MOST_TOKENS = 50
#: Choices of how often a token must be seen: a mean of one place is no mean.
LEAST = (1, 3, 10, 30, 100, 300, 1000)
#: Columns that lead to a place, from the largest on.
_AT = ("at", "second", "third")


class TokenRanking(Viewer):
    """A table of tokens by the chosen measure; a click leads to the place."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")
    picks = param.Integer(default=0, doc="How many tokens were clicked: who shows the sample may turn to it.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._reading = TallyProgress()
        self._partial = self._reading
        self._reader: TokenReader | None = None
        self._step: int | None = None
        self._sought: set[tuple[str, int]] = set()
        self._halted = False
        self._work: BackgroundTask[TallyProgress] = BackgroundTask(self._arrived)
        self._measure = pmui.Select(
            label="", options={}, size="small", width=250, margin=(0, 4), css_classes=["rl-measure"],
            sx=theme.FIELD_SX,
        )  # fmt: skip
        self._least = pmui.Select(
            label="", options={f"seen {n:,} times or more" if n > 1 else "seen at all": n for n in LEAST},
            value=3, size="small", width=170, margin=(0, 4), css_classes=["rl-least"], sx=theme.FIELD_SX,
        )  # fmt: skip
        self._stop = pmui.Button(
            label="stop", size="small", variant="text", visible=False, margin=0, align="center",
            on_click=self._stopped, css_classes=["rl-stop"],
        )  # fmt: skip
        self._note = pn.pane.HTML(
            "", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(2, 14, 4, 14),
            css_classes=["rl-ranking-note"],
        )  # fmt: skip
        self._picked = click_field(self._pick)
        self._table = _table()
        self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": _PICK})
        self._column = pn.Column(
            pn.Row(self._measure, self._least, self._stop, self._picked, margin=(10, 10, 0, 10)),
            self._note,
            self._table,
            sizing_mode="stretch_both",
            margin=0,
        )
        self._measure.param.watch(self._changed, "value")
        self._least.param.watch(self._changed, "value")
        watch_step(context, self._load)
        context.param.watch(self._load, ["index", "passing"])
        context.display.param.watch(self._load, ["kl_estimator", "max_samples", "pad_token"])
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _load(self, *_: Any) -> None:
        """Read the samples that were not read yet; all of them where some do not count any more."""
        context, display = self.context, self.context.display
        step = context.selection.step
        if not self.active or context.index is None or step is None:
            return
        reader = TokenReader(context.index, display.kl_estimator, display.pad_token)
        rows, samples = self._wanted(step)
        same = reader == self._reader and step == self._step
        if same and (self._halted or set(samples) == self._sought):
            return
        before = self._reading if same and self._reading.known.issubset(samples) else TallyProgress()
        if not same:  # what is shown says nothing of another step
            self._reading = TallyProgress()
            self._draw()
        self._reader, self._step, self._sought, self._halted = reader, step, set(samples), False
        new = rows[[sample not in before.known for sample in samples]]
        results = reader.read(context.snapshot, new, before)
        self._work.stop()
        if context.snapshot.place("length")[new].sum() <= READ_NOW:
            self._arrived(list(results)[-1])
        else:
            self._arrived(next(results))
            self._work.start(results)

    def _wanted(self, step: int) -> tuple[np.ndarray, list[tuple[str, int]]]:
        """Rows of the step that count, and which samples they are."""
        context = self.context
        rows = context.snapshot.sampled_rows(step, context.display.max_samples)
        if context.passing is not None:
            uids = context.snapshot.uids(rows)
            rows = rows[[uid in context.passing for uid in uids]]
        rows = rows[np.cumsum(context.snapshot.place("length")[rows]) <= MOST_BYTES]
        return rows, named(context.snapshot, rows)

    def _arrived(self, reading: TallyProgress) -> None:
        """Some of the work is done, or all of it; what stands in the table stays until all is."""
        self._partial = reading
        self._stop.visible = not reading.whole
        if reading.whole:
            self._take(reading)
        else:
            self._say(f"reading {reading.read:,} of {len(reading.samples):,} samples …")

    def _stopped(self, *_: Any) -> None:
        """The viewer has seen enough: what was read until now is shown."""
        self._work.stop()
        self._halted = True
        self._stop.visible = False
        self._take(self._partial)

    def _take(self, reading: TallyProgress) -> None:
        self._reading = reading
        options = {_label(name): name for name in reading.tally.measures}
        if options:
            chosen = self._measure.value
            value = chosen if chosen in options.values() else next(iter(options.values()))
            self._measure.param.update(options=options, value=value)
        self._draw()
        self._say(self._said())

    def _draw(self, *_: Any) -> None:
        frame = _frame(self._reading, self._measure.value, self._least.value)
        if not frame.equals(self._table.value):
            self._table.value = frame

    def _changed(self, *_: Any) -> None:
        """Another measure, or another bound."""
        self._draw()
        if not self._stop.visible:
            self._say(self._said())

    def _say(self, words: str) -> None:
        self._note.object = f'<span class="note">{safe_text(words)}</span>'

    def _said(self) -> str:
        step, reading, passing = self._step, self._reading, self.context.passing
        if not reading.tally.measures:
            return f"No tokens with logprobs or values are logged at step {step}."
        all_of = len(self.context.snapshot.rows_of(step)) if step is not None else 0
        words = f"step {step}: {reading.tally.tokens:,} tokens of {reading.read:,} samples"
        words += f", of {all_of:,}" if all_of > reading.read else ""
        words += ", those that pass the grid's search and filters" if passing is not None else ""
        words += "; stopped" if not reading.whole else ""
        return words if len(self._table.value) else f"{words}; none is seen that often"

    def _pick(self, event: Any) -> None:
        uid, _, at = event.new.rpartition("\n")[0].rpartition("\n")
        if uid:
            self.context.selection.param.update(uid=uid, token=int(at.lstrip("#")), follow=False)
            self.picks += 1


def _frame(reading: TallyProgress, measure: str | None, least: int) -> pd.DataFrame:
    """The table's rows, as texts."""
    tally = reading.tally
    known = measure is not None and measure in tally.measures
    found = tally.ranking(measure, least=least, most=MOST_TOKENS) if measure is not None and known else []
    return pd.DataFrame(
        {
            "token": [_shown(ranked.token, reading.encoding or "plain") for ranked in found],
            "count": [f"{ranked.seen:,}" for ranked in found],
            "mean": [number(ranked.mean) for ranked in found],
            "largest": [number(ranked.most) for ranked in found],
        }
        | dict(part for number in range(PLACES) for part in _places(found, number, reading)),
        dtype=str,
    )


def _places(
    found: Sequence[RankedToken], number: int, reading: TallyProgress
) -> Iterator[tuple[str, list[str]]]:
    """Token and uid of each ranked token's place of this number; empty where it has no so many."""
    places = [ranked.places[number] if number < len(ranked.places) else None for ranked in found]
    yield _AT[number], [f"#{place[1]}" if place else "" for place in places]
    yield f"uid_{_AT[number]}", [reading.samples[place[0]][0] if place else "" for place in places]


def _label(name: str) -> str:
    """The measure with its unit, and the estimator in its name."""
    if name == VALUE_ERROR:
        return "highest mean |value − return|"
    metric = column_info.get(name)
    return f"highest mean {metric.label} ({metric.unit})"


def _shown(token: str, encoding: Encoding) -> str:
    text = read_piece(token, encoding)
    return f"“{text}”".replace("\n", "↵").replace("\t", "⇥") if text else "∅ (empty piece)"


#: uid and token of the clicked place as the browser shows it, of the largest for a click on the rest of the
#: row; the tail makes a second click on it news.
_PICK = """
const {data} = cb_obj.origin.source
const row = cb_obj.row
const at = data[`uid_${cb_obj.column}`]?.[row] ? cb_obj.column : "at"
if (data[at] && row < data[at].length) {
  picked.value = `${data[`uid_${at}`][row]}\\n${data[at][row]}\\n${Date.now()}`
}
"""


def _table() -> ClickTable:
    hidden = [f"uid_{at}" for at in _AT]
    names = ("token", "count", "mean", "largest", *_AT, *hidden)
    return ClickTable(
        pd.DataFrame({name: pd.Series(dtype=str) for name in names}),
        show_index=False,
        disabled=True,
        selectable=False,
        sizing_mode="stretch_both",
        min_height=200,
        margin=0,
        layout="fit_columns",
        stylesheets=[read_assets("panels/ui/table.css")],
        css_classes=["rl-ranking"],
        hidden_columns=hidden,
        formatters={name: {"type": "plaintext"} for name in names},
        text_align=dict.fromkeys(names[1:7], "right"),
        header_align=dict.fromkeys(names[1:7], "right"),
        titles={"count": "seen", "at": "largest at", "second": "2nd at", "third": "3rd at"},
        row_height=27,
        sortable=False,
        configuration={"placeholder": ""},
    )
