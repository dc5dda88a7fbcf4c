"""A response beside another one: of its group, of other steps, of the reference, or beside the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.siblings import (
    counterpart,
    rollout_labels,
    row_of,
    same_group,
    same_prompt,
    whole_group,
)
from rlpanel.panels.compare.text_diff import NOW_CHARS, DiffSide, diff_html, response_side
from rlpanel.panels.compare.turn_pair import rollouts_html
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, settings_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch

#: Maximum number of samples or steps to choose from; the nearest are listed.
MAX_CHOICES = 200

_OWN = {"reference": "ref_response", "truth": "ground_truth"}
_NAMES = {"reference": marked("Reference response"), "truth": marked("Ground truth")}


class ResponseDiff(Viewer):
    """Tab with the response on the left and a chosen text on the right."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._updating = False
        self._drawn: tuple[object, ...] | None = None
        self._default, self._why = "", ""  # uid of the proposed sample, and why it is proposed
        self._work: BackgroundTask[str] = BackgroundTask(self._show, context.threads.views)
        self._kind = select_field("against", tr("Compare with"), 230)
        self._other = select_field("which", tr("Other sample"), 250)
        self._open_button = button(tr("Open sample"), self._open, visible=False)
        self._read_button = button(
            tr("Read both"),
            self._read,
            visible=False,
            description=tr("Read both conversations beside each other, from the turn at which they part"),
            css_classes=["rl-read-both"],
        )
        self._pane = Html(
            stylesheets=[theme.CSS, read_assets("panels/compare/response_diff.css")],
            sizing_mode="stretch_width",
            margin=(4, 14, 10, 14),
            css_classes=["rl-compare"],
        )
        self._column = pn.Column(
            FieldRow(self._kind, self._other, self._open_button, self._read_button, margin=(8, 10, 0, 10)),
            self._pane,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        self._kind.param.watch(self._on_kind, "value")
        self._other.param.watch(self._on_other, "value")
        context.param.watch(self._update_kinds, "sample")
        context.selection.param.watch(self._update_kinds, "diff")
        context.display.param.watch(self._update_kinds, [*STYLE_SETTINGS])
        self.param.watch(self._update_kinds, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _update_kinds(self, *_: Any) -> None:
        """List the kinds of text to compare with; that of the address is chosen if available."""
        sample = self.context.sample
        if not self.active:
            return
        kinds = self._kinds(sample) if sample is not None else {}
        keys = list(kinds.values())
        wanted = self.context.selection.diff.partition(":")[0]
        self._set(self._kind, kinds, wanted if wanted in keys else keys[0] if keys else None)
        self._update_others()

    def _kinds(self, sample: Sample) -> dict[str, str]:
        snapshot = self.context.snapshot
        kinds = {}
        others, steps = same_group(snapshot, sample), same_prompt(snapshot, sample)
        if len(others):
            kinds[tr("Another sample of the group ({others:,})", others=len(others))] = "group"
        own = {tr(name): key for key, name in _NAMES.items() if getattr(sample, _OWN[key]) is not None}
        if steps:
            own[tr("Same prompt at another step ({steps:,})", steps=len(steps))] = "step"
        return kinds | own

    def _update_others(self) -> None:
        """List the samples of the group or the steps with the prompt, and choose one of them."""
        sample, snapshot, kind = self.context.sample, self.context.snapshot, self._kind.value
        options: dict[str, str] = {}
        chosen, self._default = None, ""
        if sample is not None and kind == "group" and self.context.index is not None:
            rows = same_group(snapshot, sample)
            row, self._why = counterpart(self.context.index, snapshot, sample, rows)
            listed = rows[:MAX_CHOICES]
            options = rollout_labels(
                snapshot, sample, listed if row in listed else np.append(listed[:-1], row)
            )
            chosen = self._default = snapshot.uid(row)
        elif sample is not None and kind == "step":
            by_step = same_prompt(snapshot, sample)
            near = sorted(sorted(by_step, key=lambda step: abs(step - sample.step))[:MAX_CHOICES])
            options = rollout_labels(snapshot, sample, np.array([by_step[step][0] for step in near]))
            before = max((i for i, step in enumerate(near) if step < sample.step), default=0)
            chosen = list(options.values())[before]
        wanted_kind, _, wanted = self.context.selection.diff.partition(":")
        named = wanted_kind == kind and wanted in options.values()
        self._set(self._other, options, wanted if named else chosen)
        self._other.visible = self._open_button.visible = bool(options)
        self._read_button.visible = bool(options) and kind == "group"
        self._draw()

    def _set(self, select: pn.widgets.Select, options: dict[str, str], value: str | None) -> None:
        self._updating = True
        select.param.update(options=options, value=value)
        self._updating = False

    def _on_kind(self, event: Any) -> None:
        if not self._updating:
            self.context.selection.diff = event.new or ""

    def _on_other(self, event: Any) -> None:
        if not self._updating and event.new:
            self.context.selection.diff = f"{self._kind.value}:{event.new}"

    def _open(self, *_: Any) -> None:
        """Select the other sample in the board, with its step."""
        other = self._other_sample()
        if other is not None:
            self.context.selection.param.update(step=other.step, uid=other.uid, token=-1, follow=False)

    def _read(self, *_: Any) -> None:
        """Read both rollouts beside each other as conversations."""
        if self.context.sample is not None and self._other.value:
            self.context.read_beside(self.context.sample.uid, self._other.value)

    # -- drawing ---------------------------------------------------------------------------------

    def _other_sample(self) -> Sample | None:
        context = self.context
        if context.index is None or not self._other.value:
            return None
        return fetch(context.index, context.view, context.snapshot.row(self._other.value))

    def _sides(self, sample: Sample, other: Sample | None) -> tuple[DiffSide, DiffSide]:
        """Return the response and the text to show on the right."""
        left, kind = response_side(sample), self._kind.value
        if other is None:
            reward = sample.ref_reward if kind == "reference" else math.nan
            color = "reference" if kind == "reference" else "good"
            return left, DiffSide(tr(_NAMES[kind]), "", color, getattr(sample, _OWN[kind]), reward)
        titles = [left.title, tr("Step {step}", step=other.step)]
        if kind == "group":
            group = whole_group(self.context.snapshot, sample).tolist()
            places = [group.index(row_of(self.context.snapshot, each)) + 1 for each in (sample, other)]
            titles = [tr("Rollout {place:,} of {count:,}", place=at, count=len(group)) for at in places]
        right = DiffSide(
            titles[1], other.place, "reference", other.response, other.reward, other.response_tokens
        )
        return replace(left, title=titles[0]), right

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
            other = self._other_sample()
            sides = self._sides(sample, other)
        except (RLPanelError, ValueError) as error:
            self._show(note_html(error))
            return
        results = diff_html(*sides, style) if other is None else rollouts_html((sample, other), sides, style)
        if len(sides[0].text or "") + len(sides[1].text or "") <= NOW_CHARS:
            self._show(next(results))
        else:
            self._show(note_html(tr("Comparing …")))
            self._work.start(results)

    def _show(self, html: str) -> None:
        is_proposed = self._kind.value == "group" and self._default and self._other.value == self._default
        self._pane.html = (note_html(self._why_text()) if is_proposed and self._why else "") + html

    def _why_text(self) -> str:
        return tr("Beside it, chosen here: {why}.", why=self._why)


def _empty_html(sample: Sample | None) -> str:
    if sample is None:
        return note_html(tr("No sample selected"))
    return note_html(
        tr(
            "Nothing to compare with: no reference response or ground truth is logged, "
            "and no other sample has this prompt."
        )
    )
