"""The distribution of a column: the counts of `Run.histogram`."""

from __future__ import annotations

import holoviews as hv
import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.errors import SettingError
from tests.drawn import options_of


@pytest.fixture
def run(grpo: rlpanel.Run) -> rlpanel.Run:
    return grpo


def counted(row: pd.Series) -> dict[tuple[float, float], int]:
    """Return the counts of the intervals that are not empty."""
    return {(each.left, each.right): int(count) for each, count in row.items() if count}


def drawn_counts(histogram: hv.Histogram) -> dict[tuple[float, float], int]:
    counts = pd.Series(histogram.dimension_values(1), pd.IntervalIndex.from_breaks(histogram.edges))
    return counted(counts)


@pytest.mark.parametrize("column", ["reward", "kl_k3_mean", "response_tokens"])
def test_a_step_has_the_counts_of_the_run(run: rlpanel.Run, column: str) -> None:
    assert drawn_counts(run.plot.distribution(column, 30)) == counted(run.histogram(column).loc[30])


def test_a_range_of_steps_and_the_run_have_the_sums(run: rlpanel.Run) -> None:
    table = run.histogram("reward", 16)
    assert drawn_counts(run.plot.distribution("reward", (10, 12), bins=16)) == counted(table.loc[10:12].sum())
    assert drawn_counts(run.plot.distribution("reward", bins=16)) == counted(table.sum())


def test_the_title_tells_step_samples_and_mean(run: rlpanel.Run) -> None:
    mean = run.steps.set_index("step").reward_mean[30]
    title = options_of(run.plot.distribution("reward", 30))["title"]
    assert title == f"couplets-grpo, step 30: 64 samples, mean {mean:.2f}"
    assert "steps 10–12: 192 samples" in options_of(run.plot.distribution("reward", (10, 12)))["title"]


def test_only_intervals_around_the_values_are_drawn(run: rlpanel.Run) -> None:
    values = run.samples(30).reward
    edges = run.plot.distribution("reward", 30).edges
    assert edges[0] <= values.min() < edges[1]
    assert edges[-2] <= values.max() < edges[-1]
    assert np.isin(edges, run.view.histogram("reward").edges).all()


def test_a_step_without_samples_is_an_error_that_names_the_steps(run: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match="no samples at step 999 in couplets-grpo; its steps are 1 to 60"):
        run.plot.distribution("reward", 999)
