"""Shares of parts, samples, ranks, categories and tokens in the change of a number between two windows.

A window is a step or some steps. Below the shares stands what else differs between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.change_causes import causes_between, other_sentences
from rlpanel.analysis.change_sentences import HALF, STANDS_OUT, sentences
from rlpanel.analysis.step_change import ChangePart, StepChange, explain_step
from rlpanel.analysis.step_windows import StepWindows, can_split, chosen_windows, range_filter
from rlpanel.analysis.token_change import TokenChange, explain_tokens, token_metric
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.number_text import number
from rlpanel.panels.explain.contrast_sides import marked_of, parse_range, range_text, ranges_of, steps_label
from rlpanel.panels.explain.link_rows import LinkRows, both, caption, link_row, note_pane, show_samples
from rlpanel.panels.inputs.input_fields import button, select_field, text_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.display_text import Encoding, detect, read_piece

#: Maximum number of rows of each kind.
MAX_ROWS = 8
#: Names of the kinds; a label's own name stands for itself.
_KINDS = {
    "part": marked("Parts of the reward"),
    "samples": marked("Few samples"),
    "sample": marked("Samples"),
    "group": marked("Groups"),
    "rank": marked("Ranks"),
    "token": marked("Tokens"),
    "position": marked("Positions in the response"),
}
#: The order of the kinds; labels come after the ranks.
_ORDER = ("part", "samples", "token", "position", "rank", "", "group", "sample")


class StepShares(Viewer):
    """Choice of the number and of the two windows, sentences, and rows of shares."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is computed before.")
    asked = param.Parameter(
        default=(), doc="The number, the steps to compare with, and the steps; empty: by the opened finding."
    )

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._change: StepChange | None = None
        self._tokens = TokenChange(0, 0)
        self._parts: dict[str, ChangePart] = {}
        self._work: BackgroundTask[TokenChange] = BackgroundTask(self._on_tokens, context.threads.views)
        self._updating = self._is_whole = False
        self._metric = select_field("explain-metric", tr("Metric"), 280)
        self._steps = text_field("explain-steps", tr("Steps"), width=110)
        self._since = text_field("explain-since", tr("Compared with steps"), width=110)
        self._others: BackgroundTask[list[str]] = BackgroundTask(self._on_others, context.threads.views)
        self._else: list[str] = []
        self._marked: MarkedSteps | None = None
        self._read = button(tr("Read tokens"), self._read_tokens, css_classes=["rl-explain-tokens"])
        self._summary = note_pane("rl-explain-summary")
        self._rows = LinkRows(self._pick, "rl-explain-shares")
        self._all = button(
            tr("Show all parts"), self._show_all, visible=False, css_classes=["rl-explain-all"]
        )
        windows = pn.Row(self._steps, caption(tr("against")), self._since, margin=0)
        self._column = pn.Column(
            pn.FlexBox(self._metric, windows, self._read, margin=(6, 10, 0, 10), gap="4px"),
            self._summary,
            self._rows,
            self._all,
            sizing_mode="stretch_width",
            margin=0,
        )
        self._metric.param.watch(self._on_choice, "value")
        for field in (self._steps, self._since):
            field.param.watch(self._on_choice, "value")
        watch_step(context, self._draw)
        context.param.watch(self._draw, "index")
        context.param.watch(self._on_marked, ["shaded_steps", "shaded_by_column"])
        self.param.watch(self._draw, ["active", "asked"])

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _on_choice(self, *_: Any) -> None:
        if not self._updating:
            asked = [self._metric.value or "", *((f.value or "").strip() for f in (self._since, self._steps))]
            self.asked = tuple(asked if asked[-1] else asked[:-1])

    def _on_marked(self, *_: Any) -> None:
        if marked_of(self.context) != self._marked:
            self._draw()

    def _draw(self, *_: Any) -> None:
        """Explain the chosen number in the chosen steps, by default the selected one."""
        context, step = self.context, self.context.selection.step
        self._work.stop()
        self._others.stop()
        self._else = []
        if not self.active:
            return
        self._tokens = TokenChange(0, 0)
        self._is_whole = False
        self._show_choice(context.view)
        self._change = None
        if context.index is None or step is None or self._metric.value is None:
            self._show(tr("This run has no numbers yet."))
            return
        try:
            windows = self._windows(step)
            self._change = explain_step(context.view, self._metric.value, *windows)
        except SettingError as error:
            self._show(f"{error}.")
            return
        self._show()
        self._others.start(_other_texts(context.index, context.view, self._change))

    def _windows(self, step: int) -> StepWindows:
        """Return the windows that are written in the fields, or stand for what is not written."""
        steps, since = (
            parse_range(text) if (text := (field.value or "").strip()) else None
            for field in (self._steps, self._since)
        )
        windows = chosen_windows(self.context.snapshot, steps or step, since)
        for field, bounds in zip((self._steps, self._since), windows, strict=True):
            field.placeholder = range_text(bounds)
        return windows

    def _on_others(self, texts: list[str]) -> None:
        self._else = texts
        self._show()

    def _show_choice(self, view: RunView) -> None:
        """Offer the numbers of the run that have shares; the finding's, else the reward, comes first."""
        options = {described(name).axis: name for name in metrics_with_shares(view)}
        found, (metric, since, steps) = marked_of(self.context), (*self.asked, "", "", "")[:3]
        self._marked = found
        ranges = ranges_of(found, view.snapshot) if found is not None else None
        if not self.asked and ranges is not None:
            steps, since = map(range_text, ranges)
        kl = f"{self.context.display.kl_estimator}_mean"
        wanted = (metric, found.column if found is not None else "", "reward", kl, *options.values())
        value = next((name for name in wanted if name in options.values()), None)
        self._updating = True
        if options != self._metric.options or value != self._metric.value:
            self._metric.param.update(options=options, value=value)
        self._steps.value, self._since.value = steps, since
        self._updating = False

    def _show_all(self, *_: Any) -> None:
        self._is_whole = True
        self._show()

    def _read_tokens(self, *_: Any) -> None:
        """Read the tokens of both windows in the background, or stop that."""
        context, change = self.context, self._change
        if self._tokens.total and not self._tokens.complete:
            self._work.stop()
            self._tokens = TokenChange(0, 0)
            self._show()
        elif context.index is not None and change is not None:
            self._work.start(
                explain_tokens(context.index, context.snapshot, change.column, change.steps, change.since)
            )

    def _on_tokens(self, tokens: TokenChange) -> None:
        self._tokens = tokens
        self._show()

    def _show(self, problem: str = "") -> None:
        """Show the sentences and rows, or a problem."""
        change, tokens = self._change, self._tokens
        reading = tokens.total > 0 and not tokens.complete
        has_tokens = change is not None and token_metric(change.column) is not None
        self._read.visible = has_tokens and not (tokens.total and tokens.complete)
        self._read.label = tr("Stop") if reading else tr("Read tokens")
        if change is None:
            self._summary.html = note_html(problem)
            self._rows.rows, self._all.visible = [], False
            return
        headline = _headline(change)
        texts = [f"{headline[:1].upper()}{headline[1:]}", *sentences(change), *self._else]
        said = self._marked.evidence if self._marked is not None else ()  # stands above already
        texts = [text for text in texts if text not in said]
        if reading:
            texts.append(
                tr(
                    "Reading the tokens of {read:,} of {total:,} samples …",
                    read=tokens.read,
                    total=tokens.total,
                )
            )
        elif tokens.total:
            texts += [_tokens_note(tokens, change)]
        self._summary.html = "".join(f"<p>{safe_text(text)}</p>" for text in texts)
        self._show_rows(change, [*change.parts, *tokens.parts])

    def _show_rows(self, change: StepChange, every: list[ChangePart]) -> None:
        """Show the parts that stand out, or all that there are."""
        parts = every if self._is_whole else [part for part in every if _stands_out(part, change)]
        self._all.visible = len(parts) < len(every)
        largest = max((abs(part.contribution) for part in parts), default=0.0)
        labels = [kind for kind in dict.fromkeys(part.kind for part in parts) if kind not in _KINDS]
        kinds = [kind for name in _ORDER for kind in ([name] if name else labels)]
        encoding = detect([part.name for part in parts if part.kind == "token"])
        rows: list[dict[str, Any]] = []
        self._parts = {}
        for kind in kinds:
            listed = [part for part in parts if part.kind == kind][:MAX_ROWS]
            if listed:
                rows.append({"heading": tr(_KINDS[kind]) if kind in _KINDS else kind})
            for part in listed:
                key = f"{kind}/{part.name}"
                self._parts[key] = part
                rows.append(_row(key, part, change, self._label(part, encoding), largest))
        titles = ["", tr("adds"), "", tr("value"), tr("before"), tr("count"), tr("without it")]
        self._rows.param.update(titles=titles if rows else [], rows=rows, chosen="")

    def _label(self, part: ChangePart, encoding: Encoding) -> str:
        """Return the text of a row; a sample's uid is long, so that its rank and line stand for it."""
        if part.kind == "token":
            return _token_label(part.name, encoding)
        if part.kind == "sample":
            snapshot = self.context.snapshot
            row = snapshot.row(part.name)
            line = f"line {int(snapshot.metadata('line')[row]):,}"
            return f"rank {int(snapshot.metadata('rank')[row])} · {line}" if snapshot.ranks > 1 else line
        return f"{part.name} samples" if part.kind == "samples" else part.name

    def _pick(self, key: str) -> None:
        """Show the samples of a share; a token opens the token view, coloured by the metric."""
        change, part = self._change, self._parts.get(key)
        if change is None or part is None:
            return
        first, last = change.steps
        if first == last:
            show_samples(self.context, part.where, part.uids, first)
        else:
            show_samples(self.context, both(range_filter(change.steps), part.where), part.uids)
        found = token_metric(change.column)
        if part.kind in ("token", "position") and found is not None:
            self.context.selection.metric = found[0]
            self.context.selection.param.update(page="samples", tab="tokens")


def _other_texts(index: RunIndex, view: RunView, change: StepChange) -> Iterator[list[str]]:
    """Yield nothing first, so that the page stays quick, and then what else differs."""
    yield []
    yield other_sentences(causes_between(index, view, change))


def metrics_with_shares(view: RunView) -> list[str]:
    """Return the number columns, and the step metrics that are means over samples or tokens."""
    columns = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    return [*columns, *(name for name in METRICS if name in view.step_metrics and can_split(METRICS[name]))]


def _headline(change: StepChange) -> str:
    column = described(change.column)
    unit = f" {tr(column.unit)}" if column.unit and column.unit != column.label else ""
    return tr(
        "{label} in {steps}: {value}{unit}, after {before} in {since} ({change}).",
        label=column.label,
        steps=steps_label(change.steps),
        value=number(change.value),
        unit=unit,
        before=number(change.before),
        since=steps_label(change.since),
        change=number(change.change, sign=True),
    )


def _tokens_note(tokens: TokenChange, change: StepChange) -> str:
    if not tokens.parts:
        return tr("The samples of these steps have no tokens with this number.")
    encoding = detect([part.name for part in tokens.parts if part.kind == "token"])
    first = tokens.parts[0]
    text = ""
    if first.share >= HALF and not change.is_noise:
        text = tr(
            "The token {token_label} carries {share:.0%} of the change. ",
            token_label=_token_label(first.name, encoding),
            share=first.share,
        )
    text += tr("Tokens of {samples:,} samples of both windows were read", samples=tokens.samples)
    return (
        tr("{text}, of {all_samples:,}.", text=text, all_samples=tokens.all_samples)
        if tokens.samples < tokens.all_samples
        else f"{text}."
    )


def _token_label(token: str, encoding: Encoding) -> str:
    return f"“{read_piece(token, encoding)}”" if token else tr("∅ (empty token)")


#: Share of the change from which on a part may stand out; many samples share the rest.
_NOTABLE = 0.1


def _stands_out(part: ChangePart, change: StepChange) -> bool:
    """Return True if a part has a notable share of the change, larger than its share of the samples."""
    if change.is_noise or abs(part.share) < _NOTABLE:
        return False
    if part.kind in ("part", "samples", "token", "position"):
        return True
    return abs(part.share) >= STANDS_OUT * part.count / max(change.samples, 1)


def _row(key: str, part: ChangePart, change: StepChange, label: str, largest: float) -> dict[str, Any]:
    numbers = [number(part.value), number(part.before), f"{part.count:,}", number(part.without)]
    tip = tr(
        "Adds {added} to the change of {change}: the parts of a kind add up to it. Click to see the samples.",
        added=number(part.contribution, sign=True),
        change=number(change.change, sign=True),
    )
    added = number(part.contribution, sign=True)
    bar = part.contribution / largest if largest else 0.0
    return link_row(key, label, added, bar, numbers, tip=tip, signed=True)
