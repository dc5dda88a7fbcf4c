"""Token ranking: table of a step's tokens by their mean KL, surprisal or value error.

Only samples that match the grid's search and filters are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.board_url import MIN_COUNTS
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.token_tally import TOP_POSITIONS, RankedToken
from rlpanel.number_text import number
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import DataColumn, DataTable, cells_of
from rlpanel.panels.tokens.metric_rows import scale_color
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.fetch_sample import (
    VALUE_ERROR,
    TallyProgress,
    TokenReader,
    sample_keys,
    within_limit,
)
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.store.snapshot.token_scales import token_scales
from rlpanel.texts.display_text import Encoding, detect, read_piece

#: Samples of up to this many bytes are read on the event loop, more on a thread.
READ_NOW = 1 << 18
MAX_TOKENS = 50
#: Columns with the positions of the largest values, in descending order.
_POSITIONS = ("at", "second", "third")
#: Widths in pixels: all columns stand in half of a laptop's screen. Those of positions are the usual one.
_WIDTHS = {"count": 64, "mean": 84, "largest": 84}
_TITLES = {"largest": "max", "at": marked("max at"), "second": marked("2nd at"), "third": marked("3rd at")}


#: Columns whose numbers have the colours of the token view, on the scale of the run.
_COLORED = ("mean", "largest")


def has_token_metrics(snapshot: Snapshot) -> bool:
    """Return whether a run logs token arrays, from which tokens can be ranked."""
    return not column_info.reduced_columns().isdisjoint(snapshot.steps.columns)


class TokenRanking(Viewer):
    """Table of tokens ranked by the chosen measure; a click opens one, in the measure's colours."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")
    picks = param.Integer(
        default=0, doc="Number of clicks on a token; the sample panel watches it to open the token view."
    )

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._shown = TallyProgress()
        self._partial = self._shown
        self._reader: TokenReader | None = None
        self._step: int | None = None
        self._wanted: set[tuple[str, int]] = set()
        self._stopped = False
        self._work: BackgroundTask[TallyProgress] = BackgroundTask(self._on_progress, context.threads.views)
        self._measure = select_field("measure", tr("Measure"), 250)
        self._least = select_field(
            "least",
            tr("Minimum count"),
            170,
            options={_count_label(count): count for count in MIN_COUNTS},
            value=context.selection.ranked_least,
        )
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-stop"])
        self._note = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(2, 14, 4, 14),
            css_classes=["rl-ranking-note"],
        )  # fmt: skip
        self.table = DataTable(
            [
                DataColumn("token", "token"),
                *(
                    DataColumn(
                        each,
                        tr(_TITLES.get(each, each)),
                        width=_WIDTHS.get(each, 66),
                        align="right",
                        swatch=each in _COLORED,
                    )
                    for each in ("count", "mean", "largest", *_POSITIONS)
                ),
            ],
            key="key",
            pick=self._pick,
            cells=self._cells,
            sortable=False,
            sizing_mode="stretch_both",
            min_height=200,
            margin=0,
            css_classes=["rl-ranking"],
        )
        self._column = pn.Column(
            FieldRow(self._measure, self._least, self._stop, margin=(10, 10, 0, 10)),
            self._note,
            self.table,
            sizing_mode="stretch_both",
            margin=0,
        )
        self._listing = False
        self._measure.param.watch(self._on_choice, "value")
        self._least.param.watch(self._on_choice, "value")
        context.selection.param.watch(self._choose, ["ranked_by", "ranked_least"])
        watch_step(context, self._load)
        context.param.watch(self._load, ["index", "filtered_uids"])
        context.display.param.watch(self._load, ["kl_estimator", "max_samples", "pad_token"])
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _load(self, *_: Any) -> None:
        """Read the samples that were not read yet, or all again if some are no longer wanted."""
        context, display = self.context, self.context.display
        step = context.selection.step
        if not self.active or context.index is None or step is None:
            return
        reader = TokenReader(context.index, display.kl_estimator, display.pad_token)
        rows, samples = self._wanted_samples(step)
        same = reader == self._reader and step == self._step
        if same and (self._stopped or set(samples) == self._wanted):
            return
        before = self._shown if same and self._shown.samples_read.issubset(samples) else TallyProgress()
        if not same:  # the table holds tokens of another step
            self._shown = TallyProgress()
            self._draw()
        self._reader, self._step, self._wanted, self._stopped = reader, step, set(samples), False
        new = rows[[sample not in before.samples_read for sample in samples]]
        results = reader.read(context.snapshot, new, before)
        self._work.stop()
        if context.snapshot.metadata("length")[new].sum() <= READ_NOW:
            self._on_progress(list(results)[-1])
        else:
            self._on_progress(next(results))
            self._work.start(results)

    def _wanted_samples(self, step: int) -> tuple[np.ndarray, list[tuple[str, int]]]:
        """Return the rows of the step to count, and the keys of their samples."""
        context = self.context
        rows = context.snapshot.sampled_rows(step, context.display.max_samples)
        if context.filtered_uids is not None:
            uids = context.snapshot.uids(rows)
            rows = rows[[uid in context.filtered_uids for uid in uids]]
        rows = within_limit(context.snapshot, rows)
        return rows, sample_keys(context.snapshot, rows)

    def _on_progress(self, progress: TallyProgress) -> None:
        """Show the progress; the table is updated only when all samples were read."""
        self._partial = progress
        self._stop.visible = not progress.complete
        if progress.complete:
            self._show(progress)
        else:
            self._show_note(
                tr(
                    "Reading {read:,} of {samples:,} samples …",
                    read=progress.read,
                    samples=len(progress.samples),
                )
            )

    def _on_stop(self, *_: Any) -> None:
        """Stop reading and show the tokens read so far."""
        self._work.stop()
        self._stopped = True
        self._stop.visible = False
        self._show(self._partial)

    def _show(self, progress: TallyProgress) -> None:
        self._shown = progress
        options = {_label(name): name for name in progress.tally.measures}
        if options:
            self._listing = True
            self._measure.param.update(options=options, value=self._chosen(options))
            self._listing = False
        self._draw()
        self._show_note(self._summary())

    def _draw(self, *_: Any) -> None:
        measure, snapshot = self._measure.value, self.context.snapshot
        scales = cached_on(snapshot, "token scales", None, partial(token_scales, snapshot))
        frame = _frame(self._shown, measure, self._least.value, scales.get(measure or ""))
        if not frame.equals(self.table.frame):
            self.table.draw(frame)

    @staticmethod
    def _cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
        if name not in _COLORED or page.empty:
            return cells_of(page, name)
        return [f"{color}\t{text}" for color, text in zip(page[f"{name}_color"], page[name], strict=True)]

    def _chosen(self, options: dict[str, str]) -> str:
        """Return the measure of the address if the step has it, else the first one."""
        wanted, names = self.context.selection.ranked_by, list(options.values())
        return wanted if wanted in names else names[0]

    def _choose(self, *_: Any) -> None:
        """Choose what the address names."""
        self._least.value = self.context.selection.ranked_least
        if self._measure.options:
            self._measure.value = self._chosen(self._measure.options)

    def _on_choice(self, *_: Any) -> None:
        """Draw the table for the chosen measure and minimum count, and let the address name them."""
        if not self._listing:
            first = next(iter(self._measure.options.values()), "")
            by = "" if self._measure.value in (first, None) else self._measure.value
            self.context.selection.param.update(ranked_by=by, ranked_least=self._least.value)
        self._draw()
        if not self._stop.visible:
            self._show_note(self._summary())

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'

    def _summary(self) -> str:
        """Describe the samples that were counted."""
        step, progress, passing = self._step, self._shown, self.context.filtered_uids
        if not progress.tally.measures:
            return tr(
                "No tokens with logprobs or values are logged at step {step}: "
                "log response_tokens with logprobs or values.",
                step=step,
            )
        total = len(self.context.snapshot.rows_of(step)) if step is not None else 0
        text = tr(
            "Step {step}: {tokens:,} tokens in {read:,}",
            step=step,
            tokens=progress.tally.tokens,
            read=progress.read,
        )
        text += tr(" of {total:,} samples", total=total) if total > progress.read else tr(" samples")
        text += tr(" that match the grid's search and filters") if passing is not None else ""
        text += tr("; stopped") if not progress.complete else ""
        return text if len(self.table.frame) else tr("{text}; no token is seen that often", text=text)

    def _pick(self, key: str, name: str) -> None:
        """Select the clicked sample and token; a click on another column selects the largest value."""
        frame = self.table.frame
        row = frame[frame["key"] == key]
        if row.empty:
            return
        position = name if name in _POSITIONS and row[name].item() else _POSITIONS[0]
        if row[position].item():
            uid, token = row[f"uid_{position}"].item(), int(row[position].item().lstrip("#"))
            measure = "value" if self._measure.value == VALUE_ERROR else self._measure.value
            self.context.selection.param.update(uid=uid, token=token, metric=measure, follow=False)
            self.picks += 1


def _frame(
    progress: TallyProgress, measure: str | None, least: int, ends: tuple[float, float] | None
) -> pd.DataFrame:
    """Return the rows of the table as texts; numbers have colours if the measure has a scale."""
    tally, encoding = progress.tally, detect(progress.first_tokens)
    available = measure is not None and measure in tally.measures
    ranking = (
        tally.ranking(measure, least=least, most=MAX_TOKENS) if measure is not None and available else []
    )
    return pd.DataFrame(
        {
            "key": [str(at) for at in range(len(ranking))],
            "token": [_token_text(ranked.token, encoding) for ranked in ranking],
            "count": [f"{ranked.seen:,}" for ranked in ranking],
            "mean": [number(ranked.mean) for ranked in ranking],
            "mean_color": [_color(measure, ranked.mean, ends) for ranked in ranking],
            "largest": [number(ranked.most) for ranked in ranking],
            "largest_color": [_color(measure, ranked.most, ends) for ranked in ranking],
        }
        | dict(
            column for rank in range(TOP_POSITIONS) for column in _position_columns(ranking, rank, progress)
        ),
        dtype=str,
    )


def _color(measure: str | None, value: float, ends: tuple[float, float] | None) -> str:
    return "" if measure is None or ends is None else scale_color(measure, value, ends)


def _position_columns(
    ranking: Sequence[RankedToken], rank: int, progress: TallyProgress
) -> Iterator[tuple[str, list[str]]]:
    """Yield token index and uid of each token's ``rank``-th largest value; empty if it has fewer values."""
    positions = [ranked.places[rank] if rank < len(ranked.places) else None for ranked in ranking]
    yield _POSITIONS[rank], [f"#{position[1]}" if position else "" for position in positions]
    yield (
        f"uid_{_POSITIONS[rank]}",
        [progress.samples[position[0]][0] if position else "" for position in positions],
    )


def _count_label(count: int) -> str:
    return tr("Seen at least {count:,} times", count=count) if count > 1 else tr("Seen at least once")


def _label(name: str) -> str:
    """Return the label of a measure with its unit; for KL it names the estimator."""
    if name == VALUE_ERROR:
        return tr("Highest mean |value − return|")
    metric = described(name)
    return tr("Highest mean {label} ({unit})", label=metric.label, unit=tr(metric.unit))


def _token_text(token: str, encoding: Encoding) -> str:
    """Return the quoted text of a token, with marks for line breaks and tabs."""
    text = read_piece(token, encoding)
    return f"“{text}”".replace("\n", "↵").replace("\t", "⇥") if text else tr("∅ (empty token)")
