"""Two runs on the same prompts: matching, list and plots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.metrics.win_rate import win_rate_of
from rlpanel.panels.compare import run_comparison, runs_export
from rlpanel.panels.compare.run_comparison import (
    BY_WORDS,
    EXACT,
    TOO_MANY,
    ComparedRun,
    Prompts,
    compare_runs,
)
from rlpanel.panels.compare.runs_export import comparison_export
from rlpanel.panels.compare.runs_summary import win_rate_html
from rlpanel.panels.compare.runs_tab import _layers
from tests.factories import append, line


def seat(folder: Path, rewards: dict[str, float]) -> ComparedRun:
    folder.mkdir()
    rows = [line(1, index=at, prompt=text, reward=rewards[text]) for at, text in enumerate(rewards)]
    append(folder / "rollout_data_rank_0.jsonl", *rows)
    run = rlpanel.open_run(folder, follow=False)
    return ComparedRun(run._index, run.view)


@pytest.fixture
def seats(tmp_path: Path) -> tuple[ComparedRun, ComparedRun]:
    """Two runs: both have prompt a, one has b in a chat template, the other prompts differ."""
    here = {"a": 1.0, "<|user|>b": 0.0, "x": 0.0}
    return seat(tmp_path / "here", here), seat(tmp_path / "there", {"a": 0.5, "b": 1.0, "y": 0.0})


def test_prompts_in_templates_are_matched_where_some_are_alone(
    seats: tuple[ComparedRun, ComparedRun],
) -> None:
    found = next(compare_runs(*seats, Prompts("", "")))
    assert (found.how, found.prompts) == (BY_WORDS, ["<|user|>b", "a"])
    assert found.pairs.difference[found.listed].tolist() == [-1.0, 0.5]
    assert (found.pairs.only_here, found.pairs.only_there) == (1, 1)


def test_a_run_against_itself_is_matched_by_the_text_as_logged(
    seats: tuple[ComparedRun, ComparedRun],
) -> None:
    found = next(compare_runs(seats[0], seats[0], Prompts("", "")))
    assert (found.how, len(found.pairs)) == (EXACT, 3)


def test_many_prompts_are_not_read(
    seats: tuple[ComparedRun, ComparedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_comparison, "MOST_READ", 2)
    found = next(compare_runs(*seats, Prompts("", "")))
    assert (found.how, len(found.pairs)) == (TOO_MANY, 1)


def test_of_many_pairs_both_ends_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_comparison, "MOST_LISTED", 4)
    rewards = {f"prompt {at}": float(at) for at in range(9)}
    seats = seat(tmp_path / "here", rewards), seat(tmp_path / "there", dict.fromkeys(rewards, 0.0))
    found = next(compare_runs(*seats, Prompts("", "")))
    assert found.pairs.difference[found.listed].tolist() == [0.0, 1.0, 7.0, 8.0]


def test_the_file_has_a_row_a_prompt_with_its_text(seats: tuple[ComparedRun, ComparedRun]) -> None:
    prompts = Prompts("", "")
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
    assert "50% won, 0% tied, 50% lost; mean difference −0.25" in taken.words


def test_the_file_leaves_prompts_out_that_are_too_many(
    seats: tuple[ComparedRun, ComparedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = Prompts("", "")
    found = next(compare_runs(*seats, prompts))
    monkeypatch.setattr(runs_export, "MOST_READ", 1)
    assert "prompt" not in comparison_export(found, prompts, ("here", "there")).rows()


def test_no_bar_holds_lost_and_won_prompts() -> None:
    differences = np.linspace(-1.03, 2.17, 100)
    differences[40] = 0.0
    layers = _layers(differences)
    for name, won in (("good", True), ("bad", False)):
        left, right, count = layers[name]
        filled = count > 0
        assert (left[filled] >= 0).all() if won else (right[filled] <= 1e-12).all()
    assert layers["bad"][2].sum() == (differences < 0).sum()
    assert layers["good"][2].sum() == (differences >= 0).sum()
    assert layers["muted"][2].sum() == 1


def test_the_outcome_is_said_with_its_intervals() -> None:
    html = win_rate_html(win_rate_of(np.array([1.0, 1.0, 0.0, -0.5])))
    assert '<em class="good">won</em> <b>50%</b> 15%–85%' in html
    assert "Wilson" in html
