"""Selects the curves to show, and draws the bar above them: band, zoom, events and legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import param

from rlpanel.board_url import STEP
from rlpanel.display_settings import BANDS, Display
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_marks import EventMark
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import OverlayRun, split_label
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.alignment import AXIS_LABELS, alignment_of, axis_of
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

# -- curve bar -----------------------------------------------------------------------------------------
# The bar above the curves: their band, the zoom, the list of events, and the legend of the runs.


#: Ends of a prefix that labels of runs may share without losing a part of a name.
_ENDS = "/-_. "


class CurveBar(Component):
    """The row above the curves: the choice of the band, the zoom, the list of events, a button per run.

    Its script also shows the values at the mouse in the cards' heads, and scrolls to a card.

    Parameters
    ----------
    context : Context
    zoom : callable
        Shows the steps around the selected one if its argument is true, else all steps.
    """

    band = param.String(default="", doc="The chosen band.")
    bands = param.List(default=[], doc="Pairs of a band and its label.")
    said = param.String(default="", doc="The bands that the cards show.")
    drawn = param.Integer(default=0, doc="Number of choices of a band that are drawn.")
    plots = param.Boolean(default=True, doc="Whether cards have plots, which a band and a zoom change.")
    zoom = param.String(default="", doc="The steps of the zoom; empty if all are shown.")
    ends = param.List(default=[], doc="First and last position of the zoom on the axis; empty: all.")
    asked = param.Integer(default=0, doc="Rises when the figures shall show these positions.")
    runs = param.List(default=[], doc="One plain object per run.")
    note = param.String(default="", doc="Text at the end of the row.")
    events = param.List(default=[], doc="Pairs of a step and the text of its mark, by step.")
    step = param.Integer(default=None, allow_None=True, doc="The selected step.")

    _esm = read_assets("panels/ui/dom.js", "panels/curves/curve_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/curves/curve_bar.css")]

    def __init__(self, context: Context, zoom: Callable[[bool], None]) -> None:
        super().__init__(
            sizing_mode="stretch_width",
            margin=(0, 0, 4, 0),
            css_classes=["rl-curve-bar"],
            bands=[[band, tr(label)] for label, band in BANDS.items()],
        )
        self.context, self._zoom = context, zoom
        context.param.watch(self._draw, ["overlays", "hidden_runs", "runs", "view"])
        context.selection.param.watch(self._draw, ["run", "align", "dark"])
        context.selection.param.watch(self._on_step, ["step"])
        context.display.param.watch(self._draw, ["band"])
        self._on_step()
        self._draw()

    def receive(self, message: Any) -> None:
        """Choose a band or a step, zoom, or show or hide a run. The message comes from the browser."""
        match message:
            case ["run", str(key)] if any(run["key"] == key for run in self.runs):
                self.context.hidden_runs = self.context.hidden_runs ^ {key}
            case ["band", str(band)] if band in BANDS.values():
                self.context.display.band = band
                self.drawn += 1
            case ["zoom", bool(near)]:
                self._zoom(near)
            case ["event", int(step)] if any(step == each for each, _ in self.events):
                self.context.choose_step(step)

    def zoom_to(self, ends: tuple[float, ...] | None) -> None:
        """Let all curves show a range of their axis; None: all steps."""
        self.param.update(ends=[*(ends or ())], asked=self.asked + 1)

    def scroll_to(self, position: int, count: int) -> None:
        """Scroll to a card, once the browser has drawn all cards of the row.

        Parameters
        ----------
        position : int
            Position of the card in the row, from 0.
        count : int
            Number of cards in the row.
        """
        self.send({"position": position, "count": count})

    def show_events(self, marks: Mapping[int, EventMark]) -> None:
        """List the marks of the curves: the way to them without a mouse."""
        self.events = [[step, mark.text] for step, mark in marks.items()]

    def _on_step(self, *_: Any) -> None:
        self.step = self.context.selection.step

    def _draw(self, *_: Any) -> None:
        context = self.context
        runs = [self._own_chip(), *map(self._overlay_chip, context.overlays)] if context.overlays else []
        note = self._note()
        prefix = common_prefix([run["title"] for run in runs])
        runs = [{**run, "label": run["title"][prefix:]} for run in runs]
        self.param.update(runs=runs, note=note, band=context.display.band)

    def _own_chip(self) -> dict[str, Any]:
        context = self.context
        name = context.selection.run
        label = next((info.label for info in context.runs if info.name == name), name)
        color = theme.palette(context.selection.dark)["policy"]
        return {
            "key": "",
            "title": split_label(label, context.snapshot),
            "color": color,
            "on": "" not in context.hidden_runs,
            "said": "",
        }

    def _overlay_chip(self, other: OverlayRun) -> dict[str, Any]:
        context = self.context
        return {
            "key": other.key,
            "title": other.label,
            "color": other.color(context.selection.dark),
            "on": other.key not in context.hidden_runs,
            "said": _status(other, alignment_of(context.snapshot, context.selection.align)),
        }

    def _note(self) -> str:
        """Return a note on the curves' axis; empty if it is the step, as chosen."""
        wanted = self.context.selection.align
        actual = alignment_of(self.context.snapshot, wanted)
        if actual != wanted:
            return tr("no timestamps in this run: aligned by step")
        return "" if actual == STEP else tr("aligned by {actual}", actual=AXIS_LABELS[actual])


def _status(other: OverlayRun, alignment: str) -> str:
    """Return why an overlay run has no lines; empty if it has some."""
    snapshot = other.snapshot
    if not snapshot.version or not snapshot.progress.caught_up:
        return tr("reading …")
    if not snapshot.samples:
        return tr("no samples")
    return "" if axis_of(snapshot, alignment) is not None else tr("no timestamps")


def common_prefix(labels: Sequence[str]) -> int:
    """Return the length of the prefix that all labels share, up to the end of a word or folder.

    What is left of a label is never empty.
    """
    if len(labels) < 2:
        return 0
    differs = (at for at, letters in enumerate(zip(*labels, strict=False)) if len(set(letters)) > 1)
    same = min(next(differs, math.inf), min(map(len, labels)) - 1)
    return next((at for at in range(int(same), 0, -1) if labels[0][at - 1] in _ENDS), 0)


# -- curve selection -----------------------------------------------------------------------------------
# Selects the curves to show, and the columns that share a card.


_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
#: Number of default curves; a critic adds its own, and more are drawn only if they are chosen by name.
_DEFAULT_COUNT = 4
_CRITIC = ("var_explained", "value_error")
_OTHERS = ("surprisal_mean", "token_entropy_mean", "reward_gap", "advantage", "prompt_chars")
#: In fewer steps than this, an equal value may be chance.
_FEW_STEPS = 5
#: A mean below this share of the standard deviation is a rounding error of centred values.
_CENTRED = 1e-3
#: Points whose band shows the standard deviation.
_WITH_DEVIATION = Display(band="std")


@dataclass(frozen=True)
class Curve:
    """One card: its title and its columns; the first column gives the value in the head."""

    key: str
    title: str
    columns: tuple[str, ...]
    #: Whether the value axis is logarithmic.
    log: bool = False


def kl_column(context: Context) -> str:
    """Return the sample column of the chosen KL estimator and reduction."""
    reduction = "sum" if context.display.per_sequence else "mean"
    return f"{context.display.kl_estimator}_{reduction}"


def curves_of(context: Context) -> list[Curve]:
    """Return the cards to show: the chosen columns, else the defaults that tell something about the run."""
    view = context.view
    wanted = [trainer_scalars.resolve(view, name) for name in context.selection.curves]
    chosen = [name for name in wanted if trainer_scalars.has_data(view, name)]
    return [_curve(name, context) for name in chosen or _default_names(context)]


def _default_names(context: Context) -> list[str]:
    """Return the default columns: those that every run needs, then those of a critic, then the others."""
    view, kl = context.view, kl_column(context)
    return cached_on(view, "default curves", kl, lambda: _defaults_of(view, kl))


def _defaults_of(view: RunView, kl: str) -> list[str]:
    first = ["reward", kl, _length_column(view)]
    critic = [name for name in _CRITIC if _varies(view, name)]
    others = [] if critic else list(_OTHERS)
    telling = (
        name
        for name in (*first, *critic, *others)
        if view.has(name) and (name == "reward" or (_varies(view, name) and not _is_centred(view, name)))
    )
    return list(islice(telling, max(_DEFAULT_COUNT, 3 + len(critic))))


def _length_column(view: RunView) -> str:
    return "response_tokens" if view.has("response_tokens") else "response_chars"


def _varies(view: RunView, name: str) -> bool:
    """Return whether a column has values that differ; with few steps, whether it has any."""
    if not view.has(name):
        return False
    values = view.step_values(name)
    values = values[np.isfinite(values)]
    return len(values) > 0 and (len(values) < _FEW_STEPS or float(np.ptp(values)) > 0)


def _is_centred(view: RunView, name: str) -> bool:
    """Return whether a column's mean is near zero at each step, like that of centred advantages."""
    points = trainer_scalars.points(view, name, _WITH_DEVIATION)
    if "hi" not in points or not len(points["y"]):
        return False
    spread = (points["hi"] - points["lo"]) / 2
    with np.errstate(invalid="ignore"):
        return bool((np.abs(points["y"]) < _CENTRED * spread).all())


def show_curve(context: Context, column: str) -> None:
    """Scroll to the card of a column, and add the card if it is hidden.

    Nothing happens if the run lacks the column.
    """
    if not column or not context.view.has(column):
        return
    shown = [curve.columns[0] for curve in curves_of(context)]
    if column not in shown:
        context.selection.curves = [*shown, column]
    context.reveal(column)


def without_last_curve(context: Context) -> list[str]:
    """Return the chosen curves without the last one, which `show_curve` has added; empty for the defaults."""
    rest = context.selection.curves[:-1]
    return [] if rest == _default_names(context) else rest


def _curve(name: str, context: Context) -> Curve:
    view = context.view
    columns = tuple(c for c in _REWARDS if view.has(c)) if name == "reward" else (name,)
    label = trainer_scalars.describe(name).label
    if trainer_scalars.scalar_of(name) is None:
        label = label[:1].upper() + label[1:]
    log = name in context.selection.log_curves
    return Curve(name, label, (*columns, *trainer_scalars.drawn_over(view, columns)), log)
