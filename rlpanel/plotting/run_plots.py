"""`Run.plot`: plots of a run as HoloViews objects, which compose with ``*`` and ``+``.

In a notebook, scripts and style sheets need no network.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import holoviews as hv

from rlpanel.panel_fixes.embedded_sheets import embed_in_plots
from rlpanel.plotting.plot_file import save_plot
from rlpanel.plotting.plotted_run import Steps
from rlpanel.plotting.rollout_plots import rollout_timeline, token_stems
from rlpanel.plotting.sample_plots import group_ranges, sample_scatter
from rlpanel.plotting.step_plots import step_curve, value_histogram, value_ridges
from rlpanel.queries.run_data import RunData


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
