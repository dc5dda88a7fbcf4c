"""Cards and their export: a head with the menu, bars, and the plotted numbers as picture or table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import panel as pn
import param

from rlpanel.board_url import STEP
from rlpanel.display_settings import Display
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.plots.plain_plots import HEIGHT
from rlpanel.panels.plots.plot_elements import Ridges
from rlpanel.panels.plots.series import Points
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.csv_text import csv_text
from rlpanel.store.snapshot.alignment import AXIS_LABELS
from rlpanel.store.snapshot.value_density import Density

# -- card export ---------------------------------------------------------------------------------------
# Export of one card: texts and colours around its picture, and the plotted numbers as a table.


#: Maximum number of characters of a run's or column's name within a file name.
_MAX_LENGTH = 100


class CardExport(NamedTuple):
    """The content of a card for export as a picture or as CSV.

    Attributes
    ----------
    name : str
        File name without extension: run, column and step.
    title, words : str
        Title and subtitle above the picture. The subtitle says what is drawn, and of which run and step.
    rows : callable
        Returns the plotted numbers as a table; called on a thread.
    legend : tuple of (str, str)
        Label and colour of each legend entry, if the plot has no legend of its own. The colour is a name of
        the theme's palette or a colour code.
    """

    name: str
    title: str
    words: str
    rows: Callable[[], pd.DataFrame]
    legend: tuple[tuple[str, str], ...] = ()


def file_name(run: str) -> str:
    """Return a run's or column's name with all characters replaced that are unsafe in file names."""
    characters = [
        character if character.isalnum() or character in "-_." else "_" for character in run[:_MAX_LENGTH]
    ]
    return "".join(characters) or "samples"


def well_formed(text: str) -> str:
    """Return text with lone surrogates replaced: file names may hold them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")


class PlotLine(NamedTuple):
    """One line of a plot: run, curve, points as `curve_points` returns them, and its band if it has one."""

    run: str
    curve: str
    points: Points
    band: str = ""


_NO_LINE = PlotLine("", "", {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n", "raw")})


def lines_frame(lines: list[PlotLine], alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    """Return lines as one table, one after another: run, curve, x axis, mean, lo, hi, band, n.

    With smoothing, ``mean`` holds the raw values, and ``lo`` and ``hi`` belong to ``smoothed``.
    """
    return pd.concat(
        [_line_frame(line, alignment, display, smoothing) for line in lines or [_NO_LINE]],
        ignore_index=True,
    )


def _line_frame(line: PlotLine, alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    points, count = line.points, len(line.points["x"])
    x = pd.Series(points["x"])
    smoothed = {"smoothed": points["y"]} if smoothing else {}
    banded = np.isfinite(points["lo"]) | np.isfinite(points["hi"])
    return pd.DataFrame(
        {
            "run": [well_formed(line.run)] * count,
            "curve": [well_formed(line.curve)] * count,
            AXIS_LABELS[alignment].replace(" ", "_"): x.astype("Int64") if alignment == STEP else x,
            "mean": points["raw"],
            **smoothed,
            "lo": points["lo"],
            "hi": points["hi"],
            "band": np.where(banded, _band(line.band or display.band, display), ""),
            "n": pd.Series(points["n"]).astype("Int64"),
        }
    )


def _band(band: str, display: Display) -> str:
    return f"{display.variance_scale:g} std" if band == "std" else band


def density_frame(density: Density) -> pd.DataFrame:
    """Return the non-empty cells: first and last step, range of values, and number of samples."""
    column, cell = np.nonzero(density.counts)
    edges, first = density.axis.edges, density.first + column * density.width
    return pd.DataFrame(
        {
            "from_step": first,
            "to_step": first + density.width - 1,
            "from": edges[cell],
            "to": edges[cell + 1],
            "samples": density.counts[column, cell],
        }
    )


def ridges_frame(shape: Ridges) -> pd.DataFrame:
    """Return the outlines from oldest to newest: first and last step, value, height (at most 1)."""
    points = len(shape.values)
    return pd.DataFrame(
        {
            "from_step": np.repeat(shape.first, points),
            "to_step": np.repeat(shape.last, points),
            "value": np.tile(shape.values, len(shape.first)),
            "height": shape.heights.ravel(),
        }
    )


# -- exporter ------------------------------------------------------------------------------------------
# Component with a menu that exports a card: its plot as PNG or SVG, its data as CSV.
#
# Formulas in a CSV are defused, unless the raw one is chosen.
#
# Nothing is computed or sent before the browser requests it. For CSV it receives the file; for a picture it
# receives title, subtitle, legend and colours, and draws them around its own plot.


#: Kind of export that the browser may request → file extension.
KINDS = {"png": "png", "svg": "svg", "csv": "csv", "csv-raw": "csv"}

#: Scripts of the menu; the component's own script follows.
EXPORT_SCRIPTS = (
    "panels/ui/dom.js",
    "panels/ui/svg.js",
    "panels/export/download.js",
    "panels/ui/closing.js",
    "panels/ui/menu.js",
    "panels/export/plot_image.js",
    "panels/export/card_menu.js",
)
EXPORT_STYLES = [read_assets("panels/ui/menu.css"), read_assets("panels/export/export_menu.css")]


class Exporter(Component):
    """Base class of components with an export menu.

    Parameters
    ----------
    context : Context
    get_export : callable
        Returns what the card shows now; None while it shows nothing.
    """

    __abstract = True

    def __init__(self, context: Context, get_export: Callable[[], CardExport | None], **params: Any) -> None:
        super().__init__(**params)
        self._context, self._get_export = context, get_export
        self._csv_task: BackgroundTask[dict[str, Any]] = BackgroundTask(self.send, context.threads.views)

    def receive(self, message: Any) -> None:
        """Send the export of the chosen kind."""
        kind, export = str(message), self._get_export()
        if export is None or kind not in KINDS:
            return
        name = well_formed(f"{export.name}.{KINDS[kind]}")
        if KINDS[kind] == "csv":
            self._csv_task.start(_csv_message(name, export, raw=kind == "csv-raw"))
        else:
            colors = theme.palette(self._context.selection.dark)
            texts = {"title": well_formed(export.title), "words": well_formed(export.words)}
            legend = [[well_formed(text), colors.get(color, color)] for text, color in export.legend]
            look = {key: colors[key] for key in ("surface", "text", "muted")} | {"font": theme.FONT}
            self.send({"file": name, "kind": kind, **texts, "legend": legend, "look": look})


def _csv_message(name: str, export: CardExport, *, raw: bool) -> Iterator[dict[str, Any]]:
    yield {"file": name, "kind": "csv", "text": well_formed(csv_text(export.rows(), raw=raw))}


# -- card head -----------------------------------------------------------------------------------------
# The head of a card with a Bokeh figure: what the figure shows, and the export menu.


class CardHead(Exporter):
    """The head of a card: what its figure shows, and the export menu. It stands beside the figure.

    It does not contain the figure: Panel visits all models of a component at each change of a value.

    Parameters
    ----------
    context : Context
    get_export : callable
        As for `Exporter`.
    actions : sequence of tuple of str and callable
        Further entries of the menu: label, and what a click calls.
    **params
        Parameters of the component.
    """

    head = param.String(default="", doc="The head as HTML; the caller has escaped what comes from a log.")
    value = param.String(default="", doc="What the head ends with, as HTML: it changes at each step.")
    entries = param.List(default=[], item_type=str, doc="Labels of the menu's further entries.")

    _esm = read_assets(*EXPORT_SCRIPTS, "panels/export/card_head.js")
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        *EXPORT_STYLES,
        read_assets("panels/export/card_head.css"),
    ]

    def __init__(
        self,
        context: Context,
        get_export: Callable[[], CardExport | None],
        actions: Sequence[tuple[str, Callable[[], None]]] = (),
        **params: Any,
    ) -> None:
        super().__init__(
            context,
            get_export,
            entries=[label for label, _ in actions],
            sizing_mode="stretch_width",
            margin=0,
            **params,
        )
        self._actions = dict(actions)

    @property
    def html(self) -> str:
        """The whole head as HTML, without the menu."""
        return self.head.removesuffix("</div>") + self.value + "</div>"

    def receive(self, message: Any) -> None:
        """Export the card, or run the chosen entry."""
        action = self._actions.get(str(message))
        if action is None:
            super().receive(message)
        else:
            action()


def titled_plot(title: str, plot: Any, head: CardHead, **params: Any) -> pn.Column:
    """Return a plot that is a part of a card, below its title and export menu."""
    head.head = f'<span class="caption">{safe_text(title)}</span>'
    return pn.Column(head, plot, margin=0, css_classes=["rl-plot"], **params)


# -- bar card ------------------------------------------------------------------------------------------
# A card with bars: title, notes, export menu and plot in one component, drawn as SVG by the browser.
#
# A Bokeh figure would be some forty models in each page that opens.


class BarCard(Exporter):
    """One card; `on_pick` is called with the x coordinate of a click, `on_brush` with both ends of a drag.

    Parameters
    ----------
    context : Context
    get_export : callable
        Returns what the card shows now; None while it shows nothing.
    css_name : str
        CSS class of the card.
    on_pick, on_brush : callable, optional
    """

    head = param.Dict(default={}, doc="Title, tip (tooltip) and notes: pairs of text and CSS class.")
    plot = param.Dict(default={}, doc="The plot, as returned by `bar_plot`.")
    marker = param.Number(default=None, allow_None=True, doc="Position of a vertical line.")
    clickable = param.Boolean(default=False, doc="Whether bars can be clicked.")
    brushable = param.Boolean(default=False, doc="Whether a drag over the bars chooses a range.")
    height_px = param.Integer(default=HEIGHT, doc="Height of the plot in pixels.")

    _esm = read_assets(*EXPORT_SCRIPTS, "panels/plots/bar_plot.js", "panels/export/bar_card.js")
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        *EXPORT_STYLES,
        read_assets("panels/plots/bar_plot.css"),
        read_assets("panels/export/bar_card.css"),
    ]

    def __init__(
        self,
        context: Context,
        get_export: Callable[[], CardExport | None],
        css_name: str,
        *,
        on_pick: Callable[[float], None] | None = None,
        on_brush: Callable[[float, float], None] | None = None,
        **params: Any,
    ) -> None:
        defaults: dict[str, Any] = {
            "styles": {**theme.CARD, "overflow": "visible", "flex": "1 1 165px", "min-width": "165px"},
            "margin": 0,
            "css_classes": ["rl-card", css_name],
        }
        usable = {"clickable": on_pick is not None, "brushable": on_brush is not None}
        super().__init__(context, get_export, **{**defaults, **usable, **params})
        self._on_pick, self._on_brush = on_pick, on_brush

    def draw(self, head: dict[str, Any], plot: dict[str, Any], marker: float | None = None) -> None:
        """Show the card with another head and plot, both JSON objects, and a vertical line."""
        self.param.update(head=head, plot=plot, marker=marker, visible=True)

    def receive(self, message: Any) -> None:
        """Export the card, or pick the bar or range that was chosen."""
        match message:
            case ["pick", int(x) | float(x)] if self._on_pick is not None:
                self._on_pick(float(x))
            case ["brush", int(low) | float(low), int(high) | float(high)] if self._on_brush is not None:
                self._on_brush(float(low), float(high))
            case str():
                super().receive(message)

    def head_html(self) -> str:
        """Return the head as HTML, for a page without a server."""
        notes = "".join(
            f' <span class="unit {safe_text(style)}">{safe_text(text)}</span>'
            for text, style in self.head.get("notes", [])
        )
        title, tip = safe_text(self.head.get("title", "")), safe_text(self.head.get("tip", ""))
        return f'<div class="head" title="{tip}"><b>{title}</b>{notes}</div>'
