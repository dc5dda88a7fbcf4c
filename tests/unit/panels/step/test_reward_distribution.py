"""Histogram bins that suit the values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlpanel
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import (
    BINS,
    MAX_GAP_BARS,
    RewardDistribution,
    bins_of,
    gap_plot,
)
from tests.factories import append, line
from tests.page_parts import send

floats = st.lists(st.floats(-1e6, 1e6), max_size=60)


@given(floats, floats)
def test_every_finite_value_is_counted_once(a: list[float], b: list[float]) -> None:
    bins = bins_of(np.array(a), np.array(b))
    assert bins.count(np.array(a)).sum() == len(a)
    assert bins.count(np.array(b)).sum() == len(b)


def test_a_few_rule_based_rewards_get_a_bar_each() -> None:
    bins = bins_of(np.array([0.0, 0.5, 0.5, 1.5, np.nan]))
    assert bins.values is not None
    assert bins.values.tolist() == [0.0, 0.5, 1.5]
    assert bins.count(np.array([0.0, 0.5, 0.5, 1.5])).tolist() == [1, 2, 1]


def test_many_values_get_equal_bins() -> None:
    bins = bins_of(np.linspace(0, 1, 100))
    assert (len(bins.edges), bins.values) == (BINS + 1, None)


def test_bars_of_two_layers_stand_side_by_side() -> None:
    bins = bins_of(np.array([0.0, 1.0]))
    (_, first_ends), (second_starts, _) = bins.bars(0, 2), bins.bars(1, 2)
    np.testing.assert_allclose(first_ends, second_starts)


def test_nothing_finite_is_no_crash() -> None:
    assert bins_of(np.array([np.nan, np.inf])).count(np.array([np.nan])).tolist() == [0]


def test_many_gaps_share_bars_that_keep_their_order_and_cover_all_samples() -> None:
    gap = np.sort(np.random.default_rng(0).normal(size=100_003))
    good, bad = gap_plot(gap)["layers"]
    assert len(good["left"]) == MAX_GAP_BARS
    assert (good["left"][0], good["right"][-1]) == (0, len(gap))
    assert good["left"][1:] == good["right"][:-1]
    shown = np.array(good["top"]) + np.array(bad["bottom"])
    assert (np.diff(shown) >= 0).all()
    assert abs(np.mean(shown > 0) - np.mean(gap > 0)) < 1 / MAX_GAP_BARS


def test_few_gaps_get_a_bar_each() -> None:
    good, bad = gap_plot(np.array([-1.0, 0.0, 2.0]))["layers"]
    assert (good["top"], bad["bottom"]) == ([0, 0, 2], [-1, 0, 0])


def card_of(folder: Path, *rewards: float) -> RewardDistribution:
    folder.mkdir()
    lines = [line(1, index=at, reward=reward, drop=["ref_reward"]) for at, reward in enumerate(rewards)]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    run = rlpanel.open_run(folder, follow=False)
    context = Context(index=run.index, view=run.view)
    context.choose_step(1)
    return RewardDistribution(context)


@pytest.mark.parametrize("rewards", [(1.0,) * 16, (0.65, 0.65 + 1e-9, 0.65 - 1e-9) * 5 + (0.65,)])
def test_a_lone_value_is_a_thin_bar_with_its_words(tmp_path: Path, rewards: tuple[float, ...]) -> None:
    card = card_of(tmp_path / "run", *rewards)
    [layer] = card.plot["layers"]
    low, high = card.plot["x"]
    assert layer["right"][0] - layer["left"][0] < 0.1 * (high - low)
    assert layer["top"] == [16]
    assert card.plot["lone"] == rewards[0]
    assert f"all 16 are {rewards[0]:g}" in card.head["notes"][0][0]


def test_a_tooltip_counts_samples(tmp_path: Path) -> None:
    rows = dict(card_of(tmp_path / "run", 0.0, 1.0, 1.0).plot["tips"]["rows"])
    assert rows == {"reward": ["0", "1"], "": ["1 sample", "2 samples"]}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (["pick", 0.9], "`reward` == 1"),
        (["pick", 0.2], "`reward` == 0"),
        (["brush", 0.3, 1.2], "0.5 <= `reward` <= 1"),
        (["brush", -9.0, 9.0], "0 <= `reward` <= 1"),
    ],
    ids=str,
)
def test_a_click_or_a_brush_filters_by_the_values(
    tmp_path: Path, message: list[object], expected: str
) -> None:
    card = card_of(tmp_path / "run", *[0.0, 0.5, 1.0] * 4)
    send(card, message)
    assert card.context.selection.filter == expected
    assert not card.context.selection.follow


def test_a_brush_over_many_values_takes_whole_bins(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 97)
    card = card_of(tmp_path / "run", *values.tolist())
    send(card, ["brush", 0.51, 0.6])
    low, high = 12 / BINS, 15 / BINS
    assert card.context.selection.filter == f"{low:.12g} <= `reward` <= {high:.12g}"


@pytest.mark.parametrize(
    "message", [["pick"], ["pick", None], ["brush", 1.0], ["brush", "a", "b"], ["x", 1]], ids=str
)
def test_another_message_of_a_browser_does_nothing(tmp_path: Path, message: list[object]) -> None:
    card = card_of(tmp_path / "run", 0.0, 1.0)
    send(card, message)
    assert card.context.selection.filter == ""
