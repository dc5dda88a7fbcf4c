"""Style of the plots: colours of the theme, labels of the columns, and options that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bokeh.models import BasicTickFormatter
from bokeh.models.annotations import ColorBar

from rlpanel.panels.ui import theme
from rlpanel.texts.shorten import plot_text

#: Size in pixels, as wide as two plots beside each other in a notebook.
WIDTH, HEIGHT = 420, 290

#: Options of the frame around a plot, which all parts of an overlay share.
FRAME = frozenset(
    [
        "width",
        "height",
        "frame_width",
        "frame_height",
        "min_width",
        "min_height",
        "max_width",
        "max_height",
        "responsive",
        "aspect",
        "data_aspect",
        "title",
        "xlabel",
        "ylabel",
        "xlim",
        "ylim",
        "logx",
        "logy",
        "xticks",
        "yticks",
        "xformatter",
        "yformatter",
        "rot",
        "grid",
        "fontsize",
        "fontscale",
        "legend",
        "toolbar",
        "invert",
        "flip_xaxis",
        "flip_yaxis",
        "shared_axes",
        "padding",
        "bgcolor",
    ]
)


def colors_of(dark: bool | None) -> dict[str, str]:
    """Return the colours of the theme by name."""
    return theme.palette(theme.is_dark(dark))


def frame_options(
    dark: bool | None, options: Mapping[str, Any], *, title: str, xlabel: str, ylabel: str
) -> dict[str, Any]:
    """Return the options of the frame: those of the caller, else size, title and labels in the theme."""
    own = {name: value for name, value in options.items() if name in FRAME}
    size = {} if {"responsive", "frame_width", "aspect"} & own.keys() else {"width": WIDTH, "height": HEIGHT}
    labels = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    return {**size, **{name: plot_text(text, 200) for name, text in labels.items()}, **own}


def glyph_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's options of line, bars or points, which an added band does not get."""
    return {name: value for name, value in options.items() if name not in FRAME}


def holoviews_names(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of hvPlot by the names that HoloViews has for them."""
    names = {"grid": "show_grid", "legend": "show_legend", "rot": "xrotation"}
    return {names.get(name, name): value for name, value in frame.items()}


def themed(element: Any, dark: bool | None) -> Any:
    """Return the element with the theme's colours on its axes, its background and its colour bar."""
    chosen = theme.is_dark(dark)
    return element.opts(
        hooks=[lambda plot, _: _finish(plot.state, chosen)], show_frame=False, backend="bokeh"
    )


def _finish(figure: Any, dark: bool) -> None:
    """Style a figure that HoloViews made; it is called again whenever a selection changes the plot."""
    colors = theme.palette(dark)
    theme.restyle(figure, dark)
    figure.update(
        background_fill_color=colors["surface"],
        border_fill_color=colors["surface"],
        outline_line_color=None,
    )
    figure.title.update(text_color=colors["text"], text_font_size="11px", text_font_style="normal")
    for axis in figure.axis:
        axis.update(
            axis_label_text_font_style="normal",
            axis_label_text_font_size="11px",
            axis_line_color=colors["line"],
            major_tick_line_color=None,
            minor_tick_line_color=None,
        )
        if isinstance(axis.formatter, BasicTickFormatter):
            # Powers of ten where `rlpanel.number_text` writes them.
            axis.formatter.update(power_limit_high=6, power_limit_low=-4)
    for part in figure.right:
        if isinstance(part, ColorBar):
            part.update(
                background_fill_color=colors["surface"],
                major_label_text_color=colors["muted"],
                title_text_color=colors["muted"],
                title_text_font_style="normal",
                bar_line_color=None,
                major_tick_line_color=colors["muted"],
            )
