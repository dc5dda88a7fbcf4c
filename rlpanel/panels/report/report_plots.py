"""Plots of the board for a page without a server: JSON for BokehJS, with the colours of both themes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import bokeh
from bokeh.core.property.vectorization import Value
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.model import Model

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
    cards = Curves(context, linked=False).cards.values()
    of_step: list[BarCard] = [RewardDistribution(context), RewardGap(context), GroupStrip(context)]
    curves = [Drawing(card.head.html, _without_callbacks(card.pane.object)) for card in cards]
    step = [card for card in of_step if card.visible]
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


def _without_callbacks(plot: Model) -> Model:
    """Remove a plot's callbacks: no server handles its events, and the policy forbids code in strings."""
    plot.update(js_event_callbacks={}, subscribed_events=set())
    return plot


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
