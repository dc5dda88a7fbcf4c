"""Plots of the board for a page without a server: JSON for BokehJS, with the colours of both themes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import bokeh
import panel as pn
from bokeh.core.property.vectorization import Value
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.model import Model
from panel.viewable import Viewer

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.bar_card import BarCard
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.ui import theme

#: Model id → property → its values in the dark and in the light theme; only properties that differ.
Colors = dict[str, dict[str, list[Any]]]


class Drawing(NamedTuple):
    """One card of the board: the HTML of its header, and its plot."""

    head: str
    plot: Model


class Plots(NamedTuple):
    """Cards of the report, and the colours that depend on the reader's theme."""

    curves: list[Drawing]
    step: list[BarCard]
    colors: Colors


def plots_of(context: Context) -> Plots:
    """Return the cards that the board would show, drawn by new views of the context.

    Changes the context: its theme becomes light, and ridges become densities, because ridges must be drawn
    again for each theme, which requires a server.
    """
    context.selection.dark = True
    if context.display.band == "ridge":
        context.display.band = "density"
    over_steps = [Curves(context, linked=False)]
    of_step = [RewardDistribution(context), RewardGap(context), GroupStrip(context)]
    curves = [*_drawings(over_steps)]
    step: list[Any] = [card for view in of_step if (card := view.__panel__()).visible]
    models = [model for drawing in curves for model in drawing.plot.references()]
    dark = _properties(models)
    context.selection.dark = False
    colors = _differences(dark, _properties(models))
    return Plots(curves, step, colors)


def plot_json(drawing: Drawing) -> dict[str, Any]:
    """Return a plot as JSON for ``Bokeh.embed.embed_item``."""
    plot = drawing.plot
    with OutputDocumentFor([plot], apply_theme=theme.PLOTS):
        # The same as `bokeh.embed.json_item`, but without its warning about Python callbacks.
        docs, _ = standalone_docs_json_and_render_items([plot], suppress_callback_warning=True)
    return {
        "doc": next(iter(docs.values())),
        "root_id": plot.id,
        "target_id": "",
        "version": bokeh.__version__,
    }


def _drawings(views: Iterable[Viewer]) -> Iterator[Drawing]:
    """Yield a drawing for each visible card; every card contains one header and one plot."""
    for view in views:
        heads, plots = _visible_panes(view, HtmlPane), _visible_panes(view, pn.pane.Bokeh)
        for head, plot in zip(heads, plots, strict=True):
            # Remove callbacks: there is no server to handle events, and the policy forbids code in strings.
            plot.object.update(js_event_callbacks={}, subscribed_events=set())
            yield Drawing(head.object, plot.object)


def _visible_panes(view: Viewer, kind: type[pn.pane.PaneBase]) -> list[Any]:
    """Return the panes of a type in the visible cards of a view."""
    columns = view.__panel__().select(pn.Column)
    cards = [column for column in columns if column.select(pn.Column) == [column]]  # not what holds cards
    return [pane for card in cards if card.visible for pane in card.select(kind)]


def _properties(models: Iterable[Model]) -> dict[str, dict[str, Any]]:
    """Return the properties that may be colours or palettes (texts and lists), by model id and name."""
    return {
        model.id: {
            name: plain
            for name, value in model.properties_with_values(include_defaults=True).items()
            if isinstance(plain := value.value if isinstance(value, Value) else value, (str, list))
        }
        for model in models
    }


def _differences(dark: dict[str, dict[str, Any]], light: dict[str, dict[str, Any]]) -> Colors:
    differing = {
        id: {name: [value, light[id][name]] for name, value in values.items() if value != light[id][name]}
        for id, values in dark.items()
    }
    return {id: values for id, values in differing.items() if values}
