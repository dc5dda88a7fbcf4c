"""Text diff of a response and another one: of the same group, or of the same prompt at other steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
import param
from markupsafe import Markup
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError, SampleNotFound
from rlpanel.number_text import number
from rlpanel.panels.compare.text_diff import DiffPiece, DiffUnit, diff, token_units, word_units
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, settings_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import TokenKind, decode, escape_invisible
from rlpanel.texts.prompt_parts import TextStyle, clean


def same_group(snapshot: Snapshot, sample: Sample) -> np.ndarray:
    """Return the other rows of the sample's group: by group label, else by prompt within the step."""
    rows = snapshot.rows_of(sample.step)
    if sample.group is not None and "group" in snapshot.labels:
        same = np.array([label == sample.group for label in snapshot.label("group", rows)], bool)
        rows = rows[same]
    elif sample.prompt is not None:
        rows = rows[snapshot.prompts(rows) == _prompt_hash(snapshot, sample)]
    else:
        return np.empty(0, int)
    return rows[rows != _row(snapshot, sample)]


def same_prompt(snapshot: Snapshot, sample: Sample) -> dict[int, np.ndarray]:
    """Return the rows with the sample's prompt at other steps, by step in ascending order."""
    if sample.prompt is None:
        return {}
    same = snapshot.alive & (snapshot.prompts() == _prompt_hash(snapshot, sample))
    rows = np.flatnonzero(same & (snapshot.metadata("step") != sample.step))
    rows = rows[np.argsort(snapshot.metadata("step")[rows], kind="stable")]
    steps, starts = np.unique(snapshot.metadata("step")[rows], return_index=True)
    return dict(zip(steps.tolist(), np.split(rows, starts[1:]), strict=True)) if len(steps) else {}


def _row(snapshot: Snapshot, sample: Sample) -> int:
    try:
        return snapshot.row(sample.uid)
    except SampleNotFound:  # the file was rewritten since
        return -1


def _prompt_hash(snapshot: Snapshot, sample: Sample) -> np.uint64:
    row = _row(snapshot, sample)
    return snapshot.prompts()[row] if row >= 0 else np.uint64(0)


#: Texts of up to this many characters together are compared on the event loop, longer ones on a thread.
NOW_CHARS = 2000
#: Maximum number of samples or steps to choose from; the nearest are listed.
MAX_CHOICES = 200
BREAK = "\n"

_OWN = {"reference": "ref_response", "truth": "ground_truth"}
_NAMES = {"reference": marked("Reference response"), "truth": marked("Ground truth")}


@dataclass(frozen=True)
class DiffSide:
    """One of the two compared texts, with its heading; ``reward_name`` says which number ``reward`` is."""

    title: str
    location: str
    color: str
    text: str | None
    reward: float = math.nan
    tokens: Sequence[str] | None = None
    reward_name: str = "reward"


class ResponseDiff(Viewer):
    """Tab with the response on the left and a chosen text on the right."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._preferred_kind = ""
        self._updating = False
        self._drawn: tuple[object, ...] | None = None
        self._work: BackgroundTask[str] = BackgroundTask(self._show, context.threads.views)
        self._kind = select_field("against", tr("Compare with"), 230)
        self._other = select_field("which", tr("Other sample"), 250)
        self._open_button = button(tr("Open sample"), self._open, visible=False)
        self._pane = Html(
            stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
            sizing_mode="stretch_width",
            margin=(4, 14, 10, 14),
            css_classes=["rl-compare"],
        )
        self._column = pn.Column(
            FieldRow(self._kind, self._other, self._open_button, margin=(8, 10, 0, 10)),
            self._pane,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        self._kind.param.watch(self._on_kind, "value")
        self._other.param.watch(self._on_other, "value")
        context.param.watch(self._update_kinds, "sample")
        context.display.param.watch(self._update_kinds, [*STYLE_SETTINGS])
        self.param.watch(self._update_kinds, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _update_kinds(self, *_: Any) -> None:
        """List the kinds of text to compare with; the viewer's last choice is kept if available."""
        sample = self.context.sample
        if not self.active:
            return
        kinds = self._kinds(sample) if sample is not None else {}
        keys = list(kinds.values())
        chosen = self._preferred_kind if self._preferred_kind in keys else keys[0] if keys else None
        self._set(self._kind, kinds, chosen)
        self._update_others()

    def _kinds(self, sample: Sample) -> dict[str, str]:
        snapshot = self.context.snapshot
        kinds = {tr(name): key for key, name in _NAMES.items() if getattr(sample, _OWN[key]) is not None}
        others, steps = same_group(snapshot, sample), same_prompt(snapshot, sample)
        if len(others):
            kinds[tr("Another sample of the group ({others:,})", others=len(others))] = "group"
        if steps:
            kinds[tr("Same prompt at another step ({steps:,})", steps=len(steps))] = "step"
        return kinds

    def _update_others(self) -> None:
        """List the group's samples, or the steps with the prompt, where the step before is preselected."""
        sample, snapshot, kind = self.context.sample, self.context.snapshot, self._kind.value
        options: dict[str, str] = {}
        chosen = None
        if sample is not None and kind == "group":
            options = self._labels(same_group(snapshot, sample)[:MAX_CHOICES], "line")
            chosen = next(iter(options.values()))
        elif sample is not None and kind == "step":
            by_step = same_prompt(snapshot, sample)
            near = sorted(sorted(by_step, key=lambda step: abs(step - sample.step))[:MAX_CHOICES])
            options = self._labels(np.array([by_step[step][0] for step in near]), "step")
            before = max((i for i, step in enumerate(near) if step < sample.step), default=0)
            chosen = list(options.values())[before]
        previous = self._other.value
        self._set(self._other, options, previous if previous in options.values() else chosen)
        self._other.visible = self._open_button.visible = bool(options)
        self._draw()

    def _labels(self, rows: np.ndarray, name: str) -> dict[str, str]:
        """Return uids by label; a label has step or line, and the reward."""
        snapshot = self.context.snapshot
        has_reward = snapshot.has_number("reward")
        options: dict[str, str] = {}
        for row, uid in zip(rows.tolist(), snapshot.uids(rows), strict=True):
            label = f"{name} {int(snapshot.metadata(name)[row]):,}"
            if name == "line" and snapshot.ranks > 1:
                label = f"rank {int(snapshot.metadata('rank')[row])} · {label}"
            if has_reward:
                label += tr(" · reward {reward}", reward=number(float(snapshot.number("reward")[row])))
            options[f"{label} · {uid}" if label in options else label] = uid
        return options

    def _set(self, select: pn.widgets.Select, options: dict[str, str], value: str | None) -> None:
        self._updating = True
        select.param.update(options=options, value=value)
        self._updating = False

    def _on_kind(self, event: Any) -> None:
        if not self._updating:
            self._preferred_kind = event.new
            self._update_others()

    def _on_other(self, _: Any) -> None:
        if not self._updating:
            self._draw()

    def _open(self, *_: Any) -> None:
        """Select the other sample in the board, with its step."""
        other = self._other_sample()
        if other is not None:
            self.context.selection.param.update(step=other.step, uid=other.uid, token=-1, follow=False)

    # -- drawing ---------------------------------------------------------------------------------

    def _other_sample(self) -> Sample | None:
        context = self.context
        if context.index is None or not self._other.value:
            return None
        return fetch(context.index, context.view, context.snapshot.row(self._other.value))

    def _side(self, sample: Sample) -> DiffSide:
        """Return the text to show on the right."""
        kind = self._kind.value
        if kind in _OWN:
            reward = sample.ref_reward if kind == "reference" else math.nan
            color = "reference" if kind == "reference" else "good"
            return DiffSide(tr(_NAMES[kind]), "", color, getattr(sample, _OWN[kind]), reward)
        other = self._other_sample()
        if other is None:
            return DiffSide("", "", "muted", None)
        title = tr("Same group") if kind == "group" else tr("Step {step}", step=other.step)
        location, tokens = other.place, other.response_tokens
        return DiffSide(title, location, "reference", other.response, other.reward, tokens)

    def _draw(self) -> None:
        sample, style = self.context.sample, settings_style(self.context.display)
        key = (sample and sample.uid, self._kind.value, self._other.value, style)
        if key == self._drawn:
            return
        self._drawn = key
        self._work.stop()
        if sample is None or self._kind.value is None:
            self._show(_empty_html(sample))
            return
        try:
            side = self._side(sample)
        except RLPanelError as error:
            self._show(note_html(error))
            return
        if len(sample.response or "") + len(side.text or "") <= NOW_CHARS:
            self._show(next(diff_html(response_side(sample), side, style)))
        else:
            self._show(note_html(tr("Comparing …")))
            self._work.start(diff_html(response_side(sample), side, style))

    def _show(self, html: str) -> None:
        self._pane.html = html


def response_side(sample: Sample) -> DiffSide:
    """Return the side with a sample's own response."""
    return DiffSide(tr("Response"), "", "policy", sample.response, sample.reward, sample.response_tokens)


def diff_html(left: DiffSide, right: DiffSide, style: TextStyle) -> Iterator[str]:
    """Yield the diff as HTML: a single result, as `BackgroundTask` expects an iterator."""
    by_tokens = bool(left.tokens and right.tokens)
    result = diff(_units(left, style, by_tokens), _units(right, style, by_tokens))
    summary = (
        tr("{share:.0%} of the tokens in common") if by_tokens else tr("{share:.0%} of the words in common")
    )
    summary = summary.format(share=result.shared)
    summary += "" if result.whole else tr("; a long passage was not aligned and is marked as different")
    sides = tr("only on the left"), tr("only on the right")
    legend = Markup("<ins>{}</ins> · <del>{}</del>").format(*sides)
    body = "".join(_row_html(here, there) for here, there in result.rows)
    yield (
        f'<p class="note">{summary} · {legend}</p>'
        f'<div class="sides">{_head(left)}{_head(right)}{body or _row_html([], [])}</div>'
    )


def _units(side: DiffSide, style: TextStyle, by_tokens: bool) -> list[DiffUnit]:
    if not by_tokens or side.tokens is None:
        return word_units(escape_invisible(clean(side.text or "", style)))
    decoded = decode(side.tokens, style.pad_token)
    not_pads = (decoded.kinds != TokenKind.PAD).nonzero()[0].tolist()
    return token_units([side.tokens[i] for i in not_pads], [decoded.texts[i] for i in not_pads])


def _head(side: DiffSide) -> str:
    reward = ""
    if not math.isnan(side.reward):
        reward = f"<em>{safe_text(side.reward_name)} <b>{number(side.reward)}</b></em>"
    location = f"<em>{safe_text(side.location)}</em>" if side.location else ""
    return f'<h5><span class="{side.color}">{safe_text(side.title)}</span>{reward}{location}</h5>'


def _row_html(left: Sequence[DiffPiece], right: Sequence[DiffPiece]) -> str:
    return f"<div>{_pieces_html(left, 'ins')}</div><div>{_pieces_html(right, 'del')}</div>"


def _pieces_html(pieces: Sequence[DiffPiece], tag: str) -> str:
    """Return escaped text in which differences are marked, including line breaks."""
    marked = ((safe_text(text), same) for text, same in pieces)
    return "".join(
        text if same else f"<{tag}>{text.replace(BREAK, f'<i>↵</i>{BREAK}')}</{tag}>" for text, same in marked
    )


def _empty_html(sample: Sample | None) -> str:
    if sample is None:
        return note_html(tr("No sample selected"))
    return note_html(
        tr(
            "Nothing to compare with: no reference response or ground truth is logged, "
            "and no other sample has this prompt."
        )
    )
