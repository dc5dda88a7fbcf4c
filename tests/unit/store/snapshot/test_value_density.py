"""Value densities by step, compared with pandas; a live update equals a full computation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.value_density import STEPS, VALUES, density, value_axis
from tests.factories import append, line, rewrite, write_run


def look(index: RunIndex) -> RunIndex:
    index.rescan()
    while index.read():
        pass
    return index


def index_of(folder: Path) -> RunIndex:
    return look(RunIndex(folder, "run", Reading()))


def run_of(folder: Path, values: dict[int, list[float]]) -> Path:
    """A run whose samples have these rewards at these steps."""
    folder.mkdir()
    append(
        folder / "rank_0.jsonl",
        *(
            line(step, index=index, reward=value)
            for step, rewards in values.items()
            for index, value in enumerate(rewards)
        ),
    )
    return folder


def by_pandas(folder: Path, edges: np.ndarray, first: int, width: int) -> np.ndarray:
    """Counts by step and value, those beyond the edges at the ends."""
    rows = pd.DataFrame(json.loads(text) for text in (folder / "rank_0.jsonl").read_text().splitlines())
    rows = rows[np.isfinite(rows.reward)]
    inside = rows.reward.clip(edges[0] + 1e-12, edges[-1] - 1e-12)
    part = pd.cut(inside, edges, labels=False, right=False)
    table = pd.crosstab((rows.step - first) // width, part)
    every = range((int(rows.step.max()) - first) // width + 1)
    return table.reindex(index=every, columns=range(len(edges) - 1), fill_value=0).to_numpy()


def spread(steps: range, each: int = 50) -> dict[int, list[float]]:
    chance = np.random.default_rng(1)
    return {step: chance.normal(step / 10, 1.0, each).tolist() for step in steps}


@pytest.mark.parametrize("steps", [range(1, 13), range(0, 2400, 100)], ids=["every step", "every hundredth"])
def test_counts_are_those_of_pandas(tmp_path: Path, steps: range) -> None:
    folder = run_of(tmp_path / "run", spread(steps))
    found = density(index_of(folder).snapshot, "reward", log=False)
    assert found is not None
    np.testing.assert_array_equal(found.counts, by_pandas(folder, found.axis.edges, found.first, found.width))
    assert len(found.counts) == len(steps)


def test_logarithmic_counts_are_those_of_pandas_without_what_has_no_logarithm(tmp_path: Path) -> None:
    values = {step: np.exp(rewards).tolist() for step, rewards in spread(range(1, 9)).items()}
    values[3] += [0.0, -1.0]
    folder = run_of(tmp_path / "run", values)
    found = density(index_of(folder).snapshot, "reward", log=True)
    assert found is not None
    assert (found.axis.log, found.left_out, found.counts.sum()) == (True, 2, 400)
    assert (np.diff(np.log(found.axis.edges)).round(9) == np.diff(np.log(found.axis.edges)).round(9)[0]).all()


def test_an_outlier_lies_at_the_end_and_does_not_flatten_the_rest(tmp_path: Path) -> None:
    values = spread(range(1, 21))
    values[7][0] = 1e9
    found = density(index_of(run_of(tmp_path / "run", values)).snapshot, "reward", log=False)
    assert found is not None
    assert found.axis.high < 10
    assert found.counts.sum() == 1000
    assert found.counts[6, -1] >= 1


@pytest.mark.parametrize(
    "further",
    [
        {13: [1.0, 1.2, float("nan")]},
        {12: [0.3], 15: [1.1]},
        {13: [50.0] * 40},
    ],
    ids=["a new step", "an old step and a gap", "values far outside"],
)
def test_an_update_counts_what_a_fresh_count_does(tmp_path: Path, further: dict[int, list[float]]) -> None:
    folder = run_of(tmp_path / "run", spread(range(1, 13)))
    index = index_of(folder)
    before = density(index.snapshot, "reward", log=False)
    append(
        folder / "rank_0.jsonl",
        *(
            line(step, index=90 + i, reward=v)
            for step, rewards in further.items()
            for i, v in enumerate(rewards)
        ),
    )
    after = density(look(index).snapshot, "reward", log=False, before=before)
    assert after is not None
    np.testing.assert_array_equal(after.counts, by_pandas(folder, after.axis.edges, after.first, after.width))


def test_rows_that_went_are_no_longer_counted(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", spread(range(1, 13)))
    index = index_of(folder)
    before = density(index.snapshot, "reward", log=False)
    lines = (folder / "rank_0.jsonl").read_bytes().splitlines(keepends=True)
    rewrite(folder / "rank_0.jsonl", *lines[:300])
    after = density(look(index).snapshot, "reward", log=False, before=before)
    assert after is not None
    np.testing.assert_array_equal(after.counts, by_pandas(folder, after.axis.edges, after.first, after.width))


def test_a_long_run_is_gathered_into_as_many_columns_as_a_screen_has(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {step: [float(step % 7)] for step in range(5000)})
    found = density(index_of(folder).snapshot, "reward", log=False)
    assert found is not None
    assert (found.width, found.counts.shape[0] <= STEPS, found.counts.sum()) == (4, True, 5000)


@pytest.mark.parametrize(
    ("values", "bins"),
    [([0.5], 1), ([0.0, 0.5, 1.0, 1.5], 7), (np.linspace(0, 1, 1000), VALUES)],
    ids=["constant", "few", "many"],
)
def test_few_values_have_rows_of_their_own(values: list[float], bins: int) -> None:
    axis = value_axis(np.array(values))
    places = axis.bin_of(np.unique(values))
    assert axis.bins == bins
    assert len(np.unique(places)) >= (len(values) if axis.distinct else bins - 4)  # a little room at the ends


def test_whole_numbers_share_parts_evenly() -> None:
    axis = value_axis(np.arange(100, dtype=float), 64.0)
    widths = np.diff(axis.edges)
    assert np.ptp(widths) == 0
    assert widths[0] % 1 == 0


def test_a_click_takes_the_nearest_part_that_holds_a_value(tmp_path: Path) -> None:
    found = density(
        index_of(run_of(tmp_path / "run", {1: [0.0, 1.0, 1.0], 2: [0.5]})).snapshot, "reward", log=False
    )
    assert found is not None
    low, high = found.value_range(found.column_of(1), 0.9)
    assert low < 1.0 < high
    assert low > 0.5
    assert found.value_range(found.column_of(2), 3.0)[0] < 0.5


def test_a_column_without_a_number_has_no_density(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {1: [float("nan"), float("nan")]})
    assert density(index_of(folder).snapshot, "reward", log=False) is None


def test_one_step_of_one_sample_has_one_cell(tmp_path: Path) -> None:
    found = density(index_of(write_run(tmp_path / "run", steps=1, samples=1)).snapshot, "reward", log=False)
    assert found is not None
    assert found.counts.tolist() == [[1]]
