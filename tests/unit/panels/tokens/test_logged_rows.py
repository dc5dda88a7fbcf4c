"""Rows of lists that are no fields: categories, scales, and what the browser gets of their names."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.panels.tokens.metric_rows import MAX_CATEGORIES, MetricRow, sample_rows
from rlpanel.panels.tokens.token_view import pack_sample
from rlpanel.schema import Alternative, Sample


def sample(**arrays: np.ndarray) -> Sample:
    size = len(next(iter(arrays.values())))
    return Sample(uid="a:0", step=1, response_tokens=["x"] * size, token_arrays=arrays)


def row(values: np.ndarray) -> MetricRow:
    return sample_rows(sample(mine=values), len(values))[0][-1]


def test_booleans_are_categories_with_names() -> None:
    assert row(np.array([True, False, False])).categories == ((0.0, 0, "false"), (1.0, 1, "true"))


def test_small_whole_numbers_have_one_colour_in_all_samples() -> None:
    assert row(np.array([0, 2, 2])).categories == ((0.0, 0, "0"), (2.0, 2, "2"))
    assert row(np.array([0, 1, 2])).categories[2] == (2.0, 2, "2")


def test_other_whole_numbers_have_colours_in_order() -> None:
    assert row(np.array([104, 101, 101])).categories == ((101.0, 0, "101"), (104.0, 1, "104"))


@pytest.mark.parametrize("values", [np.arange(MAX_CATEGORIES + 1), np.array([0.0, 1.0, 0.0])])
def test_many_numbers_and_fractions_are_no_categories(values: np.ndarray) -> None:
    found = row(values)
    assert found.categories == ()
    assert found.scale == "sequential"


def test_values_of_both_signs_diverge_from_zero() -> None:
    found = row(np.array([-1.0, 2.0, 0.5]))
    assert found.scale == "diverging"
    assert found.lo == -found.hi


def test_the_rare_category_is_drawn_where_tokens_share_a_pixel() -> None:
    assert row(np.array([3, 3, 0])).center == 3.0


def test_a_name_from_the_log_is_no_key_of_what_the_browser_gets() -> None:
    packed = pack_sample(sample(__proto__=np.array([0.5, 1.0])))
    assert packed["rows"]["name"] == ["logged:__proto__"]
    assert packed["rows"]["logged"][0]["label"] == "__proto__"
    assert packed["state"] == "tokens"
    assert "__proto__" not in packed


def test_a_name_of_a_metric_is_said() -> None:
    notes = sample_rows(sample(logprobs=np.array([0.5, 1.0])), 2)[1]
    assert any("logged_logprobs" in note for note in notes)


def test_alternatives_have_the_rank_of_the_sampled_token() -> None:
    found = (Alternative("b", -0.1), Alternative("x", -2.5))
    packed = pack_sample(Sample(uid="a:0", step=1, response_tokens=["x", "y"], top_logprobs=(found, found)))
    assert packed["alternatives"] == [[2, ["b", -0.1], ["x", -2.5]], [0, ["b", -0.1], ["x", -2.5]]]
