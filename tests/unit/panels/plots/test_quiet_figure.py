"""Quiet figures: which models they share, and that their axes and gridlines are as asked for."""

from __future__ import annotations

import pytest
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    LinearAxis,
    LinearScale,
    LogAxis,
    LogScale,
    LogTicker,
    PrintfTickFormatter,
)
from bokeh.models.glyphs import Line, Scatter

from rlpanel.panels.plots.quiet_figure import PlotParts, add_glyphs, quiet_figure


def test_a_figure_has_two_axes_and_horizontal_gridlines_at_the_ticks() -> None:
    plot = quiet_figure(height=100)
    [x], [y], [grid] = plot.xaxis, plot.yaxis, plot.grid
    assert isinstance(x, LinearAxis)
    assert isinstance(y, LinearAxis)
    assert (grid.dimension, grid.axis) == (1, y)
    assert isinstance(x.formatter, BasicTickFormatter)
    assert isinstance(y.formatter, PrintfTickFormatter)
    assert (x.ticker.desired_num_ticks, y.ticker.desired_num_ticks) == (4, 3)
    assert y.axis_line_color is None, "the document's theme is applied"
    assert (plot.height, plot.toolbar_location, plot.toolbar.tools) == (100, None, [])


def test_a_logarithmic_figure_has_ticks_and_a_scale_of_its_own_kind() -> None:
    plot = quiet_figure(y_axis_type="log")
    [y], [grid] = plot.yaxis, plot.grid
    assert isinstance(y, LogAxis)
    assert isinstance(y.ticker, LogTicker)
    assert y.ticker.desired_num_ticks == 3
    assert isinstance(plot.y_scale, LogScale)
    assert isinstance(plot.x_scale, LinearScale)
    assert grid.axis is y


@pytest.mark.parametrize(("whole", "interval"), [(True, 1), (False, 0)])
def test_an_axis_of_steps_has_ticks_at_whole_numbers_only(whole: bool, interval: float) -> None:
    [x] = quiet_figure(whole=whole).xaxis
    assert isinstance(x.ticker, BasicTicker)
    assert x.ticker.min_interval == interval


def test_a_second_figure_with_shared_parts_adds_few_models() -> None:
    parts, alone = PlotParts(), _models(PlotParts())
    first, second = _models(parts), _models(parts)
    assert len(first) == len(alone)
    assert len(second - first) == len(alone) - 10
    assert not first & alone


def test_figures_with_shared_parts_keep_their_own_data_zoom_and_selection() -> None:
    parts = PlotParts()
    sources = [parts.source({"x": [], "y": []}, name=name) for name in "ab"]
    zooms = [parts.zoom_tool() for _ in sources]
    assert [source.name for source in sources] == ["a", "b"]
    assert sources[0].selected is not sources[1].selected
    assert zooms[0].overlay is not zooms[1].overlay
    assert {zoom.dimensions for zoom in zooms} == {"width"}


def _models(parts: PlotParts) -> set[object]:
    """Return the models of a figure with two glyphs and a zoom."""
    plot, source = quiet_figure(parts=parts), parts.source({"x": [], "y": []})
    plot.add_tools(parts.zoom_tool())
    add_glyphs(plot, source, Line(x="x", y="y"), Scatter(x="x", y="y"), parts=parts)
    return set(plot.references())
