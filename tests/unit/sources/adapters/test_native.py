"""The native format, field by field."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from rlpanel.errors import LineError
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Record
from tests.factories import sample


def read(line: dict[str, Any], path: str = "rollouts.jsonl", *, full: bool = False) -> Record:
    """The record of one line."""
    (record,) = Native().read(parse(json.dumps(line).encode()), path, full=full)
    return record


def tiny(**fields: Any) -> dict[str, Any]:
    """The least that is a sample, and more."""
    return {"step": 1, "prompt": "p"} | fields


@pytest.mark.parametrize("step", [12, 12.0, "12", " 12 ", "12.0"], ids=repr)
def test_a_step_may_be_written_in_many_ways(step: Any) -> None:
    assert read(tiny(step=step)).step == 12


@pytest.mark.parametrize(
    "step", [None, "twelve", 1.5, True, [1], {"a": 1}, math.nan, math.inf, 2**60, "", 10**40], ids=repr
)
def test_a_step_that_is_no_whole_number_makes_a_bad_line(step: Any) -> None:
    with pytest.raises(LineError, match="'step' is not an integer"):
        read(tiny(step=step))


def test_a_line_without_a_step_is_bad() -> None:
    with pytest.raises(LineError, match="no 'step'"):
        read({"prompt": "p"})


def test_a_line_without_texts_is_bad() -> None:
    with pytest.raises(LineError, match="neither 'prompt' nor 'response'"):
        read({"step": 1, "reward": 2.0})


def test_the_rank_comes_from_the_line_or_else_from_the_file_name() -> None:
    ranks = [
        read(tiny(rank=3), "rollout_data_rank_7.jsonl").rank,
        read(tiny(rank="3"), "x.jsonl").rank,
        read(tiny(), "rollout_data_rank_7.jsonl").rank,
        read(tiny(), "data_rank2.jsonl").rank,
        read(tiny(), "rollout_data_rank_1_4711.jsonl").rank,
        read(tiny(), "x.jsonl").rank,
    ]
    assert ranks == [3, 3, 7, 2, 1, -1]


@pytest.mark.parametrize("rank", [-1, 1.5, 2**40, 1e300, None, "NaN"], ids=repr)
def test_a_rank_that_means_nothing_is_left_to_the_file_name(rank: Any) -> None:
    assert read(tiny(rank=rank), "data_rank5.jsonl").rank == 5


def test_numbers_are_taken_as_they_come() -> None:
    record = read(tiny(reward=1, ref_reward="0.5", truncated=True, valid_reward=None, mine=2, flag=False))
    numbers = {
        "reward": 1.0,
        "ref_reward": 0.5,
        "truncated": 1.0,
        "valid_reward": math.nan,
        "mine": 2.0,
        "flag": 0.0,
    }
    np.testing.assert_equal({name: record.numbers[name] for name in numbers}, numbers)


def test_rewards_by_name_become_a_column_each() -> None:
    record = read(tiny(rewards={"format": 1, "rhyme": None, "odd": [1]}))
    np.testing.assert_equal(
        {name: value for name, value in record.numbers.items() if name.startswith("rewards/")},
        {"rewards/format": 1.0, "rewards/rhyme": math.nan},
    )


def test_short_texts_under_unknown_keys_become_labels_and_long_ones_stay_in_the_file() -> None:
    record = read(tiny(domain="math", essay="x" * 1000))
    assert record.labels == {"domain": "math"}


def test_other_spellings_are_understood() -> None:
    record = read(tiny(group_id=7, entropies=[0.5]))
    assert (record.labels["group"], record.arrays["entropy"].tolist()) == ("7", [0.5])


@pytest.mark.parametrize("key", ["advantage", "advantages"])
def test_an_advantage_is_one_number_or_one_for_each_token(key: str) -> None:
    one, many = read(tiny(**{key: 0.5})), read(tiny(**{key: [0.5, 1.0]}))
    assert (one.numbers["advantage"], many.arrays["advantages"].tolist()) == (0.5, [0.5, 1.0])


def test_reserved_names_are_kept_beside_the_columns_they_would_hide() -> None:
    record = read(tiny(uid="a", line=7, offset=9, prompt_chars=1000))
    assert record.labels == {"logged_uid": "a"}
    assert record.numbers == {
        "prompt_chars": 1.0, "logged_line": 7.0, "logged_offset": 9.0, "logged_prompt_chars": 1000.0,
    }  # fmt: skip


def test_messages_stand_in_for_the_prompt_and_the_response() -> None:
    record = read(
        {"step": 1, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
    )
    assert record.texts == {"prompt": "[user] hi", "response": "yo"}
    assert record.numbers == {
        "prompt_chars": 9.0,
        "response_chars": 2.0,
        "turns": 1.0,
        "tool_calls": 0.0,
        "tool_errors": 0.0,
    }


def test_a_prompt_given_as_messages_is_text() -> None:
    assert read(tiny(prompt=[{"role": "user", "content": "hi"}])).texts["prompt"] == "[user] hi"


def test_the_number_of_tokens_comes_from_the_tokens_then_the_ids_then_the_logprobs() -> None:
    found = [
        read(tiny(response_tokens=["a", "b"], response_token_ids=[1, 2, 3], logprobs=[0.0])),
        read(tiny(response_token_ids=[1, 2, 3], logprobs=[0.0])),
        read(tiny(logprobs=[0.0])),
    ]
    assert [record.numbers["response_tokens"] for record in found] == [2.0, 3.0, 1.0]


@pytest.mark.parametrize(
    ("mask", "written"), [([1, 0, 1], 2.0), ([0, 0, 0], 3.0), ([1, 0], 3.0), ([True, False, False], 1.0)]
)
def test_the_response_length_counts_what_the_policy_wrote(mask: list[int], written: float) -> None:
    """A mask of zeros excludes the sample from the loss, and one of another length tells nothing."""
    record = read(tiny(response_tokens=["a", "b", "c"], loss_mask=mask))
    assert (record.numbers["response_tokens"], record.numbers["trajectory_tokens"]) == (written, 3.0)
    told = written < 3 or mask == [1, 1, 1]
    np.testing.assert_equal(record.numbers["context_tokens"], 3 - written if told else np.nan)


def test_without_a_loss_mask_there_is_no_length_of_the_trajectory() -> None:
    assert "trajectory_tokens" not in read(tiny(response_tokens=["a", "b"], logprobs=[-1.0, -2.0])).numbers
    assert "trajectory_tokens" not in read(tiny(loss_mask=[1, 0])).numbers


def test_arrays_are_compared_with_all_tokens() -> None:
    record = read(tiny(response_tokens=["a", "b"], loss_mask=[1, 0], logprobs=[-1.0], values=[0.0, 0.0]))
    assert record.notes == ["'logprobs' has 1 values for 2 tokens"]


def test_a_key_named_like_the_trajectory_length_keeps_its_values() -> None:
    record = read(tiny(response_tokens=["a", "b"], loss_mask=[1, 0], trajectory_tokens=9))
    assert (record.numbers["trajectory_tokens"], record.numbers["logged_trajectory_tokens"]) == (2.0, 9.0)


def test_tokens_and_logprobs_of_different_length_are_noted_and_kept() -> None:
    record = read(tiny(response_tokens=["a", "b"], logprobs=[-1.0], values=[0.0, 0.0]))
    assert (record.notes, record.arrays["logprobs"].tolist()) == (
        ["'logprobs' has 1 values for 2 tokens"],
        [-1.0],
    )


@pytest.mark.parametrize(
    ("field", "note"),
    [
        ({"logprobs": [[1, 2], 3]}, "'logprobs' contains nested arrays; the sample is kept without it"),
        ({"logprobs": "x"}, "'logprobs' is not an array; the sample is kept without it"),
        ({"response_tokens": 13}, "'response_tokens' is not an array; the sample is kept without it"),
        ({"response_token_ids": 13}, "'response_token_ids' is not an array; the sample is kept without it"),
        ({"reward": "good"}, "'reward' is not a number: 'good'; the sample is kept without it"),
        ({"reward": ["a", 1]}, "'reward' is a list that is not a reward: ['a', 1]; the sample is kept"),
        ({"reward": {"why": "x"}}, "'reward' is not a number: {'why': 'x'}; the sample is kept without it"),
        ({"group": {"id": 1}}, "'group' is not text; the sample is kept without it"),
        ({"rewards": "x"}, "'rewards' is not a number: 'x'; the sample is kept without it"),
        ({"rewards": {"a": "x"}}, "'rewards/a' is not a number: 'x'; the sample is kept without it"),
        ({"turn_rewards": 3}, "'turn_rewards' is not an array; the sample is kept without it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("full", [False, True])
def test_an_odd_field_is_left_out_with_a_note_and_the_sample_stays(
    field: dict[str, Any], note: str, full: bool
) -> None:
    record = read(tiny(mark=1) | field, full=full)
    assert (record.notes[0].startswith(note), record.numbers["mark"]) == (True, 1.0)


def test_read_in_full_it_has_all_texts_tokens_and_unknown_keys() -> None:
    line = sample(essay="x" * 1000, list_of=[1, {"a": None}])
    record = read(line, full=True)
    assert record.texts == {
        name: line[name] for name in ("prompt", "response", "ref_response", "ground_truth")
    }
    assert record.tokens == line["response_tokens"]
    assert record.extra == {"essay": "x" * 1000, "list_of": [1, {"a": None}]}


def test_for_a_row_it_reads_no_text_that_no_column_needs() -> None:
    record = read(sample())
    assert (set(record.texts), record.tokens, record.extra) == ({"prompt", "response"}, None, {})


def test_both_readings_give_the_same_columns() -> None:
    lean, full = read(sample(note="n")), read(sample(note="n"), full=True)
    assert (lean.numbers, lean.labels) == (full.numbers, full.labels)


def test_a_null_token_is_an_empty_one() -> None:
    assert read(tiny(response_tokens=["a", None]), full=True).tokens == ["a", ""]


def test_a_line_with_the_ids_of_a_response_alone_is_a_sample() -> None:
    """A recorder without a tokenizer has no text; the ids may be decoded later."""
    line = {"step": 3, "response_token_ids": [7, 8], "reward": 1.0}
    assert Native().accepts("x.jsonl", line)
    (record,) = Native().read(line, "x.jsonl", full=True)
    assert record.arrays["response_token_ids"].tolist() == [7, 8]
