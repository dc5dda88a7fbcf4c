"""Histograms by step equal those of pandas with the same intervals, and are computed once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlpanel.api.run import Run
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot import quantiles
from rlpanel.store.snapshot.quantiles import shared_bins
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append, line, write_run

RANK0 = "rollout_data_rank_0.jsonl"
#: A quotient of two of them is no smaller than floats can be.
finite = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


def follow(index: RunIndex) -> RunIndex:
    index.rescan()
    while index.read():
        pass
    return index


def by_pandas(frame: pd.DataFrame, column: str, intervals: pd.IntervalIndex) -> pd.DataFrame:
    """Count with pandas: one row per step, one column per interval."""
    cut = pd.cut(frame[column].replace([math.inf, -math.inf], math.nan), intervals)
    return pd.crosstab(frame["step"], cut, dropna=False).reindex(columns=intervals, fill_value=0)


def test_a_run_counts_what_pandas_counts(ppo: Run) -> None:
    for column in ("reward", "kl_k3_mean", "response_tokens", "kl_k1_sum"):
        found = ppo.histogram(column, 16)
        assert 4 <= found.shape[1] <= 16
        expected = by_pandas(ppo.samples(), column, found.columns)
        np.testing.assert_array_equal(found, expected)
        assert found.index.tolist() == expected.index.tolist()


@given(finite, finite, st.integers(2, 100))
@example(0.0, 1.0, 2)
@example(1e16, 1e16 + 2, 64)
def test_few_equal_bins_hold_every_value(one: float, other: float, bins: int) -> None:
    low, high = sorted((one, other))
    found = shared_bins(low, high, bins)
    edges = found.edges
    assert found.count <= bins
    assert math.frexp(found.width)[0] == 0.5
    assert edges[0] <= low < edges[1]
    assert edges[-2] <= high < edges[-1]
    assert found.bin_of(np.array([low, high])).tolist() == [0, found.count - 1]


def test_bins_are_as_narrow_as_their_number_allows() -> None:
    assert shared_bins(0.1, 3.9, 8).edges.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert shared_bins(-0.1, 3.9, 8).edges.tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    assert shared_bins(7.0, 7.0, 8).edges.tolist() == [7.0, 8.0]


def test_a_value_on_an_edge_counts_where_the_bin_begins(tmp_path: Path) -> None:
    append(tmp_path / RANK0, *(line(1, index=i, reward=r) for i, r in enumerate([0, 1, 1.5, 2, 3.5])))
    found = follow(RunIndex(tmp_path, "run")).view.histogram("reward", 4)
    assert (found.edges.tolist(), found.counts.tolist()) == ([0, 1, 2, 3, 4], [[1, 2, 1, 1]])


def test_only_the_steps_that_changed_are_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=5), "run"))
    narrow = index.view.histogram("reward", 8)
    counted: list[list[int]] = []
    really = quantiles.bin_counts
    monkeypatch.setattr(quantiles, "bin_counts", lambda *a: (counted.append(a[2].tolist()), really(*a))[1])
    append(tmp_path / RANK0, line(3, reward=100.0), line(9, reward=5.0))
    wide = follow(index).view.histogram("reward", 8)
    assert counted == [[3, 9]]
    assert wide.edges[1] - wide.edges[0] > narrow.edges[1] - narrow.edges[0]
    again = follow(RunIndex(tmp_path, "run")).view.histogram("reward", 8)
    np.testing.assert_array_equal(wide.edges, again.edges)
    np.testing.assert_array_equal(wide.counts, again.counts)


def test_when_the_widest_values_go_the_bins_are_narrow_again(tmp_path: Path) -> None:
    append(write_run(tmp_path, steps=5) / "rollout_data_rank_1.jsonl", line(3, rank=1, reward=100.0))
    index = follow(RunIndex(tmp_path, "run"))
    index.view.histogram("reward", 8)
    (tmp_path / "rollout_data_rank_1.jsonl").unlink()
    found = follow(index).view.histogram("reward", 8)
    again = follow(RunIndex(tmp_path, "run")).view.histogram("reward", 8)
    np.testing.assert_array_equal(found.edges, again.edges)
    np.testing.assert_array_equal(found.counts, again.counts)


def test_an_older_snapshot_still_gets_its_own(tmp_path: Path) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=2), "run"))
    old = index.snapshot
    before = RunView(old).histogram("reward")
    append(tmp_path / RANK0, line(1, reward=1.0))
    follow(index).view.histogram("reward")
    np.testing.assert_array_equal(RunView(old).histogram("reward").counts, before.counts)


def test_what_is_not_finite_is_not_counted(tmp_path: Path) -> None:
    rewards = [1.0, None, math.nan, math.inf, 2.0]
    append(
        tmp_path / RANK0, *(line(1, index=i, reward=r) for i, r in enumerate(rewards)), line(2, reward=None)
    )
    found = follow(RunIndex(tmp_path, "run")).view.histogram("reward")
    assert found.counts.sum(axis=1).tolist() == [2, 0]


def test_values_beyond_all_edges_count_outermost() -> None:
    huge = np.array([-1.7e308, 0.0, 1.7e308])
    assert shared_bins(-1.7e308, 1.7e308, 4).bin_of(huge).tolist() == [0, 1, 2]
    assert shared_bins(1.7e308, 1.7e308, 4).bin_of(huge[2:]).tolist() == [0]


def test_a_column_of_nulls_counts_nothing(tmp_path: Path) -> None:
    append(tmp_path / RANK0, line(1, reward=None))
    assert follow(RunIndex(tmp_path, "run")).view.histogram("reward").counts.sum() == 0
