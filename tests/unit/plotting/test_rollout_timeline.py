"""`Run.plot.timeline`: rectangles of the logged spans, and an image where there are many."""

from __future__ import annotations

import json
from pathlib import Path

import holoviews as hv
import pytest
from holoviews.plotting.util import get_nested_streams

import rlpanel
from rlpanel.errors import SettingError
from tests.drawn import options_of
from tests.factories import sample, write_run

SPANS = [["generation", 0.0, 1.5], ["</script><b>", 1.5, 4.0]]


def run_of(folder: Path, count: int) -> rlpanel.Run:
    lines = [
        sample(1, index=index, timing={"start": 1e9, "spans": [[n, a, b + index] for n, a, b in SPANS]})
        for index in range(count)
    ]
    (folder / "rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rlpanel.open_run(folder, follow=False)


def test_spans_are_rectangles_the_slowest_first(tmp_path: Path) -> None:
    plot = run_of(tmp_path, 3).plot.timeline(1)
    assert isinstance(plot, hv.Rectangles)
    widths = sorted(zip(plot["bottom"].tolist(), (plot["stop"] - plot["start"]).tolist(), strict=True))
    assert [width for _, width in widths] == [3.5, 4.5, 2.5, 3.5, 1.5, 2.5]
    assert "3 rollouts" in options_of(plot)["title"]


@pytest.mark.slow
def test_many_rollouts_are_an_image_and_a_zoom_shows_rectangles(tmp_path: Path) -> None:
    plot = run_of(tmp_path, 1_100).plot.timeline()
    drawn = hv.renderer("bokeh").get_plot(plot)
    image, rectangles = (part.current_frame for part in drawn.subplots.values())
    assert image.dimension_values(2).max() > 0
    assert not len(rectangles)
    stream = next(one for one in get_nested_streams(plot) if isinstance(one, hv.streams.RangeXY))
    stream.event(x_range=(0.0, 2_000.0), y_range=(20.0, 10.0))
    image, rectangles = (part.current_frame for part in drawn.subplots.values())
    assert len(rectangles) == 20
    assert not image.dimension_values(2).any()


def test_a_name_of_the_log_does_not_end_the_script_of_a_notebook(tmp_path: Path) -> None:
    data, _ = hv.renderer("bokeh").components(run_of(tmp_path, 2).plot.timeline(1))
    assert "</script><b>" not in data["text/html"]


def test_unknown_orders_and_steps_without_times_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no color 'lag'; available: phase"):
        run_of(tmp_path, 1).plot.timeline(1, color="lag")
    other = rlpanel.open_run(write_run(tmp_path / "other", steps=1, samples=1), follow=False)
    with pytest.raises(SettingError, match="no rollouts with times at step 1"):
        other.plot.timeline()


def test_lanes_by_the_logged_worker_have_its_name(tmp_path: Path) -> None:
    lines = [
        sample(1, index=at, worker=f"node-{at % 2}", timing={"start": 1e9 + at, "generation": 3.0})
        for at in range(4)
    ]
    (tmp_path / "rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plot = rlpanel.open_run(tmp_path, follow=False).plot.timeline(1, order="by worker")
    assert options_of(plot)["yticks"] == [(0.5, "node-0"), (2.5, "node-1")]
    assert sorted(plot["bottom"].tolist()) == pytest.approx([0.1, 1.1, 2.1, 3.1])
