"""The sentences about what is compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlpanel.board_url import BEST, NEWEST
from rlpanel.panels.compare.comparison_summary import comparison_notes, notes_html
from rlpanel.store.snapshot.alignment import ComparedReward
from rlpanel.store.snapshot.prompt_pairs import PromptPairs, RunSide

LABELS = ("<a>", "b")


def side(chose: list[bool], step: int = 1) -> RunSide:
    """Return prompts of a run of which some chose its step; their rewards do not matter here."""
    count = len(chose)
    zeros, steps = np.zeros(count), np.full(count, step)
    keys = np.arange(count, dtype=np.uint64)
    return RunSide(keys, zeros, np.ones(count, int), steps, np.arange(count), zeros, np.array(chose, bool))


def texts(reward: ComparedReward, at: tuple[str, str] = (NEWEST, NEWEST)) -> list[str]:
    pairs = PromptPairs(side([False]), side([False]), 0, 0)
    return [note.text for note in comparison_notes(reward, pairs, at, LABELS)]


def test_equal_rewards_at_the_newest_step_need_no_words() -> None:
    assert texts(ComparedReward()) == []


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (
            ComparedReward(("rhyme", "form"), (1.0, 1.0), "unknown", ("bonus",), ()),
            "Compared on 2 shared reward functions: rhyme + form, unweighted, since run.json does not give "
            "their weights in both runs. Left out: bonus (only in <a>).",
        ),
        (
            ComparedReward(("rhyme", "form"), (1.0, 0.5), "same", ("bonus",), ("x", "y")),
            "Compared on 2 shared reward functions: 1 × rhyme + 0.5 × form, with the runs' weights. "
            "Left out: bonus (only in <a>), x, y (only in b).",
        ),
        (
            ComparedReward(("rhyme",), (1.0,), "different"),
            "Compared on 1 shared reward function: rhyme, unweighted, since the runs give them different "
            "weights.",
        ),
        (
            ComparedReward(only_here=("x",), only_there=("y",)),
            "The rewards of the two runs may be different numbers: they have no reward function in common. "
            "<a> logs x, b logs y.",
        ),
        (
            ComparedReward(only_there=("y", "z")),
            "The rewards of the two runs may be different numbers: b logs its reward functions (y, z), <a> "
            "only their total.",
        ),
        (
            ComparedReward(only_here=tuple("abcdefgh")),
            "The rewards of the two runs may be different numbers: <a> logs its reward functions "
            "(a, b, c, d, e, f, 2 more), b only their total.",
        ),
    ],
)
def test_the_compared_number_is_said(reward: ComparedReward, said: str) -> None:
    assert texts(reward) == [said]


def test_the_halves_of_the_prompts_are_said() -> None:
    pairs = PromptPairs(side([True, False, False], 7), side([False] * 3), 2, 0, chose_here=3)
    [note] = comparison_notes(ComparedReward(), pairs, (BEST, NEWEST), LABELS)
    assert note.text == "Best step of <a> (7) chosen on 3 prompts; compared on the other 2."
    assert not note.warns
    pairs = PromptPairs(side([True, False], 7), side([True, False], 9), 0, 0, 1, 1)
    [note] = comparison_notes(ComparedReward(), pairs, (BEST, BEST), LABELS)
    assert note.text == "Best steps of <a> (7) and b (9) chosen on 1 prompt; compared on the other 1."
    [note] = comparison_notes(ComparedReward(), replace(pairs, chose_there=2), (BEST, BEST), LABELS)
    assert note.text == (
        "Best step of <a> (7) chosen on 1 prompt and best step of b (9) chosen on 2 prompts; compared on the "
        "other 1."
    )


def test_without_other_prompts_there_is_no_win_rate() -> None:
    pairs = PromptPairs(side([True]), side([False]), 0, 0, 1, 0)
    [note] = comparison_notes(ComparedReward(), pairs, (BEST, NEWEST), LABELS)
    assert note.warns
    assert note.text.endswith("no other prompt is in both runs, so there is no win rate.")


def test_names_of_a_log_are_escaped() -> None:
    pairs = PromptPairs(side([False]), side([False]), 0, 0)
    notes = comparison_notes(ComparedReward(only_here=("<b>x",)), pairs, (NEWEST, NEWEST), LABELS)
    html = notes_html(notes)
    assert "&lt;b&gt;x" in html
    assert "<b>" not in html
