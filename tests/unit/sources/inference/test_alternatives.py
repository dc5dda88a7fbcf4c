"""Columns that hold the answers of several systems to one prompt: each answer is a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.sources.adapters.record_shapes import columns_of, wins_of
from rlpanel.sources.inference.content import parallel_keys
from tests.opened_folders import proposed, samples, write_lines

ASKED = ("Why is the harbor closed today?", "Where does the copper road end?", "Who lit the lantern first?")
LEFT = ("A storm has broken the pier.", "It ends behind the old quarry.", "The keeper lit it at dusk.")
RIGHT = (
    "There is no harbor here at all.",
    "Nobody has ever walked so far.",
    "Perhaps it was the baker's son.",
)


def test_a_pair_with_a_score_each_is_two_samples_of_a_prompt(tmp_path: Path) -> None:
    records = [
        {"prompt": asked, "chosen": left, "rejected": right, "score_chosen": 0.75, "score_rejected": 0.25}
        for asked, left, right in zip(ASKED, LEFT, RIGHT, strict=True)
    ]
    found = samples(write_lines(tmp_path, records), "prompt", "response", "reward", "column")
    assert found[:2] == [
        (ASKED[0], LEFT[0], 0.75, "chosen"),
        (ASKED[0], RIGHT[0], 0.25, "rejected"),
    ]
    assert len(found) == 6


def test_a_pair_without_scores_is_no_run_and_the_printed_command_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        {"prompt": asked, "chosen": left, "rejected": right}
        for asked, left, right in zip(ASKED, LEFT, RIGHT, strict=True)
    ]
    write_lines(tmp_path, records, "preferences.jsonl")
    with pytest.raises(RunNotFound, match="no reward") as raised:
        samples(tmp_path)
    monkeypatch.setenv("RLPANEL_MAP", proposed(str(raised.value)))
    assert samples(tmp_path)[:2] == [(ASKED[0], LEFT[0], None), (ASKED[0], RIGHT[0], None)]


def test_a_verdict_names_the_better_of_two_answers(tmp_path: Path) -> None:
    records = [
        {"question": asked, "answer_a": left, "answer_b": right, "winner": winner}
        for asked, left, right, winner in zip(ASKED, LEFT, RIGHT, ("a", "B", "tie"), strict=True)
    ]
    assert [reward for *_, reward in samples(write_lines(tmp_path, records))] == [1, 0, 0, 1, 0.5, 0.5]


def test_a_preference_between_two_numbers_is_not_read_as_a_reward(tmp_path: Path) -> None:
    records = [
        {"prompt": asked, "output_1": left, "output_2": right, "preference": 1.4, "generator": "m"}
        for asked, left, right in zip(ASKED, LEFT, RIGHT, strict=True)
    ]
    assert {reward for *_, reward in samples(write_lines(tmp_path, records))} == {None}


def test_columns_that_are_called_like_models_hold_their_answers(tmp_path: Path) -> None:
    records = [
        {"question": asked, "gpt-4": left, "llama-2-7b-chat": right, "ground_truth": "x"}
        for asked, left, right in zip(ASKED, LEFT, RIGHT, strict=True)
    ]
    found = samples(write_lines(tmp_path, records), "response", "column")
    assert found[:2] == [(LEFT[0], "gpt-4"), (RIGHT[0], "llama-2-7b-chat")]


def test_texts_and_scores_by_model_are_a_sample_for_each_model(tmp_path: Path) -> None:
    records = [
        {"question": asked, "answers": {"gpt-4": left, "own": right}, "scores": {"gpt-4": 1, "own": 0.5}}
        for asked, left, right in zip(ASKED, LEFT, RIGHT, strict=True)
    ]
    found = samples(write_lines(tmp_path, records), "response", "reward", "column")
    assert found[:2] == [(LEFT[0], 1.0, "gpt-4"), (RIGHT[0], 0.5, "own")]


@pytest.mark.parametrize(
    "record",
    [
        {"question": "q", "answer": "a", "question_score": 1, "answer_score": 2},  # other fields, no systems
        {"model_answer": "a", "reference_answer": "b", "model_score": 1.0, "reference_score": 0.5},
        {"answer_a": "x", "answer_b": "y", "answer_c": "z", "answer_d": "w"},  # choices
        {"text_prompt": "a", "adopt": "b"},
        {"title": "a", "subtitle": "b", "score": 1.0},
    ],
)
def test_columns_that_are_no_systems_do_not_belong_together(record: dict[str, object]) -> None:
    assert parallel_keys(record) == {}


def test_a_verdict_may_name_a_column_a_number_or_a_model() -> None:
    names = ["response_1", "response_2"]
    assert wins_of(2, names, {}) == wins_of(2.0, names, {}) == wins_of("Response 2", names, {}) == [0, 1]
    assert wins_of("olmo", names, {"model_1": "yi", "model_2": "olmo", **dict.fromkeys(names, "t")}) == [0, 1]
    assert wins_of("both are bad", names, {}) == [0.5, 0.5]
    assert [wins_of(each, names, {}) for each in (3, 1.5, True, "the second one", "", None)] == [None] * 6


def test_joined_names_stand_for_columns_in_their_order() -> None:
    assert columns_of("b+a", ["a", "b", "c"]) == ["b", "a"]
