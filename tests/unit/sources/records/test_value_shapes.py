"""Rewards, logprobs, tokens and numbers in the shapes of other programs are read, and nothing is made up."""

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


@pytest.fixture(params=["lean", "full", "lean and lazy"])
def read(request: pytest.FixtureRequest) -> Any:
    """Function that reads a line for its columns or in full; a long line is parsed lazily."""

    def read_line(**fields: Any) -> Record:
        line = json.dumps({"step": 1, "prompt": "p", **fields}).encode()
        line += b" " * 2000 if request.param == "lean and lazy" else b""
        (record,) = Native().read(parse(line), "log.jsonl", full=request.param == "full")
        return record

    return read_line


def rewards(record: Record) -> dict[str, float]:
    return {name: value for name, value in record.numbers.items() if name.startswith("reward")}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reward": {"score": 1.0, "acc": True, "pred": "4"}}, {"reward": 1, "rewards/acc": 1}),
        ({"reward": {"acc": 0, "total": "-0.5"}}, {"reward": -0.5, "rewards/acc": 0}),
        ({"reward": {"score": 2, "weight": 0.5}}, {"reward": 2}),
        ({"reward": {"acc": 1, "format": 0.5}}, {"rewards/acc": 1, "rewards/format": 0.5}),
        ({"reward": {"score": None, "acc": 1}}, {"rewards/acc": 1}),
        ({"reward": [0.5]}, {"reward": 0.5}),
        ({"reward": ["0.5"]}, {"reward": 0.5}),
        ({"reward": [{"score": 0.5, "why": "x"}]}, {"rewards/0": 0.5}),
        ({"reward": [1, 0.5]}, {"rewards/0": 1, "rewards/1": 0.5}),
        ({"reward": []}, {}),
        ({"reward": {}}, {}),
        ({"reward": "0.5"}, {"reward": 0.5}),
        ({"reward": "tensor(0.5, device='cuda:0')"}, {"reward": 0.5}),
        (
            {"reward": [{"name": "a", "score": 1, "weight": 2}, {"name": "b", "score": 0.5, "weight": 1}]},
            {"rewards/a": 1, "rewards/b": 0.5, "reward": 2.5},
        ),
        (
            {"reward": [{"name": "a", "score": 1, "weight": 2}, {"name": "b", "score": 0.5}]},
            {"rewards/a": 1, "rewards/b": 0.5},
        ),
        ({"rewards": [1, 0]}, {"rewards/0": 1, "rewards/1": 0}),
        ({"rewards": [0.25]}, {"reward": 0.25}),
        ({"rewards": 0.25}, {"reward": 0.25}),
        ({"rewards": {"a": {"score": 1, "weight": 3}, "b": 2}}, {"rewards/a": 1, "rewards/b": 2}),
        (
            {"rewards": {"a": {"score": 1, "weight": 3}, "b": {"score": 2, "weight": 1}}},
            {"rewards/a": 1, "rewards/b": 2, "reward": 5},
        ),
        (
            {"rewards": {"a": {"score": 1, "weight": 3}}, "reward": 9},
            {"rewards/a": 1, "reward": 9},
        ),
        (
            {"reward": 9, "rewards": {"a": {"score": 1, "weight": 3}}},
            {"rewards/a": 1, "reward": 9},
        ),
    ],
    ids=str,
)
def test_a_reward_is_what_was_logged_as_such(
    read: Any, fields: dict[str, Any], expected: dict[str, float]
) -> None:
    assert rewards(read(**fields)) == expected


def test_what_is_read_of_an_object_is_remarked(read: Any) -> None:
    assert read(reward={"score": 1.0}).notes == ["'reward' is read from its 'score'"]
    assert read(reward={"a": 1.0}).notes == ["'reward' is read from its parts, without a total"]
    assert read(reward=[0.5]).notes == []


@pytest.mark.parametrize("reward", [{"why": "x"}, ["a", 1], [[1, 2], [3]], [0.0] * 100], ids=repr)
def test_a_reward_without_numbers_is_none_and_remarked(read: Any, reward: Any) -> None:
    record = read(reward=reward)
    assert (rewards(record), len(record.notes)) == ({}, 1)


def _openai(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    top = [{"token": "?", "logprob": -9.0}]
    return [{"token": token, "logprob": logprob, "top_logprobs": top} for token, logprob in pairs]


@pytest.mark.parametrize(
    ("logprobs", "tokens", "ids"),
    [
        ({"content": _openai(("Hi", -0.5), ("!", -0.25))}, ["Hi", "!"], None),
        (_openai(("Hi", -0.5), ("!", -0.25)), ["Hi", "!"], None),
        ({"tokens": ["Hi", "!"], "token_logprobs": [-0.5, -0.25], "top_logprobs": None}, ["Hi", "!"], None),
        ([[-0.5, 7], [-0.25, 0]], None, [7, 0]),
        ([[-0.5, 7, "Hi"], [-0.25, 0, "!"]], ["Hi", "!"], [7, 0]),
        ([[-0.5, 7, None], [-0.25, 0, None]], None, [7, 0]),
        (
            [
                {"7": {"logprob": -0.5, "rank": 2, "decoded_token": "Hi"}, "9": {"logprob": -0.1, "rank": 1}},
                {"0": {"logprob": -0.25, "rank": 1, "decoded_token": "!"}},
            ],
            ["Hi", "!"],
            [7, 0],
        ),
        ([{"id": 7, "text": "Hi", "logprob": -0.5}, {"id": 0, "text": "!", "logprob": -0.25}],
         ["Hi", "!"], [7, 0]),
    ],
    ids=["chat", "chat's list", "completions", "pairs", "triples", "no texts", "vLLM", "TGI"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["logprobs", "rollout_logprobs"])
def test_logprobs_of_engines_give_tokens_and_ids(
    read: Any, key: str, logprobs: Any, tokens: list[str] | None, ids: list[int] | None
) -> None:
    record = read(**{key: logprobs})
    assert record.arrays[key].tolist() == [-0.5, -0.25]
    assert (record.tokens, record.notes, record.numbers["response_tokens"]) == (tokens, [], 2.0)
    found = record.arrays.get("response_token_ids")
    assert (None if found is None else found.tolist()) == ids


def test_a_token_that_the_engine_could_not_score_has_no_logprob(read: Any) -> None:
    record = read(logprobs={"tokens": ["a", "b"], "token_logprobs": [None, -0.25]})
    np.testing.assert_equal(record.arrays["logprobs"], [math.nan, -0.25])


@pytest.mark.parametrize("inside", [True, False])
def test_the_output_of_sglang_has_the_policys_logprobs_unless_they_are_logged(
    read: Any, inside: bool
) -> None:
    scored = [[-0.5, 7, "a"], [-0.25, 9, "b"]]
    fields = {"meta_info": {"id": "x", "output_token_logprobs": scored}}
    fields = fields if inside else {"output_token_logprobs": scored}
    assert read(**fields).arrays["logprobs"].tolist() == [-0.5, -0.25]
    both = read(logprobs=[-1.0, -2.0], **fields).arrays
    assert (both["logprobs"].tolist(), both["rollout_logprobs"].tolist()) == ([-1.0, -2.0], [-0.5, -0.25])


def test_tokens_by_turn_are_the_tokens_of_all_turns(read: Any) -> None:
    record = read(
        response_tokens=[["a", "b"], ["c"]],
        logprobs=[[-0.5, -0.25], [-1.0]],
        loss_mask=[[1, 0], [1]],
        response_token_ids=[[1, 2], [3]],
    )
    assert (record.notes, record.numbers["trajectory_tokens"]) == ([], 3.0)
    assert record.arrays["logprobs"].tolist() == [-0.5, -0.25, -1.0]
    assert record.numbers["response_tokens"] == 2
    assert record.tokens in (None, ["a", "b", "c"])
    assert read(response_token_ids=[[1, 2], [3]]).numbers["response_tokens"] == 3


def test_several_logprobs_for_each_token_are_not_turns(read: Any) -> None:
    record = read(logprobs=[[-0.5, -2.5, -9.0]] * 20)
    assert "response_tokens" not in record.numbers
    assert record.notes == ["'logprobs' contains nested arrays; the sample is kept without it"]


@pytest.mark.parametrize("mask", [[-100, 0, 7, 9], [-100, -100, 7, 9], [0, 0, 1, 1]], ids=str)
def test_tokens_with_the_label_minus_100_are_not_trained(read: Any, mask: list[int]) -> None:
    record = read(response_tokens=["a", "b", "c", "d"], loss_mask=mask)
    assert record.numbers["response_tokens"] == (3 if mask[1] == 0 and mask[0] else 2)
    assert set(record.arrays["loss_mask"].tolist()) == {0.0, 1.0}


def test_an_empty_list_is_a_value_that_was_not_logged(read: Any) -> None:
    record = read(response_tokens=["a", "b"], logprobs=[], values=[], rollout_logprobs=[])
    assert (record.notes, record.numbers["response_tokens"]) == ([], 2.0)
    assert "response_tokens" not in read(logprobs=[]).numbers


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"timing": {"generation": {"duration": 1.0}, "model": "x"}}, None),
        ({"timing": 2.5}, 2.5),
        ({"values": {"honesty": 3}}, None),
        ({"values": ["a", "b"]}, None),
        ({"values": "none"}, None),
        ({"images": 3}, 3.0),
        ({"entropy": 0.5}, 0.5),
        ({"returns": 1}, 1.0),
        ({"judge": {"verdict": {"ok": True}, "model": "x"}}, None),
        ({"judge": 3}, None),
    ],
    ids=str,
)
def test_a_key_of_another_program_is_its_own_value(
    read: Any, fields: dict[str, Any], column: float | None
) -> None:
    record, (name,) = read(**fields), fields
    assert (record.notes, record.numbers.get(name), name in record.arrays) == ([], column, False)


def test_in_full_the_value_of_another_program_is_shown_as_it_was_logged() -> None:
    line = {"step": 1, "prompt": "p", "values": {"a": [1]}, "judge": {"verdict": {"ok": None}}}
    (record,) = Native().read(line, "x.jsonl", full=True)
    assert record.extra == {"values": {"a": [1]}}
    assert record.agent is not None
    assert record.agent.judge == {"verdict": '{"ok": null}'}


@pytest.mark.parametrize("text", ["1_0", "１０", "१०", "ten", "", "0x10", "tensor([1, 2])", "1,5"])
def test_a_text_that_is_not_a_number_is_none(read: Any, text: str) -> None:
    record = read(reward=text, logprobs=[text])
    assert ("reward" in record.numbers, "logprobs" in record.arrays, len(record.notes)) == (False, False, 2)
    with pytest.raises(LineError, match="'step' is not an integer"):
        read(step=text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *((" 1e1 ", 10.0), ("-0.5", -0.5), ("True", 1.0), ("False", 0.0), ("None", math.nan)),
        *(("np.float64(0.5)", 0.5), ("np.True_", 1.0), ("tensor(True)", 1.0), ("tensor(-1.)", -1.0)),
        *(("tensor([0.5])", 0.5), ("array(2, dtype=float32)", 2.0), ("nan", math.nan), ("inf", math.inf)),
    ],
)
def test_a_number_may_be_a_text_as_python_writes_it(read: Any, text: str, number: float) -> None:
    np.testing.assert_equal(read(reward=text).numbers["reward"], number)


def test_an_array_may_be_the_text_of_a_tensor(read: Any) -> None:
    assert read(logprobs="tensor([-0.5, -1.], device='cuda:0')").arrays["logprobs"].tolist() == [-0.5, -1.0]
    assert len(read(logprobs="tensor([-0.5, ..., -1.])").notes) == 1


@pytest.mark.parametrize("number", [2**53, -(2**53), 9007199254740993, 2**64 + 1])
def test_integers_that_a_float_cannot_tell_apart_are_texts(read: Any, number: int) -> None:
    record = read(sample_id=number, group=number, small=2**53 - 1)
    assert record.labels == {"sample_id": str(number), "group": str(number)}
    assert record.numbers["small"] == 2**53 - 1


@pytest.mark.parametrize("key", ["foreign", "reward", "group"])
def test_an_integer_of_5000_digits_costs_no_line(read: Any, key: str) -> None:
    line = b'{"step": 1, "prompt": "p", "response": "r", "%b": %b}' % (key.encode(), b"9" * 5000)
    (record,) = Native().read(parse(line), "x.jsonl", full=False)
    assert record.texts["response"] == "r"
    assert key not in record.numbers


@pytest.mark.parametrize(
    "value",
    [
        [{"a": -0.5, "b": -1.5}, None],
        [[{"token": "b", "logprob": -1.5}, {"token": "a", "logprob": -0.5}], []],
        [{"7": {"logprob": -0.5, "decoded_token": "a"}, "9": {"logprob": -1.5, "decoded_token": "b"}}, None],
        [[[-1.5, 9, "b"], [-0.5, 7, "a"]], []],
        [
            {
                "top_logprobs": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}],
            },
            None,
        ],
    ],
)
def test_alternatives_are_read_in_full_and_sorted(read: Any, value: Any, request: Any) -> None:
    record = read(response_tokens=["a", "b"], top_logprobs=value)
    is_full = request.node.callspec.params["read"] == "full"
    expected = [[("a", -0.5), ("b", -1.5)], []] if is_full else []
    assert [[(one.text, one.logprob) for one in found] for found in record.alternatives] == expected
    assert record.notes == []


def test_a_number_of_alternatives_and_another_shape_stay_as_logged(read: Any) -> None:
    assert read(top_logprobs=5).numbers["top_logprobs"] == 5
    assert read(top_logprobs="none").notes == []
