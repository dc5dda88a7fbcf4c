"""Files that ROLL's and open-instruct's own functions wrote at the commits in the folders' names."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.schema import Sample

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"
ROLL, OPEN_INSTRUCT = UPSTREAM / "roll-8eb27cc2", UPSTREAM / "open-instruct-e6c3044aa"
QUESTION, GREETING = "<|im_start|>user\n6*7?<|im_end|>\n", "<|im_start|>user\n你好<|im_end|>\n"


def samples(folder: Path) -> list[Sample]:
    """All samples of a run without bad lines, by step and place."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        read = [run.sample(uid) for uid in run.samples()["uid"]]
    return sorted(read, key=lambda sample: (sample.step, sample.offset, sample.uid))


def test_rolls_columns_are_samples() -> None:
    read = samples(ROLL / "rlvr")
    assert [(each.step, each.prompt, each.response, each.reward, each.ground_truth) for each in read] == [
        (0, QUESTION, "The answer is 42", 1.0, "42"),
        (0, QUESTION, "The answer is wrong", 0.0, "42"),
        (0, GREETING, " 国 😀", 0.5, "国"),
        (0, GREETING, " wrong", 0.0, "国"),
        (1, QUESTION, "The answer is 42", 1.0, "42"),
        (1, QUESTION, "The answer is wrong", 1.0, "42"),
        (1, GREETING, " 国 😀", 0.0, "国"),
        (1, GREETING, " wrong", 0.0, "国"),
    ]
    with rlpanel.open_run(ROLL / "rlvr", follow=False) as run:
        assert sorted(run.samples(1)["domain"]) == ["llm_judge", "llm_judge", "math_rule", "math_rule"]


def test_rolls_trajectories_are_conversations() -> None:
    first, second = samples(ROLL / "agentic")
    assert (first.step, first.reward, second.reward) == (5, 1.0, 0.0)
    assert first.prompt == second.prompt == "[system] be brief\n[user] go 国"
    assert [message["role"] for message in first.messages] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert first.messages[2]["content"] == second.response == "look 😀"
    assert first.group == second.group
    assert (first.prompt_messages, first.truncated) == (2, False)


def test_open_instructs_ids_logprobs_and_groups_are_read() -> None:
    read = samples(OPEN_INSTRUCT)
    assert [each.step for each in read] == [1] * 4 + [2] * 4
    assert [each.reward for each in read] == [1.0, 0.0, 10.0, 0.0, 1.0, 0.0, 20.0, 0.0]
    assert [each.group for each in read] == ["0", "0", "1", "1"] * 2
    assert [each.advantage for each in read[:4]] == [0.5, -0.5, 1.0, -1.0]
    tokens = [{name: array.tolist() for name, array in each.arrays().items()} for each in read[:2]]
    assert tokens == [
        {"response_token_ids": [7, 8, 9], "rollout_logprobs": [-0.5, -0.25, -1.0]},
        {"response_token_ids": [7, 8], "rollout_logprobs": [-0.125, -2.0]},
    ]


def test_open_instructs_ground_truth_is_text_texts_or_token_ids() -> None:
    read = samples(OPEN_INSTRUCT)
    assert [each.ground_truth for each in read[:4]] == [
        "42",
        "42",
        "assert f(1) == 2\nassert f(2) == 3",
        None,
    ]
    assert read[3].extra["ground_truth_token_ids"] == [11, 12]
    with rlpanel.open_run(OPEN_INSTRUCT, follow=False) as run:
        assert "ground_truth_token_ids" not in run.samples().columns
        assert run.samples(1)["tools/tool_errors"].tolist()[1] == "boom 国"
