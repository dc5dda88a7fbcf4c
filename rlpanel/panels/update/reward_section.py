"""Reward on the page *Update*: its parts over the steps, their shares, and what it pays for by mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.paid_features import PaidFeature, PaidFeatures, paid_features
from rlpanel.analysis.reward_parts import PARTS, REST, RewardAnatomy, RewardPart, reward_anatomy
from rlpanel.errors import RLPanelError
from rlpanel.number_text import number
from rlpanel.panels.explain.link_rows import LinkRows, RowsPlot, caption, link_row, show_samples
from rlpanel.panels.export.card_export import CardExport, CardHead, file_name
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.panels.update.part_stack import PartStack, legend_html, mean_rewards, part_stack, stack_plot
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.shorten import shorten

#: Samples of a feature whose judges' texts are shown, and characters of a text.
_JUDGED, _CHARS = 3, 300
#: Kinds of features.
KINDS = (marked("word"), marked("words"), marked("opening"), marked("tool"), marked("behaviour"))


@dataclass(frozen=True)
class _Parts:
    """Parts of the reward of all steps, or of one, and the stack of all steps."""

    found: RewardAnatomy
    stack: PartStack


@dataclass(frozen=True)
class _Judged:
    """A sample with its reward, and its judges' texts beside their scores."""

    uid: str
    reward: float
    texts: tuple[tuple[str, float, str], ...]


class RewardSection(Viewer):
    """The stack of parts, a row for each part, and on demand the features that the reward pays for.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._key: tuple[object, ...] = ()
        self._parts: _Parts | None = None
        self._paid: tuple[PaidFeature, ...] = ()
        self._work: BackgroundTask[_Parts] = BackgroundTask(self._show_parts, context.threads.views)
        self._search: BackgroundTask[PaidFeatures | str] = BackgroundTask(
            self._show_paid, context.threads.queries
        )
        self._judging: BackgroundTask[list[_Judged]] = BackgroundTask(
            self._show_judged, context.threads.texts
        )
        self._head = CardHead(context, self._export, css_classes=["rl-reward-head"])
        self._head.margin = (18, 8, 0, 4)
        title = tr("What the reward is made of")
        self._head.head = f'<span class="caption">{safe_text(title)}</span>'
        self._legend = _html("rl-reward-legend")
        self.rows = LinkRows(self._open_part, "rl-reward-parts")
        self._plot = RowsPlot(self.rows, "rl-reward-plot", self._element)
        self._notes = _html("rl-reward-notes")
        self._of = select_field("reward-steps", tr("Steps"), 150)
        self._of.param.watch(self._on_steps, "value")
        self._find = button(
            tr("Find what it pays for by mistake"), self._on_find, css_classes=["rl-reward-find"]
        )
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-reward-stop"])
        self._said = _html("rl-reward-said")
        self.features = LinkRows(self._open_feature, "rl-reward-features")
        self._judges = _html("rl-reward-judges")
        self._updating = False
        self._column = pn.Column(
            self._head, self._legend, self._plot, self._notes, self.rows,
            FieldRow(caption(tr("Samples of")), self._of, self._find, self._stop, margin=(8, 12, 0, 12)),
            self._said, self.features, self._judges,
            sizing_mode="stretch_width", margin=(0, 0, 24, 0), css_classes=["rl-reward"],
        )  # fmt: skip
        context.param.watch(self._draw, "view")
        context.selection.param.watch(self._draw, ["split", "step"])
        context.selection.param.watch(self._on_theme, "dark")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- parts -----------------------------------------------------------------------------------

    @property
    def _step(self) -> int | None:
        """The step whose samples are looked at; None for all."""
        return self.context.selection.step if self._of.value == "step" else None

    def _draw(self, *_: Any) -> None:
        """Split the reward, unless that is shown; a run that grows only when it has another step."""
        context, snapshot = self.context, self.context.snapshot
        step = context.selection.step
        if not self.active or context.index is None or not snapshot.samples:
            return
        self._updating = True
        named = {tr("step {step:,}", step=step): "step"} if step is not None else {}
        chosen = "step" if named and self._of.value == "step" else "run"
        self._of.param.update(options={tr("all steps"): "run"} | named, value=chosen)
        self._updating = False
        run = (context.index, snapshot.split)
        key = (*run, len(snapshot.steps.values), self._step)
        if key == self._key:
            self._plot.update()
            return
        if self._key[:2] != run:
            self._forget()
        self._key = key
        self._work.start(_split(context.view, self._step))

    def _forget(self) -> None:
        self._search.stop()
        self._judging.stop()
        self._stop.visible = False
        self._paid = ()
        self.features.param.update(titles=[], rows=[], chosen="")
        self._said.html = self._judges.html = ""

    def _on_steps(self, *_: Any) -> None:
        if not self._updating:
            self._forget()
            self._draw()

    def _on_theme(self, *_: Any) -> None:
        if self._parts is not None:
            self._legend.html = self._legend_text(self._parts.stack)
            self._plot.update()

    def _legend_text(self, stack: PartStack) -> str:
        return legend_html(stack, self.context.selection.dark) if len(stack.steps) > 1 else ""

    def _show_parts(self, parts: _Parts) -> None:
        self._parts = parts
        found, stack = parts.found, parts.stack
        shown = [part for part in found.parts if part.step is None]
        others = [name for name in ("length", "valid_reward") if any(name in p.correlations for p in shown)]
        names = {"length": tr("with length"), "valid_reward": tr("with valid_reward")}
        titles = ["", tr("variance"), tr("part"), tr("weight"), tr("mean"), tr("adds")]
        self.rows.param.update(
            titles=[*titles, *(names[name] for name in others)] if shown else [],
            rows=[_part_row(part, others) for part in shown],
            chosen="",
        )
        words = list(found.remarks)
        if shown:
            words.insert(0, tr(
                "The share is that of the variance within groups, which is what the gradient sees. "
                "Groups of equal rewards: {equal:,} of {groups:,}.",
                equal=found.equal, groups=found.groups,
            ))  # fmt: skip
            words.insert(1, _source(found))
        if stack.unknown:
            words.append(tr("Not in the stack, since their weight is not known: {names}.",
                            names=", ".join(stack.unknown)[:300]))  # fmt: skip
        self._notes.html = "".join(f'<p class="note">{safe_text(text)}</p>' for text in words if text)
        self._legend.html = self._legend_text(stack)
        self._find.disabled = not found.samples
        self._plot.update()

    def _element(self) -> Any:
        if self._parts is None:
            return None
        return stack_plot(self._parts.stack, self.context.selection.step, self.context.selection.dark)

    def _open_part(self, key: str) -> None:
        """Sort the samples by this part, the highest first."""
        column = f"{PARTS}{key}"
        if self.context.snapshot.has_number(column):
            scope = "run" if self._step is None else "step"
            self.context.selection.param.update(sort=f"-{column}", scope=scope, search="")

    def _export(self) -> CardExport | None:
        if self._parts is None:
            return None
        parts = self._parts.found.parts

        def rows() -> pd.DataFrame:
            hidden = ("correlations", "reasons")
            return pd.DataFrame(
                [{key: value for key, value in vars(part).items() if key not in hidden} for part in parts]
            )

        name = f"{file_name(self.context.selection.run)}-reward-parts"
        return CardExport(name, tr("What the reward is made of"), "", rows)

    # -- features that it pays for -----------------------------------------------------------------

    def _on_find(self, *_: Any) -> None:
        context = self.context
        if context.index is None:
            return
        self._forget()
        self._stop.visible = True
        self._say(tr("Reading responses …"))
        self._search.start(_found_features(context.index, context.view, self._step))

    def _on_stop(self, *_: Any) -> None:
        self._search.stop()
        self._stop.visible = False
        self._say(tr("Stopped."))

    def _say(self, text: str, *notes: str) -> None:
        parts = [f"<p>{safe_text(text)}</p>" if text else ""]
        self._said.html = "".join([*parts, *(f'<p class="note">{safe_text(note)}</p>' for note in notes)])

    def _show_paid(self, found: PaidFeatures | str) -> None:
        if isinstance(found, str) or found.complete:
            self._stop.visible = False
        if isinstance(found, str):
            self._say(found)
            return
        if not found.complete:
            self._say(tr("Reading responses: {read:,} of {total:,} …", read=found.read, total=found.total))
            return
        self._paid = found.features
        said = tr("No feature of the responses is paid beyond the held-out score.")
        if found.features:
            said = tr("Candidates of a reward hack: read their samples before you believe them.")
        counts = tr(
            "{read:,} of {samples:,} samples were read, {tried:,} features tested; z is at least {least}.",
            read=found.read, samples=found.samples, tried=found.tried, least=number(found.least_z),
        )  # fmt: skip
        left_out = tr(
            "Left out: {alone:,} samples alone in their group, {unscored:,} without a held-out score, "
            "{unreadable:,} that changed.",
            alone=found.alone, unscored=found.unscored, unreadable=found.unreadable,
        )  # fmt: skip
        is_any = found.alone or found.unscored or found.unreadable
        held = tr("Held-out score: {name}.", name=found.held_out) if found.held_out else ""
        self._say(said, f"{counts} {held}", *([left_out] if is_any else []), *found.remarks)
        largest = max((each.share for each in found.features), default=0.0) or 1.0
        titles = ["", tr("variance"), tr("feature"), tr("excess"), tr("z"), tr("reward"),
                  tr("held-out"), tr("samples")]  # fmt: skip
        self.features.param.update(
            titles=titles if found.features else [],
            rows=[_feature_row(at, each, largest) for at, each in enumerate(found.features)],
            chosen="",
        )

    def _open_feature(self, key: str) -> None:
        """Show the samples of a feature, and what the judges said about those with the highest reward."""
        if not key.isdecimal() or int(key) >= len(self._paid):
            return
        feature, context = self._paid[int(key)], self.context
        show_samples(context, feature.where, feature.uids, self._step)
        self._judges.html = ""
        if context.index is not None:
            self._judging.start(_judged(context.index, context.view, feature.uids[:_JUDGED]))

    def _show_judged(self, samples: list[_Judged]) -> None:
        lines = []
        for sample in samples:
            for name, score, text in sample.texts:
                head = tr(
                    "{uid}: reward {reward}, {judge} {score}",
                    uid=sample.uid, reward=number(sample.reward), judge=name,
                    score=number(score) if score == score else tr("without a score"),
                )  # fmt: skip
                lines.append(f'<p class="judge"><b>{safe_text(head)}</b> {safe_text(text)}</p>')
        title = tr("What the judges wrote")
        head = f"<h4>{safe_text(title)}</h4>" if lines else ""
        self._judges.html = head + "".join(lines)


def _part_row(part: RewardPart, others: Sequence[str]) -> dict[str, Any]:
    numbers = [_number(part.weight), _number(part.mean), _number(part.contribution, sign=True)]
    numbers += [_number(part.correlations.get(name), sign=True) for name in others]
    pairs = [
        f"{name}: {number(value, sign=True)}"
        for name, value in part.correlations.items()
        if value is not None
    ]
    tip = [tr("Correlations within groups: {pairs}", pairs=", ".join(pairs))] if pairs else []
    if part.missing:
        tip.append(tr("{missing:,} samples without it, which count as 0", missing=part.missing))
    tip += [f"{name}: {why}" for name, why in part.reasons.items()]
    share = part.share
    label = tr("rest, which the parts do not explain") if part.name == REST else part.name
    return link_row(
        part.name, label, "–" if share is None else f"{share:.1%}", float(np.clip(share or 0.0, -1, 1)),
        numbers, tip="\n".join(tip),
    )  # fmt: skip


def _feature_row(at: int, each: PaidFeature, largest: float) -> dict[str, Any]:
    numbers = [number(each.excess, sign=True), number(each.z), number(each.reward_gap, sign=True)]
    numbers += [_number(each.held_gap, sign=True), f"{each.samples:,}"]
    tip = tr(
        "Reward beyond the held-out score {excess} ± {error}, in {prompts:,} prompts. "
        "Click to see the samples.",
        excess=number(each.excess, sign=True), error=number(each.error), prompts=each.prompts,
    )  # fmt: skip
    return link_row(
        str(at), each.name, f"{each.share:.1%}", each.share / largest, numbers, kind=tr(each.kind), tip=tip
    )


def _number(value: float | None, *, sign: bool = False) -> str:
    return "–" if value is None or value != value else number(value, sign=sign)


def _source(found: RewardAnatomy) -> str:
    if found.source == "declared":
        return tr("The weights are those that the run logs.")
    if found.source == "sum":
        return tr("The reward is the plain sum of its parts.")
    return tr("The weights are fitted by least squares.")


def _rows(view: RunView, step: int | None) -> np.ndarray:
    rows = view.snapshot.alive_rows if step is None else view.snapshot.rows_of(step)
    return np.sort(rows)


def _split(view: RunView, step: int | None) -> Iterator[_Parts]:
    whole = _rows(view, None)
    by_step = reward_anatomy(view, whole, by_step=True)
    stack = part_stack(by_step.parts, mean_rewards(view, whole), tr("others"))
    yield _Parts(by_step if step is None else reward_anatomy(view, _rows(view, step)), stack)


def _found_features(index: RunIndex, view: RunView, step: int | None) -> Iterator[PaidFeatures | str]:
    try:
        yield from paid_features(index, view, _rows(view, step))
    except RLPanelError as error:
        yield f"{error}."


def _judged(index: RunIndex, view: RunView, uids: Sequence[str]) -> Iterator[list[_Judged]]:
    """Read samples, and yield what judges wrote about them; one that changed meanwhile is left out."""
    found = []
    for uid in uids:
        try:
            row = view.snapshot.row(uid)
            sample = fetch(index, view, row, derived=False)
        except (RLPanelError, IndexError):
            continue
        texts = tuple(
            (name, _score(view, row, name), shorten(text, _CHARS)) for name, text in sample.judge.items()
        )
        found.append(_Judged(uid, sample.reward, texts))
    yield found


def _score(view: RunView, row: int, name: str) -> float:
    """Return the part of the reward that has a judge's name; NaN without one."""
    column = f"{PARTS}{name}"
    return float(view.snapshot.number(column)[row]) if view.snapshot.has_number(column) else float("nan")


def _html(name: str) -> Html:
    style = read_assets("panels/update/reward_section.css")
    return Html(
        stylesheets=[theme.CSS, style], sizing_mode="stretch_width", margin=(6, 16, 0, 16), css_classes=[name]
    )
