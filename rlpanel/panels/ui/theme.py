"""Colours, fonts and plot styling that all views share.

A colour has one meaning everywhere: policy orange, reference blue, KL yellow, length violet, uncertainty
(entropy, surprisal, probability) pink; teal and red mean good and bad. What lies above a neutral value is
orange and what lies below is blue: log-ratios, advantages, won and lost prompts. Views use the colours'
names; this module defines their values in the dark and light theme. Each has a contrast of at least 4.5 to
all backgrounds (WCAG level AA), except "faint". `TOLD_APART` lists the colours that differ for every reader.
"""

from __future__ import annotations

import html
from contextlib import AbstractContextManager

import panel as pn
from bokeh.plotting import figure
from bokeh.themes import Theme
from panel.theme.base import Design

from rlpanel.panels.ui.assets import read_assets

DARK = {
    "bg": "#0e1116",
    "surface": "#151a21",
    "raised": "#1b212a",
    "line": "#262d38",
    "text": "#e7ebf2",
    "muted": "#8d97a7",
    "faint": "#5b6574",
    "policy": "#ff9d5c",
    "reference": "#6fb1ff",
    "kl": "#e6c34a",
    "length": "#b79cff",
    "entropy": "#e88bc4",
    "good": "#3fcfc4",
    "bad": "#ff6060",
}
LIGHT = {
    "bg": "#f6f7f9",
    "surface": "#ffffff",
    "raised": "#f0f2f5",
    "line": "#e0e4ea",
    "text": "#1b2330",
    "muted": "#596474",
    "faint": "#97a1b0",
    "policy": "#b84c0a",
    "reference": "#2468c4",
    "kl": "#846300",
    "length": "#6d4cd0",
    "entropy": "#a8327f",
    "good": "#00757a",
    "bad": "#c42c39",
}

FONT = (
    'Inter, "Noto Sans", "Noto Sans CJK SC", system-ui, -apple-system, "Segoe UI", "PingFang SC", '
    '"Microsoft YaHei", sans-serif, "Noto Color Emoji"'
)
MONO = '"JetBrains Mono", ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace'


#: Colours that stand side by side with different meanings. They differ also without red or green cones.
TOLD_APART = (
    ("policy", "reference", "muted"),  # above, below, equal; won, lost, tied
    ("policy", "reference", "good"),  # groups with signal, all low, all high
    ("good", "bad"),
    ("reference", "bad"),
)

#: Colours of categories in the order of their numbers, by theme (dark is True). Each differs from the others
#: and from the surface for every reader; the first one, usually of 0 or false, is the palest.
CATEGORIES = {
    True: ("#39414d", "#ef9650", "#6ab0ff", "#fbf6cf", "#3b45f0", "#754a12"),
    False: ("#d5dbe4", "#c8601f", "#7aaef0", "#2536a8", "#6c1340", "#ecd33a"),
}


def is_dark(dark: bool | None) -> bool:
    """Return the given theme, or that of ``pn.config.theme`` if None."""
    return pn.config.theme == "dark" if dark is None else dark


def palette(dark: bool) -> dict[str, str]:
    """Return the colours of the dark or light theme: name → hex code."""
    return DARK if dark else LIGHT


#: Severity of a finding → name of its colour.
SEVERITY_COLORS = {"alarm": "bad", "warning": "kl", "info": "muted"}


def variables(colors: dict[str, str]) -> str:
    """Return colours or fonts as variables of CSS."""
    return "".join(f"--rl-{name}:{value};" for name, value in colors.items())


#: CSS variables that are the same in both themes: fonts, and the text colour of Panel's own components.
SHARED_VARIABLES = (
    f"--rl-font:{FONT};--rl-mono:{MONO};--bokeh-base-font:{FONT};"
    "--design-background-text-color:var(--rl-text);--design-surface-text-color:var(--rl-text);"
    "--design-background-color:var(--rl-surface);--design-surface-color:var(--rl-raised);"
)


def theme_variables(host: str = "{}") -> str:
    """Return the CSS variables of both themes, for elements of the class ``rl-dark`` or ``rl-light``.

    Every component's shadow root inherits them.

    Parameters
    ----------
    host : str
        Selector of these elements with ``{}`` in place of the class: ``:host({})`` inside a shadow root.
    """
    return "\n".join(
        f"{host.format(name)} {{{variables(colors)}{SHARED_VARIABLES}color-scheme:{scheme};}}"
        for name, colors, scheme in ((".rl-dark", DARK, "dark"), (".rl-light", LIGHT, "light"))
    )


#: Sizes that a finger hits.
TARGETS = read_assets("panels/ui/targets.css")
#: Style sheet of heads, captions and numbers, for panes that show escaped HTML.
CSS = read_assets("panels/ui/base.css") + TARGETS

CARD = {
    "background": "var(--rl-surface)",
    "border": "1px solid var(--rl-line)",
    "border-radius": "10px",
    "overflow": "hidden",
}


def safe_text(text: object) -> str:
    """Escape text from a log, a file or a column name: HTML shows it and never runs it."""
    return html.escape(str(text), quote=True)


def note_html(text: object) -> str:
    """Return a text as a note in HTML; the text is escaped."""
    return f'<p class="note">{safe_text(text)}</p>'


_PLOT = {"background_fill_alpha": 0, "border_fill_alpha": 0, "outline_line_color": None}
_AXIS = {
    "minor_tick_line_color": None,
    "major_tick_line_color": None,
    "axis_line_color": None,
    "major_label_text_font_size": "10px",
    "major_label_standoff": 4,
    "major_label_text_font": "Inter, Noto Sans, system-ui, sans-serif",
}
_GRID = {"grid_line_alpha": 0.8}

#: Defaults of all Bokeh plots, as the document's theme.
PLOTS = Theme(json={"attrs": {"Plot": _PLOT, "Figure": {}, "Axis": _AXIS, "Grid": _GRID, "Legend": {}}})


def hold_changes() -> AbstractContextManager[None]:
    """Return a context manager for changes of Bokeh models, needed wherever any callback may make them.

    Panel runs the callbacks of buttons without the document's lock, and Bokeh refuses changes then. Held
    changes are sent by Panel itself, together.
    """
    return pn.io.hold()


def style_plot(plot: figure) -> None:
    """Set the defaults of `PLOTS` on a plot: a notebook's document may have the theme of another tool."""
    plot.update(**_PLOT)
    for axis in plot.axis:
        axis.update(**_AXIS)
    for grid in plot.grid:
        grid.update(**_GRID)


def restyle(plot: figure, dark: bool) -> None:
    """Apply the theme's colours to axes and gridlines; each view colours its own glyphs."""
    colors = palette(dark)
    for axis in (plot.xaxis, plot.yaxis):
        axis.update(major_label_text_color=colors["muted"], axis_label_text_color=colors["muted"])
    plot.ygrid.grid_line_color = colors["line"]


class PlainDesign(Design):
    """Adds nothing to a component.

    Panel's own designs add four style sheets to each component, and the browser computes all styles again for
    each of them. Their colours would also override the theme's.
    """
