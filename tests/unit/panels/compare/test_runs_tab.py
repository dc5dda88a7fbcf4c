"""Two runs on the same prompts: matching, list and plots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.run_comparison import (
    BY_WORDS,
    EXACT,
    TOO_MANY,
    ComparedRun,
    Prompts,
    compare_runs,
)
from rlpanel.board_url import BEST
from rlpanel.metrics.win_rate import win_rate_of
from rlpanel.panels.compare.comparison_summary import comparison_export, win_rate_html, win_rate_text
from rlpanel.panels.compare.runs_tab import difference_plot, lone_difference
from rlpanel.texts.prompt_parts import TextStyle
from tests.factories import append, line


def seat(folder: Path, rewards: dict[str, float]) -> ComparedRun:
    folder.mkdir()
    rows = [line(1, index=at, prompt=text, reward=rewards[text]) for at, text in enumerate(rewards)]
    append(folder / "rollout_data_rank_0.jsonl", *rows)
    run = rlpanel.open_run(folder, follow=False)
    return ComparedRun(run.index, run.view)


@pytest.fixture
def seats(tmp_path: Path) -> tuple[ComparedRun, ComparedRun]:
    """Two runs: both have prompt a, one has b in a chat template, the other prompts differ."""
    here = {"a": 1.0, "<|user|>b": 0.0, "x": 0.0}
    return seat(tmp_path / "here", here), seat(tmp_path / "there", {"a": 0.5, "b": 1.0, "y": 0.0})


def test_prompts_in_templates_are_matched_where_some_are_alone(
    seats: tuple[ComparedRun, ComparedRun],
) -> None:
    found = next(compare_runs(*seats, Prompts(TextStyle())))
    assert (found.how, found.prompts) == (BY_WORDS, ["<|user|>b", "a"])
    assert found.pairs.difference[found.listed].tolist() == [-1.0, 0.5]
    assert (found.pairs.only_here, found.pairs.only_there) == (1, 1)


def test_a_run_against_itself_is_matched_by_the_text_as_logged(
    seats: tuple[ComparedRun, ComparedRun],
) -> None:
    found = next(compare_runs(seats[0], seats[0], Prompts(TextStyle())))
    assert (found.how, len(found.pairs)) == (EXACT, 3)


def test_many_prompts_are_not_read(seats: tuple[ComparedRun, ComparedRun]) -> None:
    found = next(compare_runs(*seats, Prompts(TextStyle(), max_read=2)))
    assert (found.how, len(found.pairs)) == (TOO_MANY, 1)


def test_of_many_pairs_both_ends_are_listed(tmp_path: Path) -> None:
    rewards = {f"prompt {at}": float(at) for at in range(9)}
    seats = seat(tmp_path / "here", rewards), seat(tmp_path / "there", dict.fromkeys(rewards, 0.0))
    found = next(compare_runs(*seats, Prompts(TextStyle()), max_listed=4))
    assert found.pairs.difference[found.listed].tolist() == [0.0, 1.0, 7.0, 8.0]


def test_the_file_has_a_row_a_prompt_with_its_text(seats: tuple[ComparedRun, ComparedRun]) -> None:
    prompts = Prompts(TextStyle())
    found = next(compare_runs(*seats, prompts))
    taken = comparison_export(found, prompts, ("here", "<there>"))
    frame = taken.rows()
    assert frame.prompt.tolist() == ["<|user|>b", "a"]
    assert frame.reward.tolist() == [0.0, 1.0]
    assert frame.against_reward.tolist() == [1.0, 0.5]
    assert frame.difference.tolist() == [-1.0, 0.5]
    assert [seats[0].snapshot.row(uid) for uid in frame.uid] == [1, 0]
    assert [seats[1].snapshot.row(uid) for uid in frame.against_uid] == [1, 0]
    assert taken.name == "here-against-_there_"
    assert "50% won (9–91%), 0% tied (0–66%), 50% lost (9–91%), Wilson 95 %" in taken.words
    assert "mean difference −0.2 ± 9.5 (95 %, Student's t over 2 prompts)" in taken.words


def test_the_file_leaves_prompts_out_that_are_too_many(seats: tuple[ComparedRun, ComparedRun]) -> None:
    found = next(compare_runs(*seats, Prompts(TextStyle())))
    few = Prompts(TextStyle(), max_read=1)
    assert "prompt" not in comparison_export(found, few, ("here", "there")).rows()


def test_no_bar_holds_lost_and_won_prompts() -> None:
    differences = np.linspace(-1.03, 2.17, 100)
    differences[40] = 0.0
    layers = {layer["color"]: layer for layer in difference_plot(differences)["layers"]}
    for name, won in (("policy", True), ("reference", False)):
        left, right, count = (np.array(layers[name][key]) for key in ("left", "right", "top"))
        filled = count > 0
        assert (left[filled] >= 0).all() if won else (right[filled] <= 1e-12).all()
    assert sum(layers["reference"]["top"]) == (differences < 0).sum()
    assert sum(layers["policy"]["top"]) == (differences >= 0).sum()
    assert sum(layers["muted"]["top"]) == 1


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (-0.25, "−0.25")])
def test_a_lone_difference_is_a_thin_bar_with_its_words(value: float, text: str) -> None:
    differences = np.full(397, value)
    plot = difference_plot(differences)
    low, high = plot["x"]
    for layer in plot["layers"]:
        assert np.ptp([*layer["left"], *layer["right"]]) < (high - low) / 10
    assert lone_difference(differences) == f"all 397 are {text}"
    assert lone_difference(np.array([value, value + 1])) == ""


def test_the_outcome_is_said_with_its_intervals() -> None:
    html = win_rate_html(win_rate_of(np.array([1.0, 1.0, 0.0, -0.5])))
    assert '<em class="policy">won</em> <b>50%</b> (15–85%)' in html
    assert "mean difference <b>+0.4 ± 1.2</b> <small>(95 %, Student's t over 4 prompts)" in html
    assert "Wilson" in html


def test_one_prompt_has_no_interval_and_the_reason_is_said() -> None:
    rate = win_rate_of(np.array([0.5]))
    for text in (win_rate_html(rate), win_rate_text(rate)):
        assert "(no interval: fewer than 2 prompts)" in text
        assert "±" not in text


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (1.0, "+0.50 ± 0.91 "),
        (0.1, "+0.050 ± 0.091 "),
        (-100.0, "−50 ± 91 "),
        (1e-6, "+5e−7 ± 9.05e−7 "),
    ],
)
def test_the_mean_is_rounded_like_its_interval(scale: float, said: str) -> None:
    """The mean is 0.5, the standard deviation 0.7289, half the width 2.7764 · 0.7289 / √5 = 0.905."""
    differences = np.array([1.2, 0.9, 0.8, -0.65, 0.25]) * scale
    assert f"mean difference {said}" in win_rate_text(win_rate_of(differences))


def functions_run(folder: Path, steps: int, bonus: float | None) -> ComparedRun:
    """Write a run with 16 prompts; with a bonus, the rewards of steps are its only difference."""
    folder.mkdir()
    rows = [
        line(step, index=at, prompt=f"prompt {at}", reward=at / 16 + (bonus or 0.0) * step,
             rewards={"match": at / 16} | ({} if bonus is None else {"<b>bonus": bonus * step}))
        for step in range(1, steps + 1) for at in range(16)
    ]  # fmt: skip
    append(folder / "rollout_data_rank_0.jsonl", *rows)
    run = rlpanel.open_run(folder, follow=False)
    return ComparedRun(run.index, run.view)


def test_the_whole_tab_uses_the_shared_reward_functions(tmp_path: Path) -> None:
    """The bonus of one run is in its reward, and would win every prompt."""
    seats = functions_run(tmp_path / "here", 2, 1.0), functions_run(tmp_path / "there", 1, None)
    prompts = Prompts(TextStyle())
    found = next(compare_runs(*seats, prompts))
    assert found.reward.functions == ("match",)
    assert (found.rate.ties.count, found.rate.mean) == (16, 0.0)
    assert found.pairs.here.row_reward.max() == 15 / 16
    taken = comparison_export(found, prompts, ("here", "there"))
    assert "Compared on 1 shared reward function: match" in taken.words
    assert taken.rows().reward.max() == 15 / 16
    own = next(compare_runs(seats[0], replace(seats[0], at="1"), prompts))
    assert (own.reward.functions, own.rate.mean) == ((), 1.0)


def test_the_best_step_is_compared_on_the_other_prompts(tmp_path: Path) -> None:
    seats = functions_run(tmp_path / "here", 3, 1.0), functions_run(tmp_path / "there", 3, 1.0)
    best = replace(seats[0], at=BEST)
    prompts = Prompts(TextStyle())
    found = next(compare_runs(best, replace(seats[1], at="1"), prompts))
    held_out = int(found.pairs.held_out.sum())
    assert 0 < held_out < 16
    assert found.rate.prompts == held_out
    taken = comparison_export(found, prompts, ("here", "there"))
    chosen = f"Best step of here (3) chosen on {16 - held_out} prompts; compared on the other {held_out}."
    assert chosen in taken.words
    assert int(taken.rows().in_win_rate.sum()) == held_out
    assert len(taken.rows()) == 16
