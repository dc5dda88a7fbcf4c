"""`Run.plot`: plots of a run as HoloViews objects, and their files as HTML, PNG or SVG."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import holoviews as hv
from bokeh.embed import json_item
from bokeh.models import Plot
from bokeh.resources import Resources

from rlpanel.errors import SettingError
from rlpanel.panel_fixes.embedded_sheets import embed_in_plots
from rlpanel.panels.ui.html_document import document
from rlpanel.plotting.plotted_run import Steps
from rlpanel.plotting.sample_plots import group_ranges, rollout_timeline, sample_scatter, token_stems
from rlpanel.plotting.step_plots import step_curve, value_histogram, value_ridges
from rlpanel.queries.run_data import RunData
from rlpanel.safe_files import replace_file

# -- plot file -----------------------------------------------------------------------------------------
# Saves a plot as HTML that needs no network, or as PNG or SVG by a browser.
#
# Draws a page in an installed Chromium or Chrome without a window, and returns what its script wrote.


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


# -- run plots -----------------------------------------------------------------------------------------
# `Run.plot`: plots of a run as HoloViews objects, which compose with ``*`` and ``+``.
#
# In a notebook, scripts and style sheets need no network.


@cache
def load_holoviews() -> None:
    """Load the Bokeh backend once; to be called before the first plot is made."""
    hv.extension("bokeh", inline=True, logo=False)
    embed_in_plots()


class RunPlots:
    """Plots of a run. Each method returns a new HoloViews object with the newest numbers.

    Options such as ``width``, ``title``, ``logy`` or ``color`` are those of hvPlot. ``dark`` chooses the
    theme, by default that of ``pn.config.theme``. `holoviews.link_selections` links curves, distributions,
    ridges and scatter plots of a run, because they are drawn from its samples.
    """

    def __init__(self, data: Callable[[], RunData]) -> None:
        self._data = data
        load_holoviews()

    def curve(
        self, column: str, *, band: str = "iqr", dark: bool | None = None, **options: Any
    ) -> hv.Overlay:
        """Return the mean of a column over the steps with a band, or a number per step without one.

        Parameters
        ----------
        column : str
            A number column of the samples, a step metric (``pass_at_1``) or a statistic (``reward:std``).
        band : str
            ``iqr`` (25–75% of the values), ``std`` (within the step's values), ``se`` (± 2 standard errors of
            the mean), ``range`` or ``none``.
        dark : bool, optional
        **options
            Options of the frame, and of the line.

        Raises
        ------
        SettingError
            If the run has no such column, or there is no such band.
        """
        return step_curve(self._data(), column, band, dark, options)

    def distribution(
        self, column: str, step: Steps = None, *, bins: int = 64, dark: bool | None = None, **options: Any
    ) -> hv.Histogram:
        """Return the histogram of a column, with the intervals and counts of `Run.histogram`.

        Parameters
        ----------
        column : str
        step : int or (int, int), optional
            A step, or the first and the last of several; all by default.
        bins : int
            Maximum number of intervals over all steps.
        dark : bool, optional
        **options
            Options of the frame, and of the bars.

        Raises
        ------
        SettingError
            If the run has no such column or no samples at the step.
        """
        return value_histogram(self._data(), column, step, bins, dark, options)

    def ridge(self, column: str, *, dark: bool | None = None, **options: Any) -> hv.Overlay:
        """Return the distributions of a column over ranges of steps, the newest in front; see `curve`."""
        return value_ridges(self._data(), column, dark, options)

    def scatter(
        self, x: str, y: str, step: Steps = None, *, dark: bool | None = None, **options: Any
    ) -> hv.Points | hv.Image:
        """Return one point per sample; above 20,000 samples their number in each of up to 128 × 128 cells.

        Parameters
        ----------
        x, y : str
            Number columns.
        step : int or (int, int), optional
            As for `distribution`.
        dark : bool, optional
        **options
            Options of the frame, and of points or image.

        Raises
        ------
        SettingError
            As `distribution`.
        """
        return sample_scatter(self._data(), x, y, step, dark, options)

    def groups(self, step: int | None = None, *, dark: bool | None = None, **options: Any) -> hv.Overlay:
        """Return the groups of a step by reward: lowest to highest, with a mark at the mean.

        Parameters
        ----------
        step : int, optional
            The newest by default.
        dark : bool, optional
        **options
            Options of the frame, and of the marks.

        Raises
        ------
        SettingError
            If the step has no groups with rewards.
        """
        return group_ranges(self._data(), step, dark, options)

    def tokens(self, uid: str, metric: str = "", *, dark: bool | None = None, **options: Any) -> hv.Overlay:
        """Return a token metric over the tokens of a sample.

        Parameters
        ----------
        uid : str
        metric : str
            A metric column of `Run.tokens`; by default ``kl_k3``, or ``surprisal`` without a reference.
        dark : bool, optional
        **options
            Options of the frame, and of the marks.

        Raises
        ------
        SettingError
            If the sample does not have the metric.
        SampleNotFound, SourceChanged
            As `Run.sample`.
        """
        return token_stems(self._data(), uid, metric, dark, options)

    def timeline(
        self,
        step: int | None = None,
        *,
        order: str = "slowest first",
        color: str = "phase",
        dark: bool | None = None,
        **options: Any,
    ) -> hv.Rectangles | hv.Overlay:
        """Return what each rollout of a step did over time, one bar per rollout.

        Above 8,000 spans or 1,000 lanes it is an image, by datashader if that is installed. Where a kernel
        runs, a zoom draws it again, with rectangles where few spans are in view.

        Parameters
        ----------
        step : int, optional
            The newest by default.
        order : str
            ``slowest first``, ``by rank`` or ``by worker``.
        color : str
            ``phase``, ``policy version`` or ``lag``.
        dark : bool, optional
        **options
            Options of the frame, and of the bars.

        Raises
        ------
        SettingError
            If the step has no times, or the order or colour is not known there.
        """
        return rollout_timeline(self._data(), step, order, color, dark, options)

    def save(self, plot: Any, path: str | os.PathLike[str]) -> None:
        """Save a plot, or several composed ones, as ``.html``, ``.png`` or ``.svg``.

        The HTML file contains all scripts and never uses the network. PNG and SVG are drawn by Chromium or
        Chrome, which must be installed; ``CHROMIUM`` may name its program.

        Raises
        ------
        SettingError
            If the ending is another one, or no browser is found or draws the plot.
        """
        save_plot(plot, path)
