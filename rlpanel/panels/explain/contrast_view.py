"""Differences between two sets of samples: a plot of the effects, and rows that lead to the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.difference import MIN_EFFECT, Difference, label_of
from rlpanel.analysis.selection_contrast import Contrast, contrast
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.panels.explain.contrast_sides import (
    CHOICES,
    FILTERED,
    RANGES,
    RUNS,
    STEPS,
    Sides,
    sides_of,
    usual_ranges,
)
from rlpanel.panels.explain.link_rows import (
    LABEL_CHARS,
    LinkRows,
    RowsPlot,
    both,
    caption,
    link_row,
    note_pane,
    show_samples,
)
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.inputs.input_fields import button, select_field, text_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import effect_bars
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.shorten import marked_line


class ContrastView(Viewer):
    """Choice of the sets, progress, plot and rows."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is compared before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._sides: Sides | None = None
        self._found: Contrast | None = None
        self._key: tuple[object, ...] = ()
        #: Filter that a click on a row set; it must not change the compared sets.
        self._own_filter: str | None = None
        self._updating = self._opened = False
        self._work: BackgroundTask[Contrast] = BackgroundTask(self._show, context.threads.views)
        self._choice = select_field("contrast-choice", tr("What to contrast"), 220)
        self._choice.param.update(options={tr(label): key for label, key in CHOICES.items()}, value=STEPS)
        self._a, self._b = (
            _range_field("contrast-a", tr("First steps")),
            _range_field("contrast-b", tr("Second steps")),
        )
        self._against = select_field("contrast-run", tr("Other run"), 190)
        self._versus = caption(tr("against"))
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-contrast-stop"])
        self._note = note_pane("rl-contrast-note")
        self._rows = LinkRows(self._pick, "rl-contrast-rows")
        self._plot = RowsPlot(self._rows, "rl-contrast-plot", self._element)
        self._column = pn.Column(
            pn.FlexBox(
                self._choice, self._a, self._versus, self._against, self._b, self._stop,
                margin=(6, 10, 0, 10), gap="4px",
            ),
            self._note,
            self._plot,
            self._rows,
            sizing_mode="stretch_width",
            margin=0,
        )  # fmt: skip
        self._choice.param.watch(self._on_choice, "value")
        for field in (self._a, self._b):
            field.param.watch(self._on_range, "value")
        self._against.param.watch(self._on_run, "value")
        context.param.watch(self._draw, ["index", "filtered_uids", "other_run"])
        context.param.watch(self._list_runs, "runs")
        context.selection.param.watch(self._draw, ["step", "split"])
        context.selection.param.watch(self._plot.update, "dark")
        self.param.watch(self._on_active, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _on_active(self, *_: Any) -> None:
        """Compare the sets when the view is opened; end an unfinished comparison when it is closed."""
        if not self.active:
            self._work.stop()
            if self._found is None or not self._found.complete:
                self._key = ()
        elif self._opened:
            self._list_runs()
            self._draw()
        else:
            self._opened = True
            self._on_choice()

    def _on_choice(self, *_: Any) -> None:
        """Show the fields of the chosen sets, with the usual ranges."""
        choice = self._choice.value
        a, b = usual_ranges(self.context.snapshot) if choice == RANGES else ("", "")
        self._updating = True
        placeholder = tr("the step before") if choice == STEPS else tr("all steps")
        self._a.param.update(visible=choice in (RANGES, RUNS), value=a, placeholder=tr("all steps"))
        self._b.param.update(visible=choice != FILTERED, value=b, placeholder=placeholder)
        self._against.visible, self._versus.visible = choice == RUNS, choice != FILTERED
        self._updating = False
        self._list_runs()
        self._draw()

    def _list_runs(self, *_: Any) -> None:
        """List the other runs, and choose the first one if none is chosen."""
        if not self.active or self._choice.value != RUNS:
            return
        context, selection = self.context, self.context.selection
        others = {label: name for name, label in run_labels(context.runs).items()}
        others = {label: name for label, name in others.items() if name != selection.run}
        chosen = (
            selection.compared_run
            if selection.compared_run in others.values()
            else next(iter(others.values()), "")
        )
        self._updating = True
        self._against.param.update(options=others, value=chosen or None)
        self._updating = False
        if chosen != selection.compared_run:
            selection.compared_run = chosen

    def _on_run(self, event: Any) -> None:
        if not self._updating and event.new:
            self.context.selection.compared_run = event.new

    def _on_range(self, *_: Any) -> None:
        if not self._updating:
            self._draw()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        """Compare the chosen sets in the background; a run that grows is not compared again by itself."""
        choice, selection = self._choice.value, self.context.selection
        if not self.active or (choice == FILTERED and selection.filter == self._own_filter):
            return
        try:
            sides = sides_of(self.context, choice, self._a.value or "", self._b.value or "")
        except RLPanelError as error:
            self._fail(str(error))
            return
        key = tuple(
            (side.index, side.view.snapshot.split, side.name, len(side.rows), hash(side.rows.tobytes()))
            for side in (sides.a, sides.b)
        )
        if key == self._key:
            return
        self._key, self._sides = key, sides
        for side in (sides.a, sides.b):
            if not len(side.rows):
                self._fail(tr("There are no samples in: {name}", name=side.name), keep=True)
                return
        self._work.start(contrast(sides.a, sides.b, exclude=sides.exclude))

    def _fail(self, text: str, *, keep: bool = False) -> None:
        """Show why there is no contrast."""
        self._work.stop()
        self._found = None
        if not keep:
            self._key = ()
        self._stop.visible = False
        self._say(f"{text[:1].upper()}{text[1:]}.")
        self._rows.param.update(rows=[], titles=[])
        self._plot.update()

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._key = ()
        self._stop.visible = False
        if self._found is not None:
            self._say(tr("{summary} Stopped before all texts were read.", summary=_summary(self._found)))

    def _say(self, text: str) -> None:
        self._note.html = f"<p>{safe_text(text)}</p>"

    def _show(self, found: Contrast) -> None:
        """Show a partial or the complete result."""
        before, self._found = self._found, found
        self._stop.visible = not found.complete
        self._say(_summary(found))
        if before is None or before.differences != found.differences or before.a is not found.a:
            rows = [_row(str(at), difference) for at, difference in enumerate(found.differences)]
            titles = ["", tr("effect"), "", tr("first"), tr("second"), "±"]
            self._rows.param.update(titles=titles if rows else [], rows=rows, chosen="")
            self._plot.update()

    def _element(self) -> Any:
        differences = self._found.differences if self._found is not None else ()
        labels = [well_formed(marked_line(label_of(difference), LABEL_CHARS)) for difference in differences]
        effects = np.array([difference.tested.effect for difference in differences])
        errors = np.array([difference.tested.error for difference in differences])
        dark, axis = self.context.selection.dark, tr("effect, standard deviations")
        return effect_bars(labels, effects, errors, dark, axis) if labels else None

    def _pick(self, key: str) -> None:
        """Show the samples with the clicked feature, of the set that has more of them."""
        found, sides = self._found, self._sides
        if found is None or sides is None or not key.isdecimal() or int(key) >= len(found.differences):
            return
        difference = found.differences[int(key)]
        within, uids, step = sides.within, difference.uids_a, sides.step
        if difference.tested.effect < 0 and found.b.index is self.context.index:
            within, uids, step = sides.within_b, difference.uids_b, sides.step_b
        self._own_filter = both(within, difference.where)
        show_samples(self.context, self._own_filter, uids, step)


def _summary(found: Contrast) -> str:
    """Return what was compared, and how much differs."""
    sizes = tr(
        "{first} ({first_count:,} samples) against {second} ({second_count:,})",
        first=found.a.name,
        first_count=len(found.a.rows),
        second=found.b.name,
        second_count=len(found.b.rows),
    )
    sizes = f"{sizes[:1].upper()}{sizes[1:]}"
    if not found.complete:
        return tr(
            "{sizes}. Reading {texts_read:,} of {texts_total:,} responses …",
            sizes=sizes,
            texts_read=found.texts_read,
            texts_total=found.texts_total,
        )
    count, tried = len(found.differences), found.columns_tried + found.features_tried
    named = tr("{count:,} differences", count=count) if count != 1 else tr("1 difference")
    text = tr(
        "{sizes}: {named} of at least {value:g} standard deviations that chance does not "
        "explain, of {tried:,} things compared.",
        sizes=sizes,
        named=named,
        value=MIN_EFFECT,
        tried=tried,
    )
    if found.is_sampled and found.texts_total:
        text += tr(" Words are those of {texts_total:,} responses.", texts_total=found.texts_total)
    return text


def _row(key: str, difference: Difference) -> dict[str, Any]:
    tested = difference.tested
    is_mean = difference.kind in ("number", "script")
    values = [number(tested.a), number(tested.b)] if is_mean else [f"{tested.a:.1%}", f"{tested.b:.1%}"]
    first = tr("{count_a:,} of {size_a:,}", count_a=difference.count_a, size_a=difference.size_a)
    second = tr("{count_b:,} of {size_b:,}", count_b=difference.count_b, size_b=difference.size_b)
    tip = tr(
        "z = {z:.1f}; {first} samples against {second}. Click to see samples.",
        z=tested.z,
        first=first,
        second=second,
    )
    if difference.kind == "number":
        tip = f"{describe(difference.name).help} {tip}"
    return link_row(
        key, label_of(difference), number(tested.effect, sign=True), tested.effect / 3,
        [*values, number(tested.error)], tip=tip, signed=True,
    )  # fmt: skip


def _range_field(name: str, label: str) -> pn.widgets.TextInput:
    return text_field(name, label, width=120, visible=False)
