"""Saves a plot as HTML that needs no network, or as PNG or SVG by a browser.

Draws a page in an installed Chromium or Chrome without a window, and returns what its script wrote.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import holoviews as hv
from bokeh.embed import json_item
from bokeh.models import Plot
from bokeh.resources import Resources

from rlpanel.errors import SettingError
from rlpanel.panels.ui.html_document import document
from rlpanel.safe_files import replace_file

#: Programs that are looked for, after the one that the environment variable ``CHROMIUM`` names.
PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
#: Seconds of the page's own clock, and of the whole call.
_PAGE_SECONDS, _SECONDS = 60, 180
#: No host is reached even if the page's content security policy failed.
_FLAGS = ("--headless", "--disable-gpu", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND")
_DRAWN = re.compile(r'<pre id="drawn">([^<]*)</pre>')


def find_browser() -> str:
    """Return the path of a browser.

    Raises
    ------
    SettingError
        If none is found; the message says what to do.
    """
    names = (os.environ.get("CHROMIUM", ""), *PROGRAMS)
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise SettingError(
            "PNG and SVG are drawn by Chromium or Chrome, and none is on PATH: install one, name its program "
            "in the environment variable CHROMIUM, or save as .html"
        )
    return found


def draw_in_browser(page: bytes, scale: int = 1) -> str:
    """Return the text of the element ``pre#drawn`` that the page's script leaves.

    Parameters
    ----------
    page : bytes
        HTML that needs no other file.
    scale : int
        Pixels of the screen for one pixel of the page.

    Raises
    ------
    SettingError
        If no browser is found, or it does not draw the page.
    """
    browser = find_browser()
    # Chromium's sandbox does not start for root. The page's policy lets it run no script but this module's.
    flags = [*_FLAGS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]
    flags += [f"--force-device-scale-factor={scale}", f"--virtual-time-budget={_PAGE_SECONDS * 1000}"]
    with tempfile.TemporaryDirectory(prefix="rlpanel-plot-") as folder:
        file = Path(folder) / "plot.html"
        file.write_bytes(page)
        command = [browser, *flags, f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingError(f"{browser} did not draw the plot: {error}; save as .html") from error
    drawn = _DRAWN.search(done.stdout.decode("utf-8", "replace"))
    if drawn is None:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingError(f"{browser} did not draw the plot: {''.join(last) or 'no reason'}; save as .html")
    return drawn[1]


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
