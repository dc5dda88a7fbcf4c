"""The scatter plot: one point per sample, or exact counts in cells."""

from __future__ import annotations

from pathlib import Path

import holoviews as hv
import numpy as np
import pytest
from bokeh.models import ColumnDataSource

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.plotting import sample_plots
from tests.drawn import options_of
from tests.factories import append, line


@pytest.fixture
def run(grpo: rlpanel.Run) -> rlpanel.Run:
    return grpo


def test_every_sample_is_a_point(run: rlpanel.Run) -> None:
    drawn, samples = run.plot.scatter("response_tokens", "reward", 30), run.samples(30)
    assert isinstance(drawn, hv.Points)
    np.testing.assert_array_equal(drawn["response_tokens"], samples["response_tokens"])
    np.testing.assert_array_equal(drawn["reward"], samples["reward"])


def test_samples_without_one_of_the_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    scores = [1.0, None, 2.0]
    append(tmp_path / "r.jsonl", *(line(1, index=at, score=score) for at, score in enumerate(scores)))
    drawn = rlpanel.open_run(tmp_path, follow=False).plot.scatter("score", "reward")
    assert drawn["score"].tolist() == [1.0, 2.0]
    assert options_of(drawn)["title"].endswith("all steps: 2 samples, 1 without both")


def test_many_samples_are_counted_exactly(run: rlpanel.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_plots, "MAX_POINTS", 3000)
    drawn = run.plot.scatter("response_tokens", "reward")
    assert isinstance(drawn, hv.Image)
    counts = np.nan_to_num(drawn.dimension_values("samples", flat=False))
    assert counts.sum() == len(run.samples()) == 3840
    columns = run.samples().response_tokens.value_counts().sort_index()  # whole numbers: cells of 1
    rows = run.histogram("reward", sample_plots.CELLS).sum()
    by_length = counts.sum(axis=0)
    np.testing.assert_array_equal(by_length[by_length > 0], columns)
    np.testing.assert_array_equal(counts.sum(axis=1), rows)
    assert "3,840 samples in cells of 1 × 0.0156" in options_of(drawn)["title"]


def test_an_image_lies_where_the_points_lie(run: rlpanel.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = run.samples(30).iloc[0]
    monkeypatch.setattr(sample_plots, "MAX_POINTS", 0)
    drawn = run.plot.scatter("response_tokens", "reward", 30)
    here = (run.samples(30).response_tokens == sample.response_tokens) & (
        run.samples(30).reward == sample.reward
    )
    inside = sample.response_tokens + 0.5, sample.reward + 0.001  # an edge belongs to two cells of an image
    assert drawn[inside] == here.sum()


def test_the_browser_gets_cells_and_not_the_samples(tmp_path: Path) -> None:
    lines = (line(1, tokens=False, index=at, score=at % 97) for at in range(20_001))
    append(tmp_path / "r.jsonl", *lines)
    drawn = rlpanel.open_run(tmp_path, follow=False).plot.scatter("score", "reward")
    sources = hv.render(drawn).select({"type": ColumnDataSource})
    columns = [column for source in sources for column in source.data.values()]
    sent = [sum(np.size(value) for value in column) for column in columns]
    assert max(sent) <= sample_plots.CELLS**2


def test_a_column_that_is_not_logged_is_an_error(run: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match="no numbers 'values'"):
        run.plot.scatter("values", "reward")
