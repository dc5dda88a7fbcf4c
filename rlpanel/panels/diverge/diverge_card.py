"""Part of the page *Compare*: where the other run leaves this one, as a plot, settings and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewable, Viewer

from rlpanel.board_url import SAMPLES, STEP, TIME
from rlpanel.divergence.parting import Parting
from rlpanel.divergence.run_divergence import ComparedSide, Divergence, find_divergence
from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.panels.compare.runs_tab import RunsTab
from rlpanel.panels.explain.link_rows import LinkRows, caption, link_row, show_samples
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.config.config_values import ConfigValue, setting_value

# -- parting plot --------------------------------------------------------------------------------------
# Both runs' values of a number over their common steps as SVG, with a mark where they part.


#: Size of the drawing's own coordinates; the browser stretches it.
_WIDTH, _HEIGHT = 1000.0, 120.0
#: Most points of a line.
_MAX_POINTS = 600


def parting_svg(
    steps: np.ndarray, here: np.ndarray, there: np.ndarray, onset: int | None, names: tuple[str, str]
) -> str:
    """Return the two lines as HTML; empty if there is nothing to draw.

    Parameters
    ----------
    steps : ndarray of int, shape (P,)
    here, there : ndarray of float, shape (P,)
        Values of the first and the second run.
    onset : int or None
        Position where they part.
    names : tuple of str
        Labels of the runs.
    """
    both = np.concatenate([here, there])
    known = both[np.isfinite(both)]
    if len(known) < 2:
        return ""
    low, high = float(known.min()), float(known.max())
    room = (high - low) or 1.0

    def line(values: np.ndarray, color: str) -> str:
        at = np.flatnonzero(np.isfinite(values))
        at = at[:: max(1, len(at) // _MAX_POINTS)]
        across = at / max(len(values) - 1, 1) * _WIDTH
        down = 4 + (high - values[at]) / room * (_HEIGHT - 8)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        return f'<polyline points="{points}" style="stroke: var(--rl-{color})"/>'

    mark = ""
    if onset is not None:
        x = onset / max(len(steps) - 1, 1) * _WIDTH
        mark = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT:.0f}"/>'
    legend = "".join(
        f'<span><i style="background: var(--rl-{color})"></i>{safe_text(name)}</span>'
        for name, color in zip(names, ("policy", "reference"), strict=True)
    )
    return (
        f'<div class="legend">{legend}<em>{number(low)} – {number(high)}</em></div>'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" aria-hidden="true">'
        f"{line(here, 'policy')}{line(there, 'reference')}{mark}</svg>"
        f'<div class="axis"><span>{int(steps[0]):,}</span><span>{int(steps[-1]):,}</span></div>'
    )


# -- diverge card --------------------------------------------------------------------------------------
# Part of the page *Compare*: where the other run leaves this one, what differs, settings and samples.


#: Axes by label.
_AXES = {
    marked("step"): STEP,
    marked("samples seen"): SAMPLES,
    marked("tokens seen"): "tokens",
    marked("wall time"): TIME,
}
#: Most numbers and settings that are listed.
_MAX_ROWS, _MAX_SETTINGS = 12, 30


class DivergeCard(Viewer):
    """Sentence, numbers that differ, curves of the chosen one, samples and settings of two runs.

    Parameters
    ----------
    context : Context
        Its ``other_run`` is the run that is compared.
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found = Divergence(0)
        self._key: tuple[object, ...] = ()
        self._work: BackgroundTask[Divergence] = BackgroundTask(self._show, context.threads.views)
        self.head = self._html("rl-diverge-head")
        self._align = select_field("diverge-align", tr("Align by"), 150)
        self._align.param.update(options={tr(label): key for label, key in _AXES.items()}, value=STEP)
        self._align.param.watch(self._restart, "value")
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-diverge-stop"])
        self._again = button(
            tr("Compare again"), self._restart, visible=False, css_classes=["rl-diverge-again"]
        )
        self.numbers = LinkRows(self._choose, "rl-diverge-numbers")
        self.plot = self._html("rl-diverge-plot")
        self.samples = LinkRows(self._open, "rl-diverge-samples")
        self.settings = self._html("rl-diverge-settings")
        self._parts = [self.numbers, self.plot, self.samples, self.settings]
        self._column = pn.Column(
            self.head,
            FieldRow(caption(tr("Align by")), self._align, self._stop, self._again, margin=(0, 10)),
            *self._parts,
            sizing_mode="stretch_width",
            margin=(6, 0),
            css_classes=["rl-diverge"],
        )
        context.param.watch(self._draw, ["index", "other_run"])
        context.param.watch(self._on_view, "view")
        self.param.watch(self._draw, "active")
        self._show_parts(False)

    def __panel__(self) -> Viewable:
        return self._column

    @staticmethod
    def _html(name: str) -> Html:
        return Html(
            stylesheets=[theme.CSS, read_assets("panels/diverge/diverge_card.css")],
            sizing_mode="stretch_width",
            margin=(4, 14),
            css_classes=[name],
        )

    def _show_parts(self, shown: bool) -> None:
        for part in self._parts:
            part.visible = shown

    # -- comparing -------------------------------------------------------------------------------

    def _on_view(self, *_: Any) -> None:
        """Compare another run or split; offer to compare again when the run has new steps."""
        key = self._key_of()
        if self.active and key is not None and key[:4] != self._key[:4]:
            self._draw()
        elif self.active and self._found.pairs is not None:
            self._again.visible = key != self._key

    def _sides(self) -> tuple[ComparedSide, ComparedSide] | None:
        context, selection = self.context, self.context.selection
        other = context.other_run
        if selection.compared_run == selection.run or context.index is None:
            return None
        if other is None or other.index is None:
            return None
        ready = all(
            view.snapshot.samples and view.snapshot.progress.caught_up for view in (context.view, other.view)
        )
        return (
            (ComparedSide(context.index, context.view), ComparedSide(other.index, other.view))
            if ready
            else None
        )

    def _key_of(self) -> tuple[object, ...] | None:
        sides = self._sides()
        if sides is None:
            return None
        names = [side.index.path for side in sides]
        steps = [len(side.view.snapshot.steps.values) for side in sides]
        return (*names, sides[0].view.snapshot.split, self._align.value, *steps)

    def _draw(self, *_: Any) -> None:
        key = self._key_of()
        self._column.visible = key is not None
        if not self.active or key is None:
            if not self.active:
                self._on_stop()
            return
        if key[:4] != self._key[:4]:
            self._restart()

    def _restart(self, *_: Any) -> None:
        sides, key = self._sides(), self._key_of()
        if sides is None or key is None or not self.active:
            return
        self._key, self._found = key, Divergence(0)
        self._show_parts(False)
        self._again.visible = False
        try:
            results = find_divergence(*sides, key[3])  # type: ignore[arg-type]
            first = next(results)
        except SettingError as error:
            self._say(str(error))
            return
        if first.pairs is not None:
            self._show(first)
            return
        self._stop.visible = True
        self._show(first)
        self._work.start(results)

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        if self._found.pairs is None:
            self._key = ()
            self._again.visible = self._stop.visible
        self._stop.visible = False

    # -- drawing ---------------------------------------------------------------------------------

    def _say(self, text: str, *notes: str, more: str = "") -> None:
        words = tr("Where they part")
        title = f"<h3>{safe_text(words)}</h3>"
        self.head.html = title + f"<p>{safe_text(text)}</p>" + more

    def _show(self, found: Divergence) -> None:
        self._found = found
        if found.pairs is None:
            self._say(tr("Comparing step by step: {done} numbers …", done=found.done))
            return
        self._stop.visible = False
        self._say(self._sentence(found), more=_caveats_html(found))
        partings = found.partings[:_MAX_ROWS]
        self._show_parts(True)
        self.numbers.visible = self.plot.visible = bool(partings)
        self.samples.visible = bool(found.samples)
        largest = max((min(each.z, 100.0) for each in partings), default=1.0)
        titles = ["", tr("step"), tr("what differs"), tr("difference"), "±", tr("this run"), tr("other run")]
        self.numbers.param.update(
            titles=titles,
            rows=[self._row(at, each, largest) for at, each in enumerate(partings)],
            chosen="0" if partings else "",
        )
        if partings:
            self._choose("0")
        apart = [abs(each.against_value - each.value) for each in found.samples]
        widest = max((each for each in apart if np.isfinite(each) and each), default=1.0)
        rows: list[dict[str, Any]] = [
            link_row(
                each.uid or each.against_uid,
                tr(
                    "step {step}: {uid}",
                    step=each.against_step or each.step,
                    uid=each.uid or each.against_uid,
                ),
                number(each.against_value - each.value, sign=True),
                size / widest,
                [number(each.value), number(each.against_value)],
                tip=tr("the same prompt in both runs") if each.same_prompt else "",
            )
            for each, size in zip(found.samples, apart, strict=True)
        ]
        self.samples.param.update(
            titles=[
                "",
                "Δ",
                tr("samples that show {number}", number=found.shown),
                tr("this run"),
                tr("other run"),
            ],
            rows=rows,
        )
        self._show_settings(found)

    def _row(self, at: int, parting: Parting, largest: float) -> dict[str, Any]:
        pairs = self._found.pairs
        assert pairs is not None
        error = number(parting.error) if np.isfinite(parting.error) else "–"
        difference = number(parting.difference, sign=True)
        return link_row(
            str(at),
            parting.stream.stream.name,
            f"{int(pairs.first_there[parting.onset]):,}",
            min(parting.z, 100.0) / largest,
            [difference, error, number(parting.here), number(parting.there)],
            tip=tr("{z} standard errors", z=number(min(parting.z, 1e6))),
        )

    def _sentence(self, found: Divergence) -> str:
        pairs = found.pairs
        assert pairs is not None
        if not found.partings:
            power = next((each for each in found.powers if np.isfinite(each.size)), None)
            text = tr(
                "No difference beyond the noise of both runs in {count} common steps.", count=len(pairs)
            )
            if power is None:
                return text
            more = tr(
                "A lasting difference in {name} of {size} from the middle on would be found in "
                "80 of 100 cases.",
                name=power.name,
                size=number(power.size),
            )
            return f"{text} {more}"
        first = found.partings[0]
        values = {
            "name": first.stream.stream.name,
            "difference": number(first.difference, sign=True),
            "here": number(first.here),
            "there": number(first.there),
            "step": f"{int(pairs.first_there[first.onset]):,}",
        }
        if first.from_start:
            return tr(
                "The other run differs from the first step on: {name} by {difference} ({here} and {there}).",
                **values,
            )
        return tr(
            "The other run leaves this one from step {step} on: {name} differs by {difference} "
            "({here} and {there}).",
            **values,
        )

    def _labels(self) -> tuple[str, str]:
        names, selection = run_labels(self.context.runs), self.context.selection
        here, there = (names.get(name, name) for name in (selection.run, selection.compared_run))
        return here, there

    def _choose(self, key: str) -> None:
        parting, pairs = self._found.partings[int(key)], self._found.pairs
        assert pairs is not None
        self.plot.html = parting_svg(
            pairs.first_there, parting.stream.here, parting.stream.there, parting.onset, self._labels()
        )

    def _open(self, uid: str) -> None:
        """Show a sample of this run; of one that only the other run has, open that run."""
        pair = next((each for each in self._found.samples if uid in (each.uid, each.against_uid)), None)
        if pair is None:
            return
        if pair.uid:
            show_samples(self.context, "", [pair.uid])
            self.context.selection.page = "samples"
        else:
            other = self.context.selection.compared_run
            self.context.selection.param.update(run=other, uid=pair.against_uid, page="samples", zoom=None)

    def _show_settings(self, found: Divergence) -> None:
        words = tr("Settings that differ")
        title = f"<h3>{safe_text(words)}</h3>"
        if not all(found.has_settings):
            text = tr("No configuration was found in the folder of at least one run.")
            self.settings.html = f'{title}<p class="note">{safe_text(text)}</p>'
            return
        head = "".join(f"<th>{safe_text(each)}</th>" for each in ("", *self._labels()))
        rows = "".join(
            f"<tr><td>{safe_text(each.name)}</td><td>{_cell(each.here, each.in_here)}</td>"
            f"<td>{_cell(each.there, each.in_there)}</td></tr>"
            for each in found.settings[:_MAX_SETTINGS]
        )
        table = f"<table><tr>{head}</tr>{rows}</table>" if rows else ""
        notes = [] if rows else [tr("All settings that both folders hold are equal.")]
        if (left := len(found.settings) - _MAX_SETTINGS) > 0:
            notes.append(tr("{count} further settings differ.", count=left))
        if found.hidden:
            notes.append(
                tr("{count} settings may be secrets: they are hidden and not compared.", count=found.hidden)
            )
        self.settings.html = (
            title + table + "".join(f'<p class="note">{safe_text(each)}</p>' for each in notes)
        )


def _cell(value: ConfigValue, known: bool) -> str:
    return safe_text(setting_value(value)) if known else "–"


def _caveats_html(found: Divergence) -> str:
    items = "".join(f"<li>{safe_text(tr(each.text, **dict(each.values)))}</li>" for each in found.caveats)
    if found.only_one:
        text = tr(
            "{count} numbers are logged by one run only and are not compared.", count=len(found.only_one)
        )
        items += f"<li>{safe_text(text)}</li>"
    return f"<ul>{items}</ul>" if items else ""


def compare_page(context: Context) -> RunsTab:
    """Return the page *Compare* with this part in it."""
    tab, card = RunsTab(context), DivergeCard(context)
    tab.insert(card)
    tab.param.watch(lambda event: card.param.update(active=event.new), "active")
    card.active = tab.active
    return tab
