"""The chain of changes that leads to a bad step: its curves, links to samples, and what is unknown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.bisect.bisection import Bisection, Link, Sentence
from rlpanel.bisect.chain import BisectProgress, bisect_run
from rlpanel.errors import RLPanelError
from rlpanel.findings.check import known_findings
from rlpanel.number_text import number
from rlpanel.panels.explain.link_rows import LinkRows, RowsPlot, caption, link_row, note_pane, show_samples
from rlpanel.panels.inputs.input_fields import button, text_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.plots.plot_elements import ON_BOARD, finish_on_board, holoviews
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import ChainMark
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Headings of the changes beside the chain, by role.
_ALSO = {
    "nothing": marked("Changed too, explains nothing"),
    "unknown": marked("Changed too, its part cannot be measured"),
    "follows": marked("Changed with the chain"),
}
_STATES = {
    "noise": marked("No change beyond noise"),
    "short": marked("Too few steps"),
    "alone": marked("Nothing that is logged explains the change"),
    "chain": marked("What changed first"),
}
#: Height of the curve of a link, in px.
_CURVE = 96


class BisectView(Viewer):
    """Number and bad step, progress, the chain's curves, and a row for each change."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is computed before.")
    asked = param.Parameter(default=(), doc="Bad step and number; empty: what the findings say.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found: Bisection | None = None
        self._links: list[Link] = []
        self._key: tuple[object, ...] = ()
        self._updating = False
        self._work: BackgroundTask[BisectProgress | Bisection | str] = BackgroundTask(
            self._show, context.threads.views
        )
        self._number = text_field("bisect-number", tr("Number"), "reward", width=180)
        self._bad = text_field("bisect-step", tr("Bad step"), width=90)
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-bisect-stop"])
        self._note = note_pane("rl-bisect-note")
        self._rows = LinkRows(self._pick, "rl-bisect-rows")
        self._plot = RowsPlot(self._rows, "rl-bisect-plot", self._element)
        self._unknown = note_pane("rl-bisect-unknown")
        self._column = pn.Column(
            pn.FlexBox(
                pn.Row(caption(tr("Number")), self._number, margin=0),
                pn.Row(caption(tr("Bad step")), self._bad, self._stop, margin=0),
                margin=(6, 10, 0, 10), gap="4px",
            ),
            self._note,
            self._plot,
            self._rows,
            self._unknown,
            sizing_mode="stretch_width",
            margin=(0, 0, 16, 0),
        )  # fmt: skip
        for field in (self._number, self._bad):
            field.param.watch(self._on_field, "value")
        context.param.watch(self._draw, "index")
        context.param.watch(self._on_view, "view")
        context.param.watch(self._forget, "index")
        context.selection.param.watch(self._forget, "split")
        context.selection.param.watch(self._draw, "split")
        context.selection.param.watch(self._plot.update, "dark")
        self.param.watch(self._draw, ["active", "asked"])

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _on_view(self, *_: Any) -> None:
        """Start as soon as the run has been read."""
        if self.active and not self._key:
            self._draw()

    def _forget(self, *_: Any) -> None:
        """Take the chain of another run or split off the curves."""
        self.context.chain_marks = []

    def _on_field(self, *_: Any) -> None:
        if not self._updating:
            bad, name = (self._bad.value or "").strip(), (self._number.value or "").strip()
            self.asked = (bad, name) if name else (bad,)

    def _draw(self, *_: Any) -> None:
        """Walk back, unless that is shown already; a run that grows is not compared again by itself."""
        context, snapshot = self.context, self.context.snapshot
        if not self.active:
            if self._stop.visible:
                self._work.stop()
                self._key, self._stop.visible = (), False
            return
        bad, name = (*self.asked, "", "")[:2]
        self._updating = True
        self._bad.value, self._number.value = bad, name or "reward"
        self._updating = False
        if context.index is None or not snapshot.samples:
            self._say(tr("This run has no samples yet."))
            return
        if not snapshot.progress.caught_up:
            self._say(tr("The run is still being read …"))
            return
        if bad and not bad.lstrip("-").isdecimal():
            self._say(tr("{text!r} is not a step: write its number", text=bad[:40]))
            return
        key = (context.index, snapshot.split, bad, name)
        if key == self._key:
            return
        self._key, self._stop.visible = key, True
        self._say(tr("Walking back …"))
        step = int(bad) if bad else None
        view = context.view
        self._work.start(_compute(context.index, view, name or "reward", step))

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._key, self._stop.visible = (), False
        self._say(tr("Stopped. Change the step or the number to start again."))

    def _say(self, text: str) -> None:
        self._note.html = note_html(text)

    def _show(self, found: BisectProgress | Bisection | str) -> None:
        if isinstance(found, BisectProgress):
            self._say(tr("Walking back, {done:.0%}: {stage}", done=found.done, stage=tr(found.text)))
            return
        self._stop.visible = False
        self._found, self._links = (found, []) if isinstance(found, Bisection) else (None, [])
        self.context.chain_marks = _marks(self._found)
        if isinstance(found, str):
            self._say(found)
            self._rows.param.update(titles=[], rows=[], chosen="")
            self._unknown.html = ""
            self._plot.update()
            return
        title = tr(_STATES[found.state])
        self._note.html = f"<p><b>{safe_text(title)}</b></p><p>{safe_text(_said(found.sentence))}</p>"
        rows: list[dict[str, Any]] = [self._row(link) for link in found.links]
        for role, heading in _ALSO.items():
            own = [link for link in found.also if link.role == role]
            rows += [{"heading": tr(heading)}] if own else []
            rows += [self._row(link) for link in own]
        titles = ["", tr("explains"), tr("change"), tr("step"), tr("before"), tr("after"), tr("error")]
        self._rows.param.update(titles=titles if rows else [], rows=rows, chosen="")
        said = [*([found.removed] if found.removed is not None else []), *found.unknown]
        texts = [_said(each) for each in said]
        if found.tests:
            texts.append(
                tr(
                    "{tests:,} series of {steps:,} steps and {samples:,} samples were compared.",
                    tests=found.tests, steps=found.steps, samples=found.samples,
                )
            )  # fmt: skip
        self._unknown.html = "".join(note_html(text) for text in texts)
        self._plot.update()

    def _row(self, link: Link) -> dict[str, Any]:
        key = str(len(self._links))
        self._links.append(link)
        is_known = link.share == link.share
        place = f" · {link.place}" if link.place and link.place not in link.name else ""
        tip = tr("Only its time is known. Click to see its first step.")
        if is_known:
            share, error = f"{link.share:.0%}", f"{2 * link.share_error:.0%}"
            tip = tr(
                "Explains {share} ± {error} of the change. Click to see the samples.",
                share=share,
                error=error,
            )
        return link_row(
            key,
            f"{link.name}{place}",
            f"{link.share:.0%}" if is_known else "–",
            float(np.clip(link.share, 0, 1)) if is_known else 0.0,
            [f"{link.step:,}", _value(link, link.before), _value(link, link.after), _value(link, link.error)],
            tip=tip,
        )

    def _pick(self, key: str) -> None:
        """Show the samples of a change at its first step."""
        if not key.isdecimal() or int(key) >= len(self._links):
            return
        link = self._links[int(key)]
        show_samples(self.context, link.where, link.uids[:1], link.step)

    def _element(self) -> Any:
        found = self._found
        shown = [link for link in found.links if link.curve] if found is not None else []
        if found is None or not shown:
            return None
        return _curves(found.all_steps, shown, self.context.selection.dark)


def _marks(found: Bisection | None) -> list[ChainMark]:
    """Return what the curves of the run mark of an answer: its chain."""
    if found is None or found.state != "chain":
        return []
    return [ChainMark(link.step, link.text, link.effect, link.curve_name) for link in found.links]


def _said(sentence: Sentence) -> str:
    return tr(sentence.template, **sentence.values)


def _value(link: Link, value: float) -> str:
    return f"{value:.1%}" if link.unit == "%" and value == value else number(value)


def _curves(steps: Sequence[int], links: Sequence[Link], dark: bool) -> Any:
    """Return the curve of each link, shaded from its first step on; they share the axis of steps."""
    hv, colors = holoviews(), theme.palette(dark)
    rows = []
    for at, link in enumerate(links):
        color = colors["bad" if link.role == "target" else "policy"]
        curve = hv.Curve((np.array(steps), np.array(link.curve)), "step", f"value {at}")
        curve = curve.opts(color=color, line_width=1.5, backend="bokeh")
        span = hv.VSpan(link.step - 0.5, steps[-1] + 0.5).opts(
            color=color, alpha=0.14, line_width=0, backend="bokeh"
        )
        place = f" in {link.place}" if link.place and link.place not in link.name else ""
        title = f"{link.step:,}: {link.name}{place}"[:110]
        options = {**ON_BOARD, "height": _CURVE + (18 if at == len(links) - 1 else 0), "responsive": True}
        options |= {"title": title, "fontsize": {"title": "11px"}, "xlabel": "", "ylabel": ""}
        rows.append((span * curve).opts(**options, hooks=[_hook(dark)]))
    return rows[0] if len(rows) == 1 else hv.Layout(rows).cols(1).opts(toolbar=None, backend="bokeh")


def _hook(dark: bool) -> Any:
    def finish(plot: Any, _: Any) -> None:
        figure = plot.state
        finish_on_board(figure, dark)
        figure.title.text_color = theme.palette(dark)["text"]
        figure.yaxis.ticker.desired_num_ticks = 3
        figure.toolbar_location = None

    return finish


def _compute(
    index: RunIndex, view: RunView, target: str, bad: int | None
) -> Iterator[BisectProgress | Bisection | str]:
    findings = known_findings(index, view.snapshot.split) if bad is None else []
    try:
        yield from bisect_run(index, view, target, bad, findings, time.time())
    except RLPanelError as error:
        yield f"{error}."
