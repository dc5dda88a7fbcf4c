"""The page *Rollouts*: up to 64 responses of a step or group, one coloured line each, aligned by token.

A line has one cell per token in the colours of the run's scale, so that tokens that stand out are seen at a
glance. The browser draws the lines on a canvas (``rollouts.js``). It gets the values of one metric; the token
texts of a response are sent when the pointer reaches it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.board_url import SCALES
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.metrics.logged_arrays import array_names
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.metric_rows import KL_ESTIMATORS, logged_row
from rlpanel.panels.tokens.token_view import (
    SEPARATOR,
    list_declaration,
    metric_declarations,
    token_theme,
)
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record, sample_keys
from rlpanel.store.query.step_groups import groups_of
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.token_scales import ROW, token_scales
from rlpanel.texts.display_text import decode
from rlpanel.texts.shorten import plot_text

#: Responses on one page.
MAX_RESPONSES = 64
#: Maximum tokens of a response that are drawn; a longer line ends with a mark.
MAX_TOKENS = 16_384
#: Samples of up to this many bytes together are read on the event loop, more on a thread.
READ_NOW = 1 << 18
#: Seconds between two notes of progress.
PULSE = 0.25
#: Orders that are no column of samples: groups by their mean, and the grid's order of arrival.
BY_GROUP, BY_ARRIVAL = "group", "arrival"

_Key = tuple[str, int]  # uid, and hash of the line


@dataclass(frozen=True)
class TokenLine:
    """First tokens of one response, their metrics and other lists, and the number of all its tokens."""

    tokens: Sequence[str] = ()
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    response: str | None = None
    length: int = 0


def read_line(index: RunIndex, snapshot: Snapshot, row: int) -> TokenLine:
    """Read the tokens of a row; without any if its line cannot be read now."""
    try:
        record = fetch_record(index, snapshot, row)
    except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
        return TokenLine()
    tokens = record.tokens or ()
    arrays = {name: array[:MAX_TOKENS] for name, array in record.arrays.items()}
    values = token_values(arrays)
    lists = arrays.keys() & {*array_names(snapshot.numbers)}
    values |= {ROW + name: arrays[name] for name in sorted(lists)}
    length = max([len(tokens), *map(len, record.arrays.values())])
    return TokenLine(tokens[:MAX_TOKENS], values, record.texts.get("response"), length)


def _read_lines(
    index: RunIndex, snapshot: Snapshot, rows: Mapping[_Key, int], lines: dict[_Key, TokenLine]
) -> Iterator[int]:
    """Read rows into ``lines``; yield how many are left, now and then and at the end."""
    last = time.monotonic()
    for done, (key, row) in enumerate(rows.items(), start=1):
        lines[key] = read_line(index, snapshot, row)
        if time.monotonic() - last > PULSE and done < len(rows):
            last = time.monotonic()
            yield len(rows) - done
    yield 0


@dataclass(frozen=True)
class Page:
    """The rows of one page in order, and the number of rows of all pages.

    Attributes
    ----------
    rows : ndarray of int
    group : ndarray of int
        Number of each row's group, -1 without one.
    total : int
    first : int
        Position of the first row among all.
    """

    rows: np.ndarray
    group: np.ndarray
    total: int
    first: int


def _list_declaration(name: str, lines: Sequence[TokenLine]) -> dict[str, Any]:
    """Return the declaration of an undeclared list, with the same categories for all lines."""
    values = np.concatenate([line.values[name] for line in lines if name in line.values])
    row = logged_row(name.removeprefix(ROW), values, None)
    return list_declaration(row) | {"logged": True}


class RolloutLines(Component):
    """Drawn by ``rollouts.js``.

    It sends ``{"want": "texts", "row": position}`` and ``{"want": "open", "row": position, "token": index}``.
    """

    data = param.Dict(default={}, doc="The lines of a page, see `RolloutsPage._pack`.")
    metric = param.String(default="log_ratio", doc="Requested metric; it may be missing.")
    chosen = param.List(default=["", -1], doc="Uid of the shown sample and its pinned token.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    metrics = param.Dict(default={}, doc="Declarations of all token metrics, logged or not.")
    scale = param.Selector(default="run", objects=list(SCALES), doc="What the colour scale is taken from.")
    scales = param.Dict(default={}, doc="Ends of the scales by kind and metric.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/tokens/payload.js",
        "panels/tokens/color_scale.js",
        "panels/tokens/heatmap_strip.js",
        "panels/tokens/tooltip.js",
        "panels/tokens/toolbar.js",
        "panels/rollouts/rollouts.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        token_theme(),
        read_assets("panels/tokens/token_view.css", "panels/rollouts/rollouts.css"),
    ]


class RolloutsPage(Viewer):
    """Lines of tokens of a step's responses; a click opens the sample at the token."""

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read or sent before.")
    picks = param.Integer(default=0, doc="Number of tokens that were opened.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context, selection = context, context.selection
        self._lines: dict[_Key, TokenLine] = {}
        self._page = Page(np.empty(0, int), np.empty(0, int), 0, 0)
        self._keys: list[_Key] = []
        self._number = 0
        self._place: tuple[object, ...] = ()
        self._work: BackgroundTask[int] = BackgroundTask(self._on_read, context.threads.views)
        self._order = select_field("rollouts-order", tr("Order"), 200)
        self._within = select_field("rollouts-within", tr("Responses of"), 140)
        self._within.param.update(
            options={tr("the step"): "step", tr("the sample's group"): "group"}, value="step"
        )
        self._turn = button(
            "▼", self._on_turn, css_classes=["rl-rollouts-turn"], description=tr("Turn the order")
        )
        self._before = button("‹", lambda *_: self._go(-1), description=tr("Previous responses"))
        self._after = button("›", lambda *_: self._go(1), description=tr("Next responses"))
        self._falls, self._offering = True, False
        self._wish: str | None = None  # the order that the viewer chose
        self.view = RolloutLines(
            metric=selection.metric,
            dark=selection.dark,
            scale=selection.scale,
            metrics=metric_declarations(),
            sizing_mode="stretch_both",
            margin=(4, 14, 8, 14),
            css_classes=["rl-rollouts"],
        )
        self.view.on_message(self._on_message)
        self._column = pn.Column(
            FieldRow(
                self._within, self._order, self._turn, self._before, self._after, margin=(10, 10, 0, 10)
            ),
            self.view,
            sizing_mode="stretch_both",
            margin=0,
        )
        self.view.param.watch(lambda event: setattr(selection, event.name, event.new), ["metric", "scale"])
        selection.param.watch(self._restyle, ["metric", "scale", "dark"])
        selection.param.watch(self._mark, ["uid", "token"])
        self._order.param.watch(self._on_order, "value")
        self._within.param.watch(self._restart, "value")
        context.display.param.watch(self._draw, "kl_estimator")
        watch_step(context, self._load)
        context.param.watch(self._load, ["index", "filtered_uids"])
        context.param.watch(self._mark, "sample")
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choice of rows --------------------------------------------------------------------------

    def _restart(self, *_: Any) -> None:
        self._number = 0
        self._load()

    def _on_order(self, event: Any) -> None:
        if not self._offering:
            self._wish = event.new
            self._restart()

    def _on_turn(self, *_: Any) -> None:
        self._falls = not self._falls
        self._turn.name = "▼" if self._falls else "▲"
        self._restart()

    def _go(self, by: int) -> None:
        self._number += by
        self._load()

    def _offer_orders(self) -> None:
        """Offer the number columns of the run, the mean of the metric first."""
        view, metric = self.context.view, self.context.selection.metric
        first = ["reward", f"{metric}_mean", "tokens", "response_length", "response_chars", "advantage"]
        names = [name for name in [*first, *view.number_names] if name in {*view.number_names}]
        options = {tr("group mean, then reward"): BY_GROUP} if view.grouped else {}
        options |= {described(name).axis: name for name in dict.fromkeys(names) if view.has(name)}
        options |= {tr("order of arrival"): BY_ARRIVAL}
        if options != self._order.options:
            kept = self._wish if self._wish in options.values() else next(iter(options.values()))
            self._offering = True
            self._order.param.update(options=options, value=kept)
            self._offering = False

    def _choose(self, step: int) -> Page:
        """Return the rows of the page that is shown."""
        context, view = self.context, self.context.view
        rows = context.snapshot.rows_of(step)
        if context.filtered_uids is not None:
            rows = rows[[uid in context.filtered_uids for uid in context.snapshot.uids(rows)]]
        groups = groups_of(view, step)
        group, means = np.full(len(rows), -1), np.full(len(rows), np.nan)
        for position, members in enumerate(groups.members if groups is not None else ()):
            inside = np.isin(rows, members)
            group[inside] = position
            if groups is not None and "group_mean" in groups.values:
                means[inside] = groups.values["group_mean"][position]
        if self._within.value == "group" and context.sample is not None:
            own = group[context.snapshot.uids(rows) == np.array(context.sample.uid)]
            keep = group == own[0] if len(own) and own[0] >= 0 else np.zeros(len(rows), bool)
            rows, group, means = rows[keep], group[keep], means[keep]
        keys: list[np.ndarray] = [np.arange(len(rows))]
        if self._order.value not in (None, BY_ARRIVAL):
            column = "reward" if self._order.value == BY_GROUP else self._order.value
            values = view.values(column, rows) if view.has(column) else np.zeros(len(rows))
            keys.append(-values if self._falls else values)
        if self._order.value == BY_GROUP:
            keys += [group, -means if self._falls else means]
        order = np.lexsort(keys)
        pages = max(1, -(-len(rows) // MAX_RESPONSES))
        self._number = min(max(self._number, 0), pages - 1)
        first = self._number * MAX_RESPONSES
        some = order[first : first + MAX_RESPONSES]
        return Page(rows[some], group[some], len(rows), first)

    # -- reading ---------------------------------------------------------------------------------

    def _load(self, *_: Any) -> None:
        """Read the responses of the page that were not read yet, then draw."""
        context, step = self.context, self.context.selection.step
        if not self.active or context.index is None or step is None:
            return
        place = context.index, step
        if place != self._place:
            self._place, self._number = place, 0
        self._offer_orders()
        self._page = self._choose(step)
        self._keys = sample_keys(context.snapshot, self._page.rows)
        self._lines = {key: self._lines[key] for key in self._keys if key in self._lines}
        new = [position for position, key in enumerate(self._keys) if key not in self._lines]
        rows = dict(zip([self._keys[at] for at in new], self._page.rows[new].tolist(), strict=True))
        results = _read_lines(context.index, context.snapshot, rows, self._lines)
        self._work.stop()
        if context.snapshot.metadata("length")[self._page.rows[new]].sum() <= READ_NOW:
            self._on_read(list(results)[-1])
        else:
            self._work.start(results)

    def _on_read(self, left: int) -> None:
        if left:
            words = tr("Reading {left:,} more responses …", left=left)
            self.view.data = {**self.view.data, "words": words}
            return
        self._draw()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        page, step = self._page, self.context.selection.step
        self._before.disabled = page.first == 0
        self._after.disabled = page.first + MAX_RESPONSES >= page.total
        with pn.io.hold():
            scales = {
                "run": token_scales(self.context.snapshot),
                "step": token_scales(self.context.snapshot, step),
            }
            self.view.param.update(data=self._pack(), scales=scales, **self._style(), chosen=self._chosen())

    def _restyle(self, *events: Any) -> None:
        if not self.active:
            return
        if {event.name for event in events} & {"metric"}:
            self._draw()
        else:
            self.view.param.update(**self._style())

    def _style(self) -> dict[str, Any]:
        selection = self.context.selection
        return {name: getattr(selection, name) for name in ("metric", "scale", "dark")}

    def _chosen(self) -> list[Any]:
        sample, token = self.context.sample, self.context.selection.token
        return [sample.uid if sample is not None else "", token]

    def _mark(self, *_: Any) -> None:
        if not self.active:
            return
        self.view.chosen = self._chosen()
        step = self.context.selection.step
        if self._within.value == "group" and step is not None:
            before, self._page = self._page, self._choose(step)
            if not np.array_equal(before.rows, self._page.rows):
                self._load()

    def _pack(self) -> dict[str, Any]:
        """Return the lines as JSON: numbers of each row, and the values of the metric as bytes."""
        context = self.context
        lines = [self._lines.get(key, TokenLine()) for key in self._keys]
        hidden = {*KL_ESTIMATORS} - {context.display.kl_estimator, "log_ratio"}
        logged = [
            name
            for name in metric_declarations()
            if name not in hidden and any(name in line.values for line in lines)
        ]
        lists = sorted({name for line in lines for name in line.values if name.startswith(ROW)})
        logged += lists
        wanted = context.selection.metric
        metric = wanted if wanted in logged else next(iter(logged), "")
        values = [line.values.get(metric, np.empty(0)) for line in lines]
        return {
            "words": self._words(lines, logged),
            "logged": logged,
            "lists": {name: _list_declaration(name, lines) for name in lists},
            "metric": metric,
            "values": np.concatenate([*values, np.empty(0)]).astype("<f4").tobytes(),
            "sizes": [len(each) for each in values],
            "rows": self._row_texts(lines),
            "column": self._column_label(),
            "grouped": self._order.value == BY_GROUP,
            "note": self._note(),
        }

    @property
    def _number_column(self) -> str:
        """The column whose number stands before each line."""
        order = self._order.value
        return "reward" if order in (None, BY_GROUP, BY_ARRIVAL) else str(order)

    def _column_label(self) -> str:
        return described(self._number_column).label

    def _row_texts(self, lines: Sequence[TokenLine]) -> list[dict[str, Any]]:
        """Return uid, group with its label, number as value and text, and tokens of each row."""
        context, page = self.context, self._page
        column = self._number_column
        has = context.view.has(column)
        numbers = context.view.values(column, page.rows) if has else np.full(len(page.rows), np.nan)
        names = context.snapshot.label("group", page.rows) if "group" in context.snapshot.labels else None
        return [
            {
                "uid": uid,
                "group": int(group),
                "label": plot_text(str(names[at] or "")) if names is not None else "",
                "value": float(value) if np.isfinite(value) else None,
                "text": number(float(value)) if np.isfinite(value) else "—",
                "tokens": line.length,
            }
            for at, ((uid, _), group, value, line) in enumerate(
                zip(self._keys, page.group, numbers, lines, strict=True)
            )
        ]

    def _words(self, lines: Sequence[TokenLine], logged: Sequence[str]) -> str:
        """Return why no line is shown; empty if there are some."""
        if not lines:
            return tr("No response of this step matches the grid's search and filters.")
        if logged:
            return ""
        return tr(
            "These responses have no token values. Log response_tokens with logprobs (ref_logprobs, values, "
            "advantages, …) for each sample to see a line of coloured tokens here."
        )

    def _note(self) -> str:
        """Return which responses are shown, and of how many."""
        page, step = self._page, self.context.selection.step
        last = page.first + len(page.rows)
        text = tr(
            "responses {first:,}–{last:,} of {total:,} of step {step}",
            first=min(page.first + 1, last), last=last, total=page.total, step=step,
        )  # fmt: skip
        passing = self.context.filtered_uids is not None
        return text + (tr(" that match the grid's search and filters") if passing else "")

    # -- messages --------------------------------------------------------------------------------

    def _on_message(self, asked: Any) -> None:
        """Send the token texts of a row, or open it; a browser may ask for anything."""
        try:
            key = self._keys[int(asked["row"])]
            if asked["want"] == "texts":
                self.view.send({"uid": key[0], "texts": self._texts(self._lines[key])})
            elif asked["want"] == "open":
                token = int(asked["token"])
                self.context.selection.param.update(uid=key[0], token=token, follow=False)
                self.picks += 1
        except (LookupError, ValueError, TypeError):
            return

    def _texts(self, line: TokenLine) -> bytes:
        texts = decode(line.tokens, self.context.display.pad_token, line.response, None).texts
        return b"".join(text.encode("utf-8", "replace") + SEPARATOR for text in texts)
