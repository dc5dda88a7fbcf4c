"""Page *Drift* of the run: the cause of the gap between trainer and engine, its places, and corrections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.drift.corrections import RunCorrection, own_corrections
from rlpanel.drift.expert_load import load_levels
from rlpanel.drift.gap_cause_kinds import CAUSES, Verdict
from rlpanel.drift.gap_causes import verdict
from rlpanel.drift.gap_levels import DIMENSIONS, Level, carried, gap_levels
from rlpanel.drift.gap_tokens import MAX_SAMPLES, GapTokens, chosen_rows, read_gap_tokens
from rlpanel.number_text import number
from rlpanel.panels.drift.correction_view import CorrectionView
from rlpanel.panels.explain.link_rows import LinkRows, link_row, show_samples
from rlpanel.panels.inputs.input_fields import TabBar, button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.snapshot import Snapshot

#: Factor by which the number of samples has grown if what was read is no longer that of the run.
_GROWN = 4.0
_CSS = """
h3 { margin: 0 0 6px; font: 600 17px/1.35 var(--rl-font); color: var(--rl-text); }
p { margin: 0 0 6px; max-width: 90ch; color: var(--rl-text); font-size: 13px; overflow-wrap: anywhere; }
p.note { color: var(--rl-muted); font-size: 12px; }
h4 { margin: 14px 0 2px; font: 600 13px var(--rl-font); color: var(--rl-text); }
"""


@dataclass(frozen=True)
class _Found:
    """Results for the tokens that were read; before that, the number of samples read so far."""

    read: int
    tokens: GapTokens | None = None
    verdict: Verdict | None = None
    levels: tuple[Level, ...] = ()
    own: tuple[RunCorrection, ...] = ()


class DriftPage(Viewer):
    """Verdict, shares of the causes, levels by one dimension, and what corrections do.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found = _Found(0)
        self._read_of, self._read_steps, self._read_whole = ("", ""), np.empty(0, int), False
        self._dimension = ""
        self._work: BackgroundTask[_Found] = BackgroundTask(self._show, context.threads.views)
        self.head = self._text("rl-drift-head", (14, 16, 4, 16))
        self._again = button(tr("Read again"), self._restart, visible=False, css_classes=["rl-drift-again"])
        self.causes = LinkRows(self._open_cause, "rl-drift-causes")
        self.bar = TabBar(
            css_classes=["rl-drift-bar"], label=tr("Dimensions of the gap"), margin=(6, 8, 0, 8)
        )
        self.bar.on_message(self._choose)
        self.levels = LinkRows(self._open_level, "rl-drift-levels")
        self.corrections = CorrectionView(
            self._text("rl-drift-words", (0, 16)), self._text("rl-drift-what", (0, 16))
        )
        self._experts = self._text("rl-drift-experts-words", (0, 16))
        self.experts = LinkRows(lambda key: None, "rl-drift-experts")
        self._parts = [self.causes, self.bar, self.levels, *self.corrections.parts]
        self._expert_parts = [self._experts, self.experts]
        self._column = pn.Column(
            self.head,
            self._again,
            *self._parts,
            *self._expert_parts,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-drift"],
        )
        context.param.watch(self._on_view, "view")
        self.param.watch(self._draw, "active")
        self._show_parts(False)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    @staticmethod
    def _text(name: str, margin: tuple[int, ...]) -> Html:
        return Html(
            stylesheets=[theme.CSS, _CSS], sizing_mode="stretch_width", margin=margin, css_classes=[name]
        )

    def _show_parts(self, shown: bool) -> None:
        for part in self._parts:
            part.visible = shown
        for part in self._expert_parts:
            part.visible = shown and bool(self._found.tokens and self._found.tokens.experts.layers)

    # -- reading ---------------------------------------------------------------------------------

    def _on_view(self, event: Any) -> None:
        """Read another run, and one that was opened meanwhile; offer to read again when it has new steps."""
        new, old = event.new.snapshot, event.old.snapshot
        if new.name != old.name or new.split != old.split or self._read_of != (new.name, new.split):
            self._draw()
        elif self.active and self._found.tokens is not None:
            total = self._found.tokens.total
            # A small run is soon another one, and of a large one most files may not have been read. Else a
            # live run is read again on demand: its samples cost more than its new lines.
            is_early = total < MAX_SAMPLES or not self._read_whole
            if is_early and new.samples >= _GROWN * max(total, 1):
                self._restart()
            else:
                self._again.visible = not np.array_equal(new.steps.values, self._read_steps)

    def _draw(self, *_: Any) -> None:
        snapshot = self.context.snapshot
        is_known = self._read_of == (snapshot.name, snapshot.split)
        if self.active and not is_known:
            self._restart()
        elif not self.active and self._found.tokens is None:
            self._work.stop()
            self._read_of = "", ""

    def _restart(self, *_: Any) -> None:
        context, snapshot = self.context, self.context.snapshot
        if context.index is None or not snapshot.samples:
            self._say(tr("No samples yet"))
            return
        self._read_of, self._read_steps = (snapshot.name, snapshot.split), snapshot.steps.values
        self._read_whole = snapshot.progress.caught_up
        self._again.visible, self._found = False, _Found(0)
        self._work.start(_compute(context.index, snapshot))

    def _say(self, text: str) -> None:
        self.head.html = f"<p>{safe_text(text)}</p>"

    def _show(self, found: _Found) -> None:
        if found.tokens is None or found.verdict is None:
            self._say(tr("Reading samples: {read:,} …", read=found.read))
            return
        tokens, result = found.tokens, found.verdict
        trained = tokens.only(tokens.trained)
        self._found = found
        self._show_parts(bool(len(trained.trainer)))
        self._show_head(tokens, trained, result)
        self.causes.param.update(
            titles=["", tr("explains"), tr("causes that fit"), tr("nats")],
            rows=[
                link_row(
                    each.key,
                    f"{tr(each.title)}: {each.sentence}",
                    f"{each.share:.0%}",
                    each.share,
                    [number(each.share * result.size)],
                    tip=each.sentence,
                )
                for each in result.causes
            ],
        )
        names = list(dict.fromkeys(level.dimension for level in found.levels))
        shown = CAUSES[result.cause].dimension if result.cause else ""
        wanted = (self._dimension, shown, "step", *names)
        self._dimension = next((name for name in wanted if name in names), "")
        self.bar.tabs = [{"key": name, "title": _title(name)} for name in names]
        self._show_levels()
        if len(trained.trainer):
            self.corrections.show(trained, found.own)
        self._show_experts(tokens)

    def _show_head(self, tokens: GapTokens, trained: GapTokens, result: Verdict) -> None:
        title = tr(CAUSES[result.cause].title) if result.cause else ""
        parts = [f"<h3>{safe_text(title[:1].upper() + title[1:])}</h3>"] if title else []
        parts += [f"<p>{safe_text(result.sentence)}</p>", f"<p>{safe_text(result.advice)}</p>"]
        if most := carried(trained):
            words = tr(
                "Median {median} nats, signed mean {signed} nats. The largest 1, 10 and 100 tokens carry "
                "{one:.1%}, {ten:.1%} and {hundred:.1%} of the gap.",
                median=number(result.median),
                signed=number(result.signed, sign=True),
                one=most[1],
                ten=most[10],
                hundred=most[100],
            )
            parts.append(f'<p class="note">{safe_text(words)}</p>')
        if result.unchecked:
            words = tr("Not checkable: {tests}.", tests="; ".join(result.unchecked))
            parts.append(f'<p class="note">{safe_text(words)}</p>')
        words = tr(
            "{read:,} of {total:,} samples were read, {tokens:,} tokens.",
            read=tokens.read,
            total=tokens.total,
            tokens=len(tokens.trainer),
        )
        if tokens.unreadable:
            count = tokens.unreadable
            words += " " + tr("{count:,} samples changed while they were read.", count=count)
        if tokens.without:
            words += " " + tr("{count:,} samples lack one of the two arrays.", count=tokens.without)
        if tokens.unequal:
            words += " " + tr("{count:,} samples have arrays of two lengths.", count=tokens.unequal)
        if tokens.unscored:
            count = tokens.unscored
            words += " " + tr("{count:,} tokens lack a finite logprob on one side.", count=count)
        self.head.html = "".join([*parts, f'<p class="note">{safe_text(words)}</p>'])

    # -- dimensions ------------------------------------------------------------------------------

    def _choose(self, key: Any) -> None:
        if key in {tab["key"] for tab in self.bar.tabs}:
            self._dimension = key
            self._show_levels()

    def _open_cause(self, key: str) -> None:
        self._choose(CAUSES[key].dimension)

    def _show_levels(self) -> None:
        self.bar.value = self._dimension
        levels = [level for level in self._found.levels if level.dimension == self._dimension]
        # Relative to tokens that are as likely, all surprisals have the same gap.
        sizes = [level.mean if self._dimension == "surprisal" else level.relative for level in levels]
        largest = max((size for size in sizes if np.isfinite(size)), default=1.0) or 1.0
        rows = [
            link_row(
                level.value,
                level.value,
                f"{number(level.relative)}×" if np.isfinite(level.relative) else "–",
                size / largest,
                [
                    number(level.mean),
                    number(level.median),
                    number(level.signed, sign=True),
                    f"{level.share:.0%}",
                    f"{level.tokens:,}",
                ],
                tip=tr("{relative} ± {error}, relative to tokens that are as likely; {samples:,} samples",
                    relative=number(level.relative), error=number(2 * level.error), samples=level.samples),
            )
            for level, size in zip(levels, sizes, strict=True)
        ]  # fmt: skip
        titles = ["", tr("gap"), _title(self._dimension)]
        titles += [tr("mean"), tr("median"), tr("signed"), tr("share"), tr("tokens")]
        self.levels.param.update(titles=titles, rows=rows, chosen="")

    def _open_level(self, value: str) -> None:
        """Show the samples of a step, a rank or a label."""
        if self._dimension == "step":
            show_samples(self.context, "", [], int(float(value)))
            self.context.selection.param.update(page="samples", tab="tokens", metric="engine_log_ratio")
        elif self._dimension == "rank":
            show_samples(self.context, f"rank == {value}", [])
        elif self._dimension not in DIMENSIONS:
            show_samples(self.context, f"{self._dimension} == {quote(value)}", [])

    # -- experts ---------------------------------------------------------------------------------

    def _show_experts(self, tokens: GapTokens) -> None:
        """Show for each layer how uneven the load of its experts is, and where the engine chose others."""
        load = tokens.experts
        if not load.layers:
            return
        words = tr("Load of the experts by layer")
        note = tr(
            "The bar is the share of tokens for which engine and trainer chose other experts. A load of 1 is "
            "the mean of the layer's experts."
        )
        self._experts.html = f'<h4>{safe_text(words)}</h4><p class="note">{safe_text(note)}</p>'
        rows = []
        for layer, levels in groupby(load_levels(load), key=lambda level: level.layer):
            experts = sorted(levels, key=lambda level: -level.load)
            top, least, share = experts[0], experts[-1], experts[0].mismatch
            unused = sum(level.tokens == 0 for level in experts)
            label = tr("layer {layer}: expert {expert} has the most tokens", layer=layer, expert=top.expert)
            rows.append(
                link_row(
                    str(layer),
                    label,
                    "–" if np.isnan(share) else f"{share:.1%}",
                    share,
                    [f"{number(top.load)}×", f"{number(least.load)}×", f"{unused:,}", f"{len(experts):,}"],
                )
            )
        titles = ["", tr("differs"), tr("layer"), tr("most"), tr("least"), tr("unused"), tr("experts")]
        self.experts.param.update(titles=titles, rows=rows)


def _title(dimension: str) -> str:
    """Return the title of a dimension; that of a label is its name."""
    return tr(dimension) if dimension in DIMENSIONS else dimension


def has_both_logprobs(snapshot: Snapshot) -> bool:
    """Return whether a run logs logprobs of trainer and engine."""
    return snapshot.has_number("engine_log_ratio_mean")


def _compute(index: RunIndex, snapshot: Snapshot) -> Iterator[_Found]:
    for result in read_gap_tokens(index, snapshot, chosen_rows(snapshot)):
        if isinstance(result, GapTokens):
            own = tuple(own_corrections(index))
            yield _Found(result.read, result, verdict(result), tuple(gap_levels(result)), own)
        else:
            yield _Found(result)
