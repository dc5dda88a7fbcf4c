"""The board's plots for a page without a server: as BokehJS takes them, with both themes' colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import bokeh
import panel as pn
from bokeh.core.property.vectorization import Value
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.model import Model
from panel.viewable import Viewer

from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_summary import StepSummary
from rlpanel.panels.ui import theme

#: Model id → property → its value in the dark and in the light, where the two differ.
Colors = dict[str, dict[str, list[Any]]]


class Drawing(NamedTuple):
    """One card of the board: its head as HTML, and its plot."""

    head: str
    plot: Model


class Plots(NamedTuple):
    """Cards, and what of them follows the reader's theme."""

    curves: list[Drawing]
    step: list[Drawing]
    colors: Colors


def plots_of(context: Context) -> Plots:
    """The cards that the board would show, in views of their own; the context's theme is left light.

    Its band is left a density where it was ridges: they are drawn anew for each theme, which needs a server.
    """
    context.selection.dark = True
    if context.display.band == "ridge":
        context.display.band = "density"
    over_steps = [Curves(context)]
    of_step = [RewardDistribution(context), RewardGap(context), GroupStrip(context)]
    curves, step = [*_drawings(over_steps)], [*_drawings(of_step)]
    models = [model for drawing in (*curves, *step) for model in drawing.plot.references()]
    dark = _properties(models)
    context.selection.dark = False
    colors = _differences(dark, _properties(models))
    return Plots(curves, step, colors)


def item(drawing: Drawing) -> dict[str, Any]:
    """A plot as ``Bokeh.embed.embed_item`` takes it."""
    plot = drawing.plot
    with OutputDocumentFor([plot], apply_theme=theme.PLOTS):
        # As `bokeh.embed.json_item`, which warns of callbacks in Python.
        docs, _ = standalone_docs_json_and_render_items([plot], suppress_callback_warning=True)
    return {
        "doc": next(iter(docs.values())),
        "root_id": plot.id,
        "target_id": "",
        "version": bokeh.__version__,
    }


def numbers_html(context: Context) -> str:
    """The step's means with their change."""
    return "".join(pane.object for pane in _in_sight(StepSummary(context), pn.pane.HTML))


def _drawings(views: Iterable[Viewer]) -> Iterator[Drawing]:
    """Every card in sight holds a head and a plot."""
    for view in views:
        heads, plots = _in_sight(view, pn.pane.HTML), _in_sight(view, pn.pane.Bokeh)
        for head, plot in zip(heads, plots, strict=True):
            # Nobody is there to answer, and a page that runs no code from strings could not begin to.
            plot.object.update(js_event_callbacks={}, subscribed_events=set())
            yield Drawing(head.object, plot.object)


def _in_sight(view: Viewer, kind: type[pn.pane.PaneBase]) -> list[Any]:
    """The panes of a kind in the cards of a view that are not hidden."""
    cards = view.__panel__().select(pn.Column)
    return [pane for card in cards if card.visible for pane in card.select(kind)]


def _properties(models: Iterable[Model]) -> dict[str, dict[str, Any]]:
    """What may be a colour or a palette: texts and lists of texts, by model and property."""
    return {
        model.id: {
            name: plain
            for name, value in model.properties_with_values(include_defaults=True).items()
            if isinstance(plain := value.value if isinstance(value, Value) else value, (str, list))
        }
        for model in models
    }


def _differences(dark: dict[str, dict[str, Any]], light: dict[str, dict[str, Any]]) -> Colors:
    differ = {
        id: {name: [value, light[id][name]] for name, value in of.items() if value != light[id][name]}
        for id, of in dark.items()
    }
    return {id: of for id, of in differ.items() if of}
