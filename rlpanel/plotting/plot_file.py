"""Saves a plot as HTML that needs no network, or as PNG or SVG by a browser."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import holoviews as hv
from bokeh.embed import json_item
from bokeh.models import Plot
from bokeh.resources import Resources

from rlpanel.errors import SettingError
from rlpanel.panels.ui.html_document import document
from rlpanel.plotting.browser_drawing import draw_in_browser
from rlpanel.safe_files import replace_file

#: Endings of the files that can be saved.
ENDINGS = (".html", ".png", ".svg")
#: Pixels of a PNG for one pixel of the plot.
_SCALE = 2
_STYLE = "html {{ background: {surface} }} body {{ margin: 12px }}"

_SHOW = """
const item = JSON.parse(document.querySelector("#data").textContent)
const views = await Bokeh.embed.embed_item(item, "plot")
"""
#: Leaves the drawing as text in ``pre#drawn``, where `draw_in_browser` finds it.
_EXPORT = (
    _SHOW
    + """
const [view] = views
while (!view.model.document.is_idle) await new Promise((draw) => setTimeout(draw, 10))
const {kind} = document.querySelector("#plot").dataset
const layer = view.export(kind, true)
const bytes = (text) => [...new TextEncoder().encode(text)].map((byte) => String.fromCharCode(byte)).join("")
const drawn = document.createElement("pre")
drawn.id = "drawn"
drawn.textContent =
  kind === "svg" ? btoa(bytes(layer.ctx.get_serialized_svg(true))) : layer.canvas.toDataURL().split(",")[1]
document.documentElement.replaceChildren(drawn)
"""
)


def save_plot(plot: Any, path: str | os.PathLike[str]) -> None:
    """Save a HoloViews object; the file's ending decides the format. See `RunPlots.save`."""
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise SettingError(f"{target.name}: plots are saved as {', '.join(ENDINGS)}")
    if ending == ".html":
        data = _page(plot, target.stem, "html", _SHOW)
    else:
        page = _page(plot, target.stem, ending[1:], _EXPORT)
        data = base64.b64decode(draw_in_browser(page, _SCALE if ending == ".png" else 1))
    replace_file(target, data)


def _page(plot: Any, title: str, kind: str, script: str) -> bytes:
    """Return the plot as a page that contains Bokeh's scripts and may load nothing else."""
    scripts = Resources(mode="inline", minified=True, components=["bokeh"]).js_raw
    model = hv.render(plot, backend="bokeh")
    if kind != "html":
        model.toolbar_location = None
    style = _STYLE.format(surface=next((part.border_fill_color for part in model.select({"type": Plot})), ""))
    return document(
        title, style, f'<div id="plot" data-kind="{kind}"></div>', json_item(model), [*scripts, script]
    )
