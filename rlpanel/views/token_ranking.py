"""Across samples: the tokens of the step that stand out, each with where it does most."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.metrics import registry
from rlpanel.metrics.compute import token_values
from rlpanel.metrics.tally import TokenTally
from rlpanel.store.index import RunIndex
from rlpanel.store.run import fetch_record
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.background import Background
from rlpanel.views.context import Context
from rlpanel.views.theme import number, safe_text
from rlpanel.views.token_text import Encoding, detect, read_piece

#: Bytes of log that are read for one step; of a larger step the first samples count.
MOST_BYTES = 256 << 20
#: Bytes below which the step is read on the event loop.
READ_NOW = 1 << 18
MOST_TOKENS = 50
#: Choices of how often a token must be seen: a mean of one place is no mean.
LEAST = (1, 3, 10, 30, 100, 300, 1000)
#: Seconds between two words about the progress.
PULSE = 0.25

_VALUE_ERROR = "value_error"


class _Reading(NamedTuple):
    """How far it is; ``tally`` once all is read."""

    read: int
    tally: TokenTally | None = None
    encoding: Encoding = "plain"


class TokenRanking(Viewer):
    """A table of tokens by the chosen measure; a click leads to the place."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")
    picks = param.Integer(default=0, doc="How many tokens were clicked: who shows the sample may turn to it.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._rows = np.empty(0, int)
        self._reading = _Reading(0)
        self._snapshot = context.snapshot
        self._key: tuple[object, ...] | None = None
        self._work: Background[_Reading] = Background(self._arrived)
        self._measure = pmui.Select(
            label="", options={}, size="small", width=250, margin=(0, 4), css_classes=["rl-measure"],
            sx=theme.FIELD_SX,
        )  # fmt: skip
        self._least = pmui.Select(
            label="", options={f"seen {n:,} times or more" if n > 1 else "seen at all": n for n in LEAST},
            value=3, size="small", width=170, margin=(0, 4), css_classes=["rl-least"], sx=theme.FIELD_SX,
        )  # fmt: skip
        self._note = pn.pane.HTML(
            "", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(2, 14, 4, 14),
            css_classes=["rl-ranking-note"],
        )  # fmt: skip
        self._picked = pn.widgets.TextInput(visible=False)
        self._table = _table()
        self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": _PICK})
        self._column = pn.Column(
            pn.Row(self._measure, self._least, self._picked, margin=(10, 10, 0, 10)),
            self._note,
            self._table,
            sizing_mode="stretch_both",
            margin=0,
        )
        self._picked.param.watch(self._pick, "value")
        self._measure.param.watch(self._draw, "value")
        self._least.param.watch(self._draw, "value")
        context.selection.param.watch(self._load, "step")
        context.param.watch(self._load, "index")
        context.display.param.watch(self._load, ["kl_estimator", "max_samples", "pad_token"])
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _load(self, *_: Any) -> None:
        """Read the step's lines, unless they are what is shown."""
        context, display = self.context, self.context.display
        step, snapshot = context.selection.step, context.snapshot
        if not self.active or context.index is None or step is None:
            return
        rows = snapshot.sampled_rows(step, display.max_samples)
        sizes = np.cumsum(snapshot.place("length")[rows])
        rows = rows[sizes <= MOST_BYTES]
        key = (snapshot.name, step, len(rows), display.kl_estimator, display.pad_token)
        if key == self._key:
            return
        self._key, self._rows, self._snapshot = key, rows, snapshot
        results = _read(context.index, snapshot, rows, display.kl_estimator, display.pad_token)
        self._work.stop()
        if not len(rows) or sizes[len(rows) - 1] <= READ_NOW:
            self._arrived(list(results)[-1])
        else:
            self._arrived(_Reading(0))
            self._work.start(results)

    def _arrived(self, reading: _Reading) -> None:
        self._reading = reading
        if reading.tally is not None:
            options = {_label(name): name for name in reading.tally.measures}
            chosen = self._measure.value
            first = next(iter(options.values()), None)
            self._measure.param.update(options=options, value=chosen if chosen in options.values() else first)
        self._draw()

    def _draw(self, *_: Any) -> None:
        tally, name = self._reading.tally, self._measure.value
        found = (
            tally.ranking(name, least=self._least.value, most=MOST_TOKENS)
            if tally is not None and name in tally.measures
            else []
        )
        uids = self._snapshot.uids(self._rows) if found else []
        self._table.value = pd.DataFrame(
            {
                "token": [_shown(ranked.token, self._reading.encoding) for ranked in found],
                "count": [f"{ranked.seen:,}" for ranked in found],
                "mean": [number(ranked.mean) for ranked in found],
                "largest": [number(ranked.most) for ranked in found],
                "at": [f"#{ranked.at}" for ranked in found],
                "uid": [uids[ranked.sample] for ranked in found],
            },
            dtype=str,
        )
        self._note.object = f'<span class="note">{safe_text(self._said(len(found)))}</span>'

    def _said(self, shown: int) -> str:
        step, tally = self.context.selection.step, self._reading.tally
        if tally is None:
            return f"reading {self._reading.read:,} of {len(self._rows):,} samples …"
        if not tally.measures:
            return f"No tokens with logprobs or values are logged at step {step}."
        words = f"step {step}: {tally.tokens:,} tokens of {len(self._rows):,} samples"
        all_of = len(self._snapshot.rows_of(step)) if step is not None else 0
        words += f", of {all_of:,}" if all_of > len(self._rows) else ""
        return words if shown else f"{words}; none is seen that often"

    def _pick(self, event: Any) -> None:
        uid, _, at = event.new.rpartition("\n")[0].rpartition("\n")
        if uid:
            self.context.selection.param.update(uid=uid, token=int(at.lstrip("#")), follow=False)
            self.picks += 1


def _read(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, kl: str, pad_token: str
) -> Iterator[_Reading]:
    """Tally the rows, with a word about the progress now and then."""
    tally = TokenTally()
    encoding: Encoding | None = None
    told = time.monotonic()
    for number_, row in enumerate(rows.tolist()):
        try:
            record = fetch_record(index, snapshot, row)
        except (RLPanelError, IndexError):  # its file changed under us; the index follows in a moment
            continue
        tokens = record.tokens
        if not tokens:
            continue
        encoding = encoding or detect(tokens)
        keep = np.array([not pad_token or token != pad_token for token in tokens], bool)
        mask = record.arrays.get("loss_mask")
        if mask is not None and len(mask) == len(keep):
            keep &= mask != 0
        tally.add(number_, tokens, _measures(record.arrays, kl), keep)
        if time.monotonic() - told > PULSE:
            told = time.monotonic()
            yield _Reading(number_)
    yield _Reading(len(rows), tally, encoding or "plain")


def _measures(arrays: Mapping[str, np.ndarray], kl: str) -> dict[str, np.ndarray]:
    values = token_values(arrays)
    found = {name: values.get(name) for name in (kl, "surprisal")}
    value, returned = values.get("value"), values.get("token_return")
    if value is not None and returned is not None and len(value) == len(returned):
        found[_VALUE_ERROR] = np.abs(value - returned)
    return {name: array for name, array in found.items() if array is not None}


def _label(name: str) -> str:
    """The measure with its unit, and the estimator in its name."""
    if name == _VALUE_ERROR:
        return "highest mean |value − return|"
    metric = registry.get(name)
    return f"highest mean {metric.label} ({metric.unit})"


def _shown(token: str, encoding: Encoding) -> str:
    text = read_piece(token, encoding)
    return f"“{text}”".replace("\n", "↵").replace("\t", "⇥") if text else "∅ (empty piece)"


#: uid and token of the clicked row as the browser shows it; the tail makes a second click on it news.
_PICK = """
const {uid, at} = cb_obj.origin.source.data
const row = cb_obj.row
if (uid && row < uid.length) { picked.value = `${uid[row]}\\n${at[row]}\\n${Date.now()}` }
"""


def _table() -> pn.widgets.Tabulator:
    names = ("token", "count", "mean", "largest", "at", "uid")
    return pn.widgets.Tabulator(
        pd.DataFrame({name: pd.Series(dtype=str) for name in names}),
        show_index=False,
        disabled=True,
        selectable=False,
        sizing_mode="stretch_both",
        min_height=200,
        margin=0,
        layout="fit_columns",
        stylesheets=[theme.style("table")],
        css_classes=["rl-ranking"],
        hidden_columns=["uid"],
        formatters={name: {"type": "plaintext"} for name in names},
        text_align=dict.fromkeys(names[1:5], "right"),
        row_height=27,
        configuration={"columnDefaults": {"headerSort": False}, "placeholder": ""},
    )
