"""The share of a later change that an earlier one explains, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.bisect.bisection import SampleSet, smallest_removal
from rlpanel.bisect.carried_changes import WindowSamples, explained_share, left_out_share

COUNT = 400


def windows(x: np.ndarray, y: np.ndarray) -> WindowSamples:
    """Return samples in groups of four; the second half comes after the change."""
    index = np.arange(len(x))
    return WindowSamples(x, y, index >= len(x) // 2, index // 4, index // 40)


def test_a_flag_that_carries_all_of_a_fall_explains_it_all() -> None:
    draw = np.random.default_rng(0)
    x = (draw.random(2 * COUNT) < np.repeat([0.05, 0.5], COUNT)).astype(float)
    y = np.where(x > 0, 0.2, 1.0) + draw.normal(0, 0.1, 2 * COUNT)
    found = explained_share(windows(x, y))
    # Oracle: the mean after the change, with each flag's share as it was before.
    old, new = y[:COUNT].mean(), y[COUNT:].mean()
    part = x[:COUNT].mean()
    restored = part * y[COUNT:][x[COUNT:] > 0].mean() + (1 - part) * y[COUNT:][x[COUNT:] == 0].mean()
    assert found.share == pytest.approx((new - restored) / (new - old))
    assert found.share == pytest.approx(1, abs=0.1)
    assert found.by == "mix"
    assert found.is_clear
    assert found.within == pytest.approx(1, abs=0.15)


def test_a_decoy_explains_nothing() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(np.repeat([0.0, 0.8], COUNT), 1)
    y = draw.normal(np.repeat([1.0, 0.5], COUNT), 0.3)
    found = explained_share(windows(x, y))
    assert abs(found.share) < 0.2
    assert not found.is_clear


def test_a_number_that_left_its_range_explains_by_its_slope() -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(np.repeat([0.0, 10.0], COUNT), 1)
    y = -0.1 * x + draw.normal(0, 0.05, 2 * COUNT)
    found = explained_share(windows(x, y))
    assert found.by == "slope"
    assert found.share == pytest.approx(1, abs=0.1)


def test_a_change_of_all_samples_alike_has_no_share() -> None:
    x = np.repeat([0.0, 1.0], COUNT)
    found = explained_share(windows(x, np.repeat([1.0, 0.5], COUNT)))
    assert np.isnan(found.share)
    assert not found.is_clear


def test_missing_values_are_a_part_of_their_own() -> None:
    x = np.ones(2 * COUNT)
    x[COUNT::2] = np.nan
    y = np.where(np.isnan(x), 0.0, 1.0)
    assert explained_share(windows(x, y)).share == pytest.approx(1)


def test_a_place_without_which_the_fall_vanishes_explains_it() -> None:
    inside = np.arange(2 * COUNT) % 4 == 0
    y = np.where(inside & (np.arange(2 * COUNT) >= COUNT), 0.0, 1.0)
    y[::8] += 0.01
    assert left_out_share(windows(inside.astype(float), y), inside).share == pytest.approx(1, abs=0.05)
    assert abs(left_out_share(windows(inside.astype(float), y), ~inside).share) > 1  # the rest fell less


def test_the_smallest_set_that_undoes_a_fall_is_chosen() -> None:
    y = np.ones(200)
    bad = np.arange(200) >= 180
    y[bad] = 0.0
    before, after = np.arange(200) < 100, np.arange(200) >= 100
    sets = [
        SampleSet("half", "half", np.arange(200) >= 150),
        SampleSet("the bad", "bad", bad),
        SampleSet("others", "others", (np.arange(200) >= 100) & (np.arange(200) < 120)),
    ]
    found = smallest_removal(y, before, after, np.arange(200), sets)
    assert found is not None
    assert (found.names, found.count, found.of, found.undone) == (("the bad",), 20, 100, 1.0)
    assert found.without == 1.0


def test_sets_are_joined_and_samples_chosen_one_by_one_only_where_no_set_does() -> None:
    y = np.ones(200)
    y[150:170] = 0.0
    before, after = np.arange(200) < 100, np.arange(200) >= 100
    first = SampleSet("a", "a", (np.arange(200) >= 150) & (np.arange(200) < 160))
    second = SampleSet("b", "b", (np.arange(200) >= 160) & (np.arange(200) < 170))
    joined = smallest_removal(y, before, after, np.arange(200), [first, second])
    assert joined is not None
    assert sorted(joined.names) == ["a", "b"]
    alone = smallest_removal(y, before, after, np.arange(200), [])
    assert alone is not None
    assert alone.names == ()
    kept = np.delete(y, alone.rows)[100:]
    assert 1 - (kept.mean() - 1) / (y[100:].mean() - 1) >= 0.8
    assert alone.count <= 20
