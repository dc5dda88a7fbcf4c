"""Side by side: a response against another text, and where the two differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.related_samples import same_group, same_prompt
from rlpanel.panels.compare.text_diff import DiffPiece, DiffUnit, cells, diff, words
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.display_text import TokenKind, decode, reveal
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.prompt_text import clean
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch import fetch

#: Characters of both texts that are compared on the event loop; longer ones on a thread.
NOW_CHARS = 2000
#: Samples or steps offered, the nearest ones.
MOST_CHOICES = 200
BREAK = "\n"

_OWN = {"reference": "ref_response", "truth": "ground_truth"}
_NAMES = {"reference": "Reference response", "truth": "Ground truth"}


@dataclass(frozen=True)
class DiffSide:
    """What stands on the right."""

    title: str
    place: str
    color: str
    text: str | None
    reward: float = math.nan
    tokens: Sequence[str] | None = None


class ResponseDiff(Viewer):
    """The response on the left; on the right what the viewer chose of what there is."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._wish = ""
        self._quiet = False
        self._drawn: tuple[object, ...] | None = None
        self._work: BackgroundTask[str] = BackgroundTask(self._put)
        self._against = select("against", 230)
        self._which = select("which", 250)
        self._open = pmui.Button(
            label="open", size="small", variant="text", visible=False, margin=0, align="center",
            on_click=self._go,
        )  # fmt: skip
        self._pane = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
            sizing_mode="stretch_width",
            margin=(4, 14, 10, 14),
            css_classes=["rl-compare"],
        )
        self._column = pn.Column(
            pn.Row(self._against, self._which, self._open, margin=(8, 10, 0, 10)),
            self._pane,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        self._against.param.watch(self._chose_kind, "value")
        self._which.param.watch(self._chose_which, "value")
        context.param.watch(self._offer, "sample")
        context.display.param.watch(self._offer, "pad_token")
        self.param.watch(self._offer, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _offer(self, *_: Any) -> None:
        """What the sample can be laid beside; the viewer's wish is kept where it can be met."""
        sample = self.context.sample
        if not self.active:
            return
        kinds = self._kinds(sample) if sample is not None else {}
        keys = list(kinds.values())
        wish = self._wish if self._wish in keys else keys[0] if keys else None
        self._set(self._against, kinds, wish)
        self._fill_which()

    def _kinds(self, sample: Sample) -> dict[str, str]:
        snapshot = self.context.snapshot
        kinds = {name.lower(): key for key, name in _NAMES.items() if getattr(sample, _OWN[key]) is not None}
        others, steps = same_group(snapshot, sample), same_prompt(snapshot, sample)
        if len(others):
            kinds[f"another of the group ({len(others):,})"] = "group"
        if steps:
            kinds[f"the prompt at another step ({len(steps):,})"] = "step"
        return kinds

    def _fill_which(self) -> None:
        """The samples of the group, or the steps that saw the prompt, the nearest before first."""
        sample, snapshot, kind = self.context.sample, self.context.snapshot, self._against.value
        options: dict[str, str] = {}
        chosen = None
        if sample is not None and kind == "group":
            options = self._labels(same_group(snapshot, sample)[:MOST_CHOICES], "line")
            chosen = next(iter(options.values()))
        elif sample is not None and kind == "step":
            by_step = same_prompt(snapshot, sample)
            near = sorted(sorted(by_step, key=lambda step: abs(step - sample.step))[:MOST_CHOICES])
            options = self._labels(np.array([by_step[step][0] for step in near]), "step")
            before = max((at for at, step in enumerate(near) if step < sample.step), default=0)
            chosen = list(options.values())[before]
        wish = self._which.value
        self._set(self._which, options, wish if wish in options.values() else chosen)
        self._which.visible = self._open.visible = bool(options)
        self._draw()

    def _labels(self, rows: np.ndarray, name: str) -> dict[str, str]:
        """What a person reads (step or line, and the reward) to uid."""
        snapshot = self.context.snapshot
        has = snapshot.has_number("reward")
        options: dict[str, str] = {}
        for row, uid in zip(rows.tolist(), snapshot.uids(rows), strict=True):
            label = f"{name} {int(snapshot.place(name)[row]):,}"
            if name == "line" and snapshot.ranks > 1:
                label = f"rank {int(snapshot.place('rank')[row])} · {label}"
            if has:
                label += f" · reward {number(float(snapshot.number('reward')[row]))}"
            options[f"{label} · {uid}" if label in options else label] = uid
        return options

    def _set(self, select: pmui.Select, options: dict[str, str], value: str | None) -> None:
        self._quiet = True
        select.param.update(options=options, value=value)
        self._quiet = False

    def _chose_kind(self, event: Any) -> None:
        if not self._quiet:
            self._wish = event.new
            self._fill_which()

    def _chose_which(self, _: Any) -> None:
        if not self._quiet:
            self._draw()

    def _go(self, *_: Any) -> None:
        """Show the other sample itself, at its step."""
        other = self._other()
        if other is not None:
            self.context.selection.param.update(step=other.step, uid=other.uid, token=-1, follow=False)

    # -- drawing ---------------------------------------------------------------------------------

    def _other(self) -> Sample | None:
        context = self.context
        if context.index is None or not self._which.value:
            return None
        return fetch(context.index, context.view, context.snapshot.row(self._which.value))

    def _side(self, sample: Sample) -> DiffSide:
        kind = self._against.value
        if kind in _OWN:
            reward = sample.ref_reward if kind == "reference" else math.nan
            color = "reference" if kind == "reference" else "good"
            return DiffSide(_NAMES[kind], "", color, getattr(sample, _OWN[kind]), reward)
        other = self._other()
        if other is None:
            return DiffSide("", "", "muted", None)
        title = "Same group" if kind == "group" else f"Step {other.step}"
        place, tokens = other.place, other.response_tokens
        return DiffSide(title, place, "reference", other.response, other.reward, tokens)

    def _draw(self) -> None:
        sample, pad = self.context.sample, self.context.display.pad_token
        wanted = (sample and sample.uid, self._against.value, self._which.value, pad)
        if wanted == self._drawn:
            return
        self._drawn = wanted
        self._work.stop()
        if sample is None or self._against.value is None:
            self._put(_nothing(sample))
            return
        try:
            side = self._side(sample)
        except RLPanelError as error:
            self._put(f'<p class="note">{safe_text(error)}</p>')
            return
        if len(sample.response or "") + len(side.text or "") <= NOW_CHARS:
            self._put(next(pages(sample, side, pad)))
        else:
            self._put('<p class="note">comparing …</p>')
            self._work.start(pages(sample, side, pad))

    def _put(self, html: str) -> None:
        self._pane.object = html


def pages(sample: Sample, side: DiffSide, pad_token: str, title: str = "Response") -> Iterator[str]:
    """The comparison as HTML: one result, for `BackgroundTask`."""
    left = DiffSide(title, "", "policy", sample.response, sample.reward, sample.response_tokens)
    by_tokens = bool(left.tokens and side.tokens)
    found = diff(_units(left, pad_token, by_tokens), _units(side, pad_token, by_tokens))
    said = f"{found.shared:.0%} of the {'tokens' if by_tokens else 'words'} in common"
    said += "" if found.whole else "; a long stretch was not aligned inside"
    body = "".join(_row_html(here, there) for here, there in found.rows)
    yield (
        f'<p class="note">{said} · <ins>only in the response</ins> · <del>only on the right</del></p>'
        f'<div class="sides">{_head(left)}{_head(side)}{body or _row_html([], [])}</div>'
    )


def _units(side: DiffSide, pad_token: str, by_tokens: bool) -> list[DiffUnit]:
    if not by_tokens or side.tokens is None:
        return words(reveal(clean(side.text or "", pad_token)))
    shown = decode(side.tokens, pad_token)
    kept = (shown.kinds != TokenKind.PAD).nonzero()[0].tolist()
    return cells([side.tokens[i] for i in kept], [shown.texts[i] for i in kept])


def _head(side: DiffSide) -> str:
    reward = "" if math.isnan(side.reward) else f"<em>reward <b>{number(side.reward)}</b></em>"
    place = f"<em>{safe_text(side.place)}</em>" if side.place else ""
    return f'<h5><span class="{side.color}">{safe_text(side.title)}</span>{reward}{place}</h5>'


def _row_html(left: Sequence[DiffPiece], right: Sequence[DiffPiece]) -> str:
    return f"<div>{_pieces_html(left, 'ins')}</div><div>{_pieces_html(right, 'del')}</div>"


def _pieces_html(pieces: Sequence[DiffPiece], tag: str) -> str:
    """Escaped text; what differs is marked, its line breaks too."""
    marked = ((safe_text(text), same) for text, same in pieces)
    return "".join(
        text if same else f"<{tag}>{text.replace(BREAK, f'<i>↵</i>{BREAK}')}</{tag}>" for text, same in marked
    )


def _nothing(sample: Sample | None) -> str:
    if sample is None:
        return '<p class="note">no sample selected</p>'
    return (
        '<p class="note">Nothing to compare with: no reference response or ground truth is logged, '
        "and no other sample has this prompt.</p>"
    )


def select(name: str, width: int) -> pmui.Select:
    """A select at the house's density, to be filled."""
    return pmui.Select(
        label="",
        options={},
        size="small",
        width=width,
        margin=(0, 4),
        css_classes=[f"rl-{name}"],
        sx=theme.FIELD_SX,
    )
