"""Lines of overlaid runs: their runs, and the small updates when one grows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource

import rlpanel
from rlpanel.api.run import Run
from rlpanel.panels.curves.curve_points import OverlayCurves
from rlpanel.panels.plots.quiet_figure import quiet_figure
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import OverlayRun
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run


def other(run: Run, slot: int) -> OverlayRun:
    return OverlayRun(run.name, run.name, slot, run.index, run.view)


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    names = ("own", "one", "two")
    return [rlpanel.open_run(write_run(tmp_path / name, steps=3), follow=False) for name in names]


@pytest.fixture
def context(runs: list[Run]) -> Context:
    return Context(view=runs[0].view, overlays=[other(runs[1], 0), other(runs[2], 1)])


@pytest.fixture
def plot() -> Any:
    plot = quiet_figure()
    Document().add_root(plot)
    return plot


def lines(plot: Any) -> ColumnDataSource:
    return next(iter(plot.renderers)).data_source


def grown(run: Run, tmp_path: Path) -> OverlayRun:
    """A run with a step more."""
    append(tmp_path / run.name / "rollout_data_rank_0.jsonl", line(4, reward=9.0))
    return other(rlpanel.open_run(tmp_path / run.name, follow=False), 1)


def test_each_run_has_its_line_and_colour(context: Context, runs: list[Run], plot: Any) -> None:
    OverlayCurves(context, plot, "reward").draw()
    data = lines(plot).data
    assert data["run"] == ["one", "two"]
    assert data["color"] == [one.color(dark=True) for one in context.overlays]
    for drawn, run in zip(data["ys"], runs[1:], strict=True):
        np.testing.assert_allclose(drawn, run.snapshot.steps.mean("reward"))


def test_a_run_that_grows_sends_its_own_line_alone(
    context: Context, runs: list[Run], plot: Any, tmp_path: Path
) -> None:
    overlay, events = OverlayCurves(context, plot, "reward"), []
    overlay.draw()
    plot.document.on_change(events.append)
    overlay.draw()
    assert events == []
    context.overlays = [context.overlays[0], grown(runs[2], tmp_path)]
    overlay.draw()
    assert [type(event).__name__ for event in events] == ["ColumnsPatchedEvent"]
    assert {place for changes in events[0].patches.values() for place, _ in changes} == {1}
    assert lines(plot).data["ys"][1][-1] == 9.0


def test_a_hidden_run_has_no_line(context: Context, plot: Any) -> None:
    overlay = OverlayCurves(context, plot, "reward")
    overlay.draw()
    context.hidden_runs = frozenset({"one"})
    overlay.draw()
    assert lines(plot).data["run"] == ["two"]


def test_a_run_without_the_column_has_an_empty_line(context: Context, runs: list[Run], plot: Any) -> None:
    own = replace(context.overlays[0], view=RunView(Snapshot("empty")))
    context.overlays = [own, context.overlays[1]]
    OverlayCurves(context, plot, "reward").draw()
    assert [len(values) for values in lines(plot).data["ys"]] == [0, 3]


def test_the_raw_line_is_there_while_it_is_smoothed(context: Context, runs: list[Run], plot: Any) -> None:
    overlay = OverlayCurves(context, plot, "reward")
    context.selection.smooth = 0.5
    overlay.draw()
    assert [renderer.visible for renderer in plot.renderers] == [True, True]
    raw = runs[1].snapshot.steps.mean("reward")
    np.testing.assert_allclose(lines(plot).data["raws"][0], raw)
    np.testing.assert_allclose(lines(plot).data["ys"][0][1], (raw[0] / 2 + raw[1]) / 1.5)
    context.selection.smooth = 0.0
    overlay.draw()
    assert [renderer.visible for renderer in plot.renderers] == [True, False]
