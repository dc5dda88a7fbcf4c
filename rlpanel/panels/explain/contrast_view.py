"""Differences between two sets of samples: rows with the effect and its error, which lead to the samples."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.difference import MIN_EFFECT, Difference
from rlpanel.analysis.selection_contrast import Contrast, contrast
from rlpanel.errors import RLPanelError
from rlpanel.number_text import number
from rlpanel.panels.explain.contrast_sides import (
    CHOICES,
    FILTERED,
    RANGES,
    RUNS,
    STEPS,
    Sides,
    marked_of,
    range_text,
    ranges_of,
    sides_of,
    usual_ranges,
)
from rlpanel.panels.explain.link_rows import (
    LinkRows,
    both,
    caption,
    link_row,
    note_pane,
    show_samples,
)
from rlpanel.panels.inputs.input_fields import button, select_field, text_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.ui.theme import safe_text

#: Number of rows that are shown at first.
FIRST_ROWS = 8


class ContrastView(Viewer):
    """Choice of the sets, progress and rows."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is compared before.")
    asked = param.Parameter(
        default=(),
        doc="Compared sets: choice and two ranges; empty: those of the opened finding, else steps.",
    )

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._sides: Sides | None = None
        self._found: Contrast | None = None
        self._key: tuple[object, ...] = ()
        #: Filter that a click on a row set; it must not change the compared sets.
        self._own_filter: str | None = None
        self._updating = self._is_whole = False
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
        self._all = button("", self._show_all, visible=False, css_classes=["rl-contrast-all"])
        self._column = pn.Column(
            pn.FlexBox(
                self._choice, self._a, self._versus, self._against, self._b, self._stop,
                margin=(6, 10, 0, 10), gap="4px",
            ),
            self._note,
            self._rows,
            self._all,
            sizing_mode="stretch_width",
            margin=0,
        )  # fmt: skip
        self._choice.param.watch(self._on_choice, "value")
        for field in (self._a, self._b):
            field.param.watch(self._on_range, "value")
        self._against.param.watch(self._on_run, "value")
        context.param.watch(self._draw, ["index", "filtered_uids", "other_run"])
        context.param.watch(self._list_runs, "runs")
        context.param.watch(self._on_asked, "shaded_steps")
        context.selection.param.watch(self._draw, ["step", "split"])
        self.param.watch(self._on_active, "active")
        self.param.watch(self._on_asked, "asked")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _on_active(self, *_: Any) -> None:
        """Compare the sets when the view is opened; end an unfinished comparison when it is closed."""
        if not self.active:
            self._work.stop()
            if self._found is None or not self._found.complete:
                self._key = ()
        else:
            self._on_asked()

    def _on_choice(self, *_: Any) -> None:
        """Compare other sets, with the usual ranges."""
        if not self._updating:
            choice = self._choice.value
            self.asked = (choice, *(usual_ranges(self.context.snapshot) if choice == RANGES else ()))

    def _wanted(self) -> tuple[str, str, str]:
        """Return the choice of the sets, and the two ranges."""
        context, (choice, a, b) = self.context, (*self.asked, "", "", "")[:3]
        if choice in CHOICES.values():
            return choice, a, b
        found = marked_of(context)
        ranges = ranges_of(found, context.snapshot) if found is not None else None
        if ranges is None:
            return STEPS, "", ""
        return RANGES, range_text(ranges.after), range_text(ranges.before)

    def _on_asked(self, *_: Any) -> None:
        """Show the fields of the wanted sets, and compare these."""
        if not self.active:
            return
        choice, a, b = self._wanted()
        self._updating = True
        self._choice.value = choice
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
            self.asked = (self._choice.value, self._a.value or "", self._b.value or "")

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
        self._all.visible = False
        self._rows.param.update(rows=[], titles=[])

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._key = ()
        self._stop.visible = False
        if self._found is not None:
            self._say(tr("{summary} Stopped before all texts were read.", summary=_summary(self._found)))

    def _say(self, *texts: str) -> None:
        self._note.html = "".join(f"<p>{safe_text(text)}</p>" for text in texts if text)

    def _show(self, found: Contrast) -> None:
        """Show a partial or the complete result."""
        before, self._found = self._found, found
        self._stop.visible = not found.complete
        self._say(self._lead(found), _summary(found))
        if before is None or before.differences != found.differences or before.a is not found.a:
            self._is_whole = False
            self._show_rows()

    def _show_all(self, *_: Any) -> None:
        self._is_whole = True
        self._show_rows()

    def _show_rows(self) -> None:
        """Show the largest differences, or all."""
        found = self._found
        if found is None:
            return
        order = self._order(found)
        rows = [_row(str(at), found.differences[at]) for at in order]
        shown = rows if self._is_whole else rows[:FIRST_ROWS]
        ranges = (self._a.value, self._b.value) if self._choice.value == RANGES else ("", "")
        titles = ["", tr("effect"), "", ranges[0] or tr("first"), ranges[1] or tr("second"), "±"]
        self._rows.param.update(titles=titles if rows else [], rows=shown, chosen="")
        self._all.param.update(
            label=tr("Show all {count:,} differences", count=len(rows)), visible=len(shown) < len(rows)
        )

    def _order(self, found: Contrast) -> list[int]:
        """Return the positions of the differences: that of the opened finding's number first."""
        marked = marked_of(self.context)
        column = marked.column if marked is not None else ""
        return sorted(
            range(len(found.differences)),
            key=lambda at: (found.differences[at].kind, found.differences[at].name) != ("number", column),
        )

    def _lead(self, found: Contrast) -> str:
        """Return the largest differences as a sentence; empty while there are none."""
        first = [found.differences[at] for at in self._order(found)[:3]]
        if not first:
            return ""
        texts = [
            tr("{label} {value} against {other}", label=_words(each), value=value, other=other)
            for each in first
            for value, other in [_levels(each)]
        ]
        return tr("Most different: {differences}.", differences="; ".join(texts))

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


def label_of(difference: Difference) -> str:
    """Return a difference's feature in the language of the page."""
    name, kind = difference.name, difference.kind
    if kind == "number":
        return described(name).axis
    if kind == "label":
        return name
    if kind in ("missing", "script"):
        text = marked("{name} is missing") if kind == "missing" else marked("share of {name} letters")
        return tr(text, name=name)
    words = {
        ("prompt", False): marked("prompt contains “{name}”"),
        ("prompt", True): marked("prompt begins with “{name}”"),
        ("truth", False): marked("ground truth contains “{name}”"),
        ("truth", True): marked("ground truth begins with “{name}”"),
        ("", False): marked("contains “{name}”"),
        ("", True): marked("begins with “{name}”"),
    }
    of = kind.split(" ")[0]
    return tr(words[of if of in ("prompt", "truth") else "", kind.endswith("opening")], name=name)


def _words(difference: Difference) -> str:
    """Return a difference's feature in words, without its unit."""
    return described(difference.name).label if difference.kind == "number" else label_of(difference)


def _levels(difference: Difference) -> list[str]:
    """Return the means, or the shares, of the two sets as texts."""
    tested = difference.tested
    if difference.kind in ("number", "script"):
        return [number(tested.a), number(tested.b)]
    return [f"{tested.a:.1%}", f"{tested.b:.1%}"]


def _row(key: str, difference: Difference) -> dict[str, Any]:
    tested = difference.tested
    values = _levels(difference)
    first = tr("{count_a:,} of {size_a:,}", count_a=difference.count_a, size_a=difference.size_a)
    second = tr("{count_b:,} of {size_b:,}", count_b=difference.count_b, size_b=difference.size_b)
    tip = tr(
        "z = {z:.1f}; {first} samples against {second}. Click to see samples.",
        z=tested.z,
        first=first,
        second=second,
    )
    if difference.kind == "number":
        tip = f"{described(difference.name).help} {tip}"
    return link_row(
        key, label_of(difference), number(tested.effect, sign=True), tested.effect / 3,
        [*values, number(tested.error)], tip=tip, signed=True, error=tested.error / 3,
    )  # fmt: skip


def _range_field(name: str, label: str) -> pn.widgets.TextInput:
    return text_field(name, label, width=120, visible=False)
