"""Page *Update*: what carried a step's gradient, and what other losses make of the same samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.explain.link_rows import LinkRows, link_row, show_samples
from rlpanel.panels.export.card_export import CardExport, CardHead, file_name, well_formed
from rlpanel.panels.export.python_cell import what_if_cell
from rlpanel.panels.inputs.input_fields import FieldRow, TabBar, button, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.panels.update.loss_controls import LossControls, NextPhrases
from rlpanel.panels.update.reward_section import RewardSection
from rlpanel.panels.update.update_words import dimension_title, head_html, needs_text, outcome_table
from rlpanel.store.query.filter_syntax import quote
from rlpanel.texts.display_text import detect, read_piece
from rlpanel.texts.shorten import marked_line
from rlpanel.update.loss_algorithms import ALGORITHMS
from rlpanel.update.update_anatomy import WeightRow
from rlpanel.update.update_study import UpdateStudy, study_update

_CSS = """
h3 { margin: 0 0 6px; font: 600 17px/1.35 var(--rl-font); color: var(--rl-text); }
p { margin: 0 0 6px; max-width: 90ch; color: var(--rl-text); font-size: 13px; overflow-wrap: anywhere; }
p.note { color: var(--rl-muted); font-size: 12px; }
details { font-size: 12px; color: var(--rl-muted); margin: 0 0 6px; max-width: 90ch; }
summary { cursor: pointer; }
h4 { margin: 14px 0 2px; font: 600 13px var(--rl-font); color: var(--rl-text); }
"""
#: Rows of a dimension without an order that are listed.
_ROWS = 24
#: Characters of a name above a block.
_NAME = 40


class UpdateTree(Component):
    """Groups, samples and turns as blocks, drawn by ``update_tree.js``; a click calls ``pick`` with a uid."""

    groups = param.List(default=[], doc="Groups with their samples and turns, the heaviest first.")
    label = param.String(default="", doc="What a screen reader says about the picture.")
    chosen = param.String(default="", doc="Uid of the selected sample.")

    _esm = read_assets("panels/ui/dom.js", "panels/update/update_tree.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/update/update_tree.css")]

    def __init__(self, pick: Callable[[str], None]) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 0), css_classes=["rl-update-tree"])
        self._pick = pick

    def receive(self, message: Any) -> None:
        """Pick the sample that was clicked."""
        known = {sample["uid"] for group in self.groups for sample in group["samples"]}
        if isinstance(message, str) and message in known:  # the groups may have changed since
            self._pick(message)


class UpdatePage(Viewer):
    """Sentence, tree of groups, samples and turns, weight by one dimension, phrases later, other losses.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._study: UpdateStudy | None = None
        self._key: tuple[object, ...] = ()
        self._dimension, self._named, self._updating = "", "", False
        self._work: BackgroundTask[UpdateStudy] = BackgroundTask(self._show, context.threads.views)
        self.head = _text("rl-update-head", (14, 16, 4, 16))
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-update-stop"])
        # Bokeh's select cannot take options before the browser has built it, so it has them from the start.
        own = {tr("the loss that the run shows"): ""} | {
            each.title: name for name, each in ALGORITHMS.items()
        }
        self._own = select_field("update-own", tr("The run's own loss"), 260, options=own, visible=False)
        self._own.param.watch(self._on_own, "value")
        self.tree = UpdateTree(self._open_sample)
        self.bar = TabBar(
            css_classes=["rl-update-bar"], label=tr("Dimensions of the weight"), margin=(6, 8, 0, 8)
        )
        self.bar.on_message(self._choose)
        self.rows = LinkRows(self._open_row, "rl-update-rows")
        self.next = NextPhrases(context, _text("rl-update-next-words", (0, 16)), self._show_rows)
        actions = [(tr("Copy as Python"), self._copy)]
        self._losses_head = CardHead(context, self._export, actions, css_classes=["rl-update-losses-head"])
        self._losses_head.margin = (14, 8, 0, 4)
        title = tr("What if: other losses")
        self._losses_head.head = f'<span class="caption">{safe_text(title)}</span>'
        self._words = _text("rl-update-words", (0, 16))
        self.losses = LinkRows(self._choose_loss, "rl-update-losses")
        self._needs = _text("rl-update-needs", (0, 16))
        self.controls = LossControls(context, self._show_losses)
        self.reward = RewardSection(context)
        self._parts: list[Any] = [
            self.tree, self.bar, self.rows, self.next,
            self._losses_head, self._words, self.losses, self._needs, self.controls,
        ]  # fmt: skip
        self._column = pn.Column(
            self.head,
            FieldRow(self._own, self._stop, margin=(0, 12)),
            *self._parts,
            self.reward,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-update"],
        )
        self._panels = [part.__panel__() if isinstance(part, Viewer) else part for part in self._parts]
        watch_step(context, self._draw)
        context.selection.param.watch(self._draw, "split")
        context.selection.param.watch(self._on_loss, "loss")
        context.selection.param.watch(self._on_uid, "uid")
        self.param.watch(self._draw, "active")
        self._next = self._panels[self._parts.index(self.next)]
        self._show_parts(False)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _show_parts(self, shown: bool) -> None:
        for part in self._panels:
            part.visible = shown

    # -- reading ---------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        """Read the selected step, unless its results are shown."""
        self.reward.active = self.active
        context, snapshot = self.context, self.context.snapshot
        if not self.active:
            if self._study is None or self._study.batch is None:
                self._work.stop()
                self._key = ()
            return
        step = context.selection.step
        position = -1 if step is None else snapshot.steps.position(step)
        if context.index is None or step is None or position < 0:
            self._say(tr("No samples yet"))
            self._show_parts(False)
            return
        samples = int(snapshot.steps.samples[position])
        key = (snapshot.name, snapshot.split, step, samples, self._named)
        if key == self._key:
            return
        if key[:2] != self._key[:2]:
            self._named = ""
            key = (*key[:4], "")
        self._key = key
        self._stop.visible = True
        by = self.controls.by
        self._work.start(study_update(context.index, context.view, step, self._named, by))

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._stop.visible = False
        self._say(tr("Stopped. Select the step again to read its samples."))
        self._key = ()

    def _on_own(self, event: Any) -> None:
        if not self._updating:
            self._named = str(event.new or "")
            self._draw()

    def _say(self, text: str) -> None:
        self.head.html = f"<p>{safe_text(text)}</p>"

    def _show(self, study: UpdateStudy) -> None:
        snapshot = self.context.snapshot
        if self._key[:2] != (snapshot.name, snapshot.split):  # another run was chosen meanwhile
            return
        if study.batch is None or study.own is None:
            if self._study is None or self._study.step != study.step:
                self._say(tr("Reading samples: {read:,} …", read=study.read))
            return
        self._study, self._stop.visible = study, False
        self.head.html = head_html(study)
        self._updating = True
        self._own.param.update(
            value=self._named,
            visible=study.own.algorithm is None or bool(self._named) or bool(study.needs),
        )
        self._updating = False
        is_known = study.anatomy is not None
        self._show_parts(bool(len(study.batch)))
        for part in (self.tree, self.bar, self.rows, self._next):
            part.visible = is_known
        self._show_tree(study)
        self._show_dimensions(study)
        self.controls.show_study(study)
        self._show_losses()

    # -- the tree --------------------------------------------------------------------------------

    def _show_tree(self, study: UpdateStudy) -> None:
        batch, snapshot = study.batch, self.context.snapshot
        if batch is None or study.anatomy is None:
            self.tree.groups = []
            return
        uids = snapshot.uids(batch.rows)
        labels = "group" in snapshot.labels
        groups = []
        for group in study.tree:
            first = group.samples[0].at if group.samples else int((batch.group == group.at).argmax())
            name = snapshot.label("group", batch.rows[[first]])[0] if labels else None
            samples = [
                {
                    "uid": well_formed(uids[each.at]),
                    "share": each.share,
                    "push": each.push,
                    "turns": each.turns if len(each.turns) < 200 else [],
                    "tip": tr(
                        "reward {reward}, advantage {advantage}, {tokens:,} tokens: {share:.1%} of the "
                        "weight",
                        reward=number(float(batch.reward[each.at])),
                        advantage=number(float(study.anatomy.advantage[each.at]), sign=True),
                        tokens=int(batch.counts[each.at]),
                        share=each.share,
                    ),
                }
                for each in group.samples
            ]
            groups.append(
                {
                    "name": well_formed(marked_line(name or str(group.at), _NAME)),
                    "share": group.share,
                    "samples": samples,
                    "others": group.others,
                    "rest": group.others_share,
                }
            )
        self.tree.param.update(
            groups=groups,
            label=tr("Weight of the update by group, sample and turn"),
            chosen=self.context.selection.uid,
        )

    def _on_uid(self, event: Any) -> None:
        if self.active:
            self.tree.chosen = event.new

    def _open_sample(self, uid: str) -> None:
        show_samples(self.context, "", [uid], None if self._study is None else self._study.step)

    # -- dimensions ------------------------------------------------------------------------------

    def _show_dimensions(self, study: UpdateStudy) -> None:
        rows = study.anatomy.rows if study.anatomy is not None else []
        names = [name for name in dict.fromkeys(row.dimension for row in rows) if name != "prompt"]
        self._dimension = self._dimension if self._dimension in names else next(iter(_first(names)), "")
        if study.batch is not None:
            self.next.show_phrases(
                study.batch.rows, [row for row in rows if row.dimension == "phrase"][:_ROWS]
            )
        self.bar.tabs = [{"key": name, "title": dimension_title(name)} for name in names]
        self._show_rows()

    def _choose(self, key: Any) -> None:
        if key in {tab["key"] for tab in self.bar.tabs}:
            self._dimension = key
            self._show_rows()

    def _rows_of(self, dimension: str) -> list[WeightRow]:
        found = self._study.anatomy.rows if self._study is not None and self._study.anatomy else []
        return [row for row in found if row.dimension == dimension][:_ROWS]

    def _show_rows(self) -> None:
        self.bar.value = self._dimension
        rows = self._rows_of(self._dimension)
        largest = max((row.share for row in rows), default=1.0) or 1.0
        batch = self._study.batch if self._study is not None else None
        moved = batch is not None and batch.has_ratio and any(row.change == row.change for row in rows)
        is_phrase = self._dimension == "phrase"
        self._next.visible = is_phrase
        running, shown = 0.0, []
        for row in rows:
            running += row.share
            push = round(row.push, 3)
            # Phrases may overlap: their shares do not add up.
            numbers = [
                *([] if is_phrase else [f"{running:.0%}"]),
                f"{push:+.1%}".replace("-", "−") if push else "0",
            ]
            numbers += ["–" if count is None else f"{count:,}" for count in (row.tokens, row.samples)]
            if moved:
                numbers.append("–" if row.change != row.change else number(row.change, sign=True))
            if is_phrase:
                numbers += self.next.numbers(row.value)
            bar = row.share / largest * (-1 if push < 0 else 1)
            shown.append(link_row(self._key_of(row), self._name_of(row), f"{row.share:.1%}", bar, numbers))
        titles = ["", tr("weight"), dimension_title(self._dimension)]
        titles += [*([] if is_phrase else [tr("sum")]), tr("push")]
        titles += [tr("tokens"), tr("samples"), *([tr("change, nats")] if moved else [])]
        titles += self.next.titles if is_phrase else []
        self.rows.param.update(titles=titles, rows=shown, chosen="")

    @staticmethod
    def _key_of(row: WeightRow) -> str:
        return f"{row.dimension}:{row.value}"

    def _name_of(self, row: WeightRow) -> str:
        batch = self._study.batch if self._study is not None else None
        if batch is None or row.dimension not in ("sample", "group"):
            return (
                repr(row.value)[1:-1] if row.dimension in ("token", "phrase") else row.value or tr("(none)")
            )
        snapshot = self.context.snapshot
        at = row.at if row.dimension == "sample" else int((batch.group == row.at).argmax())
        if row.dimension == "sample":
            return str(snapshot.uid(int(batch.rows[at])))
        named = snapshot.label("group", batch.rows[[at]])[0] if "group" in snapshot.labels else None
        return named or row.value

    def _open_row(self, key: str) -> None:
        """Show the samples of a row, where a filter can name them."""
        study, (dimension, _, value) = self._study, key.partition(":")
        row = next((row for row in self._rows_of(dimension) if row.value == value), None)
        if study is None or study.batch is None or row is None:
            return
        if dimension in ("sample", "group"):
            members = [row.at] if dimension == "sample" else (study.batch.group == row.at).nonzero()[0][:1]
            uids = self.context.snapshot.uids(study.batch.rows[members])
            show_samples(self.context, "", list(uids), study.step)
        elif dimension in study.batch.labels and value:
            show_samples(self.context, f"{dimension} == {quote(value)}", [], study.step)
        elif dimension == "token":
            text = read_piece(value, detect(study.batch.tokens))
            show_samples(self.context, f"response contains {quote(text)}", [], study.step)
        elif dimension == "phrase":
            show_samples(self.context, f"response contains {quote(value)}", [], study.step)

    # -- other losses ----------------------------------------------------------------------------

    def _on_loss(self, *_: Any) -> None:
        if self.active and self._study is not None:
            self.controls.show_study(self._study)
            self._show_losses()

    def _choose_loss(self, key: str) -> None:
        self.controls.choose(key if key in ALGORITHMS else "")

    def _show_losses(self, *_: Any) -> None:
        study = self._study
        if study is None or study.batch is None:
            return
        outcomes = self.controls.outcomes
        mass = self.controls.heaviest
        self._words.html = f'<p class="note">{safe_text(self.controls.words)}</p>'
        titles, rows = outcome_table(outcomes, len(study.batch), mass, has_ratio=study.batch.has_ratio)
        self.losses.param.update(titles=titles, rows=rows, chosen=self.controls.loss)
        self._needs.html = f'<p class="note">{safe_text(needs_text(outcomes))}</p>'

    def _export(self) -> CardExport | None:
        study = self._study
        if study is None or study.batch is None:
            return None
        outcomes = list(self.controls.outcomes)

        def rows() -> pd.DataFrame:
            listed = []
            for each in outcomes:
                numbers = {
                    key: "; ".join(value) if key == "approximated" else value
                    for key, value in vars(each).items()
                    if key not in ("algorithm", "mass")
                }
                mass = {f"mass {name}": share for name, share in (each.mass or {}).items()}
                named = {"algorithm": each.algorithm.name, "title": each.algorithm.title}
                listed.append(named | numbers | mass | {"formula": each.algorithm.formula})
            return pd.DataFrame(listed)

        name = f"{file_name(self.context.selection.run)}-losses-{study.step}"
        return CardExport(name, tr("What if: other losses"), "", rows)

    def _copy(self) -> None:
        if self._study is not None:
            cell = what_if_cell(self.context, self._study.step, self.controls.loss, self.controls.constants)
            self._losses_head.send({"kind": "copy", "text": cell})


def _first(names: Sequence[str]) -> list[str]:
    """Return names with those first that are shown first: parts of the reward, else samples."""
    leading = ("reward part", "sample")
    return sorted(names, key=lambda name: leading.index(name) if name in leading else len(leading))


def _text(name: str, margin: tuple[int, ...]) -> Html:
    return Html(stylesheets=[theme.CSS, _CSS], sizing_mode="stretch_width", margin=margin, css_classes=[name])
