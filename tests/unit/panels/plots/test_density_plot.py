"""Density plots: data sent, colours, ridges, and the range that a click selects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.document.events import ColumnDataChangedEvent, ColumnsPatchedEvent, ColumnsStreamedEvent
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from rlpanel.panels.curves.curve_bar import Curve
from rlpanel.panels.curves.curve_plot import CurvePlot, CurveWindow, ValueDistribution
from rlpanel.panels.plots.density_plot import SHADES, DensityLayer, ramp, shades
from rlpanel.panels.plots.plot_elements import RIDGES, ridges
from rlpanel.panels.plots.quiet_figure import quiet_figure
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter import NUMBER, Filter
from rlpanel.store.snapshot.value_density import density
from tests.factories import append, line, write_run

DATA_EVENTS = (ColumnDataChangedEvent, ColumnsPatchedEvent, ColumnsStreamedEvent)
NO_POINTS = {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n")}


def look(index: RunIndex) -> RunIndex:
    index.rescan()
    while index.read():
        pass
    return index


def index_of(folder: Path) -> RunIndex:
    return look(RunIndex(folder, "run", Reading()))


def layer() -> tuple[DensityLayer, figure]:
    plot = quiet_figure(height=120)
    return DensityLayer(plot, "reward", "policy", ColumnDataSource(NO_POINTS)), plot


def test_each_step_is_full_where_most_of_it_lies() -> None:
    counts = np.array([[0, 1, 4], [2, 2, 0], [0, 0, 0]])
    expected = [[0, SHADES - 1, 0], [np.ceil((SHADES - 1) / 2), SHADES - 1, 0], [SHADES - 1, 0, 0]]
    assert shades(counts).tolist() == expected


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_a_shade_that_means_more_stands_out_more(dark: bool) -> None:
    colors = theme.palette(dark)
    palette = ramp(colors["policy"], colors["surface"], dark)
    assert len(palette) == SHADES
    light = np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in palette[1:]])
    weighed = light @ [0.299, 0.587, 0.114]
    assert (np.diff(weighed) * (1 if dark else -1) > 0).all()


def test_a_sample_more_sends_one_column(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=12, samples=40)
    index, (shown, plot) = index_of(folder), layer()
    shown.draw(index.snapshot)
    document, events = Document(), []
    document.add_root(plot)
    document.on_change(events.append)
    append(folder / "rollout_data_rank_0.jsonl", line(13, reward=0.0))
    shown.draw(look(index).snapshot)
    (event,) = (event for event in events if isinstance(event, DATA_EVENTS))
    assert isinstance(event, ColumnsPatchedEvent)
    ((place, values),) = event.patches["image"]
    assert (place[2].start, values.max()) == (12, SHADES - 1)


def test_a_place_gives_the_range_of_its_values(tmp_path: Path) -> None:
    shown, _ = layer()
    assert shown.range_at(2.2, 0.5) is None
    shown.draw(index_of(write_run(tmp_path / "run", steps=3, samples=8)).snapshot)
    within = shown.range_at(2.2, 0.5)
    assert within is not None
    assert (within.column, within.low < 0.6, within.high > 0.4) == ("reward", True, True)


def test_a_range_is_a_filter() -> None:
    for wanted in (
        ValueRange("rewards/a b", -0.25, 0.5),
        ValueRange("x", -np.inf, 2.0),
        ValueRange("x", 1e-9, np.inf),
    ):
        assert Filter(wanted.text, {wanted.column: NUMBER}).columns[0] == wanted.column
    assert ValueRange("x", 0.25, 0.5).text == "0.25 <= `x` <= 0.5"


def test_the_grid_lists_the_samples_in_the_range(tmp_path: Path) -> None:
    index = index_of(write_run(tmp_path / "run", steps=3, samples=32))
    context = Context(view=index.view, index=index)
    samples = SampleGrid(context)
    frame = index.view.frame(index.snapshot.rows_of(2))
    context.choose_range(2, "0.2 <= `reward` <= 0.6")
    shown = set(samples.table.frame["uid"])
    assert shown == set(frame[frame.reward.between(0.2, 0.6)].uid)
    assert 0 < len(shown) < len(frame)
    context.selection.filter = ""
    assert set(samples.table.frame["uid"]) == set(frame.uid)


def test_ridges_are_shares_of_stretches_of_steps(tmp_path: Path) -> None:
    found = density(index_of(write_run(tmp_path / "run", steps=20, samples=8)).snapshot, "reward", log=False)
    assert found is not None
    made = ridges(found)
    assert len(made.heights) == RIDGES
    assert (made.first[0], made.last[-1], made.heights.max()) == (1, 20, 1.0)
    assert (made.first[1:] == made.last[:-1] + 1).all()


@pytest.mark.parametrize("band", ["density", "ridge"])
@pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
@pytest.mark.parametrize(("steps", "samples"), [(1, 1), (5, 4)])
def test_a_distribution_is_drawn_for_any_run(
    tmp_path: Path, band: str, log: bool, steps: int, samples: int
) -> None:
    index = index_of(write_run(tmp_path / "run", steps=steps, samples=samples))
    context = Context(view=index.view, index=index)
    for column in ("reward", "log_ratio_sum", "response_tokens"):
        plot = CurvePlot(Curve(column, column, (column,), log), CurveWindow(), whole_numbers=True)
        made = ValueDistribution(context, plot)
        context.display.band = band
        made.draw(index.view)
        made.move_cursor(1)
        made.restyle(False)
        assert (made.pane is not None) == (band == "ridge")
        assert (made.axis(0.0) is not None) == (made.kind == "density")
        assert made.kind or (log and column == "log_ratio_sum")
        context.display.band = "std"
        made.draw(index.view)
        assert (made.pane, made.kind, made.axis(0.0)) == (None, "", None)
