"""Fields that no name shows: the record's kind, its values and the keys beside them do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.sources.spans.call_tree import arrange_calls
from tests.opened_folders import proposed, samples, write_lines

ASKED = ("Why is the harbor closed today?", "Where does the copper road end?", "Who lit the lantern first?")
SAID = ("A storm has broken the pier.", "It ends behind the old quarry.", "The keeper lit it at dusk.")
LONG = tuple(f"{text} " * 4 for text in SAID)
REWARDS = (1.0, 0.0, 0.5)


def call(asked: str, said: str) -> dict[str, Any]:
    talk = [{"role": "user", "content": asked}]
    inner = {"name": "chat", "input": {"messages": talk}, "output": {"role": "assistant", "content": said}}
    tool = {"name": "look_up", "input": {"query": "harbor"}, "output": "a page", "children": []}
    return {
        "name": "run",
        "input": {"question": asked},
        "output": {"answer": said},
        "children": [tool, {**inner, "children": []}],
    }


def listed(asked: str, said: str) -> dict[str, Any]:
    return {
        "trace": "t",
        "tools": [{"uuid": "c", "parentUuid": "a", "type": "tool", "input": "harbor", "output": "a page"}],
        "agents": [{"uuid": "a", "parentUuid": None, "type": "agent", "input": asked, "output": said}],
        "llms": [{"uuid": "b", "parentUuid": "a", "type": "llm", "input": asked, "output": "a draft"}],
    }


@pytest.mark.parametrize("make", [call, listed])
def test_a_trace_is_a_sample_with_the_outermost_call(tmp_path: Path, make: Any) -> None:
    records = [
        make(asked, said) | {"score": reward}
        for asked, said, reward in zip(ASKED, SAID, REWARDS, strict=True)
    ]
    expected = [*zip(ASKED, SAID, REWARDS, strict=True)]
    assert samples(write_lines(tmp_path, records, "traces.jsonl")) == expected


def test_calls_without_a_model_are_no_trace_of_one() -> None:
    page = {
        "name": "GET /",
        "input": "/",
        "output": "200",
        "children": [{"name": "sql", "input": "SELECT 1"}],
    }
    assert arrange_calls(page) is None
    assert arrange_calls({"name": "menu", "children": [{"name": "file", "children": []}]}) is None
    deep: dict[str, Any] = {"input": "q", "output": "a", "children": []}
    for _ in range(200):
        deep = {"input": "q", "output": "a", "children": [deep]}
    assert arrange_calls(deep) is None


def test_a_plan_is_a_response_as_json(tmp_path: Path) -> None:
    plan = [{"day": 1, "place": "harbor"}, {"day": 2, "place": "quarry"}]
    records = [
        {"instruction": asked, "plan": plan, "success": bool(at)} for at, asked in enumerate(ASKED[:2])
    ]
    found = samples(write_lines(tmp_path, records))
    assert found == [(ASKED[0], json.dumps(plan), 0.0), (ASKED[1], json.dumps(plan), 1.0)]


def test_steps_with_a_tool_and_its_arguments_are_tool_calls(tmp_path: Path) -> None:
    steps = [
        {"tool": "look_up", "arguments": {"word": "pier"}, "output": "closed"},
        {"tool": "finish", "arguments": {"text": SAID[0]}, "output": "done"},
    ]
    records = [{"instruction": asked, "steps": steps, "success": True} for asked in ASKED]
    found = samples(write_lines(tmp_path, records), "turns", "tool_calls", "reward")
    assert found == [(2, 2, 1.0)] * 3


def test_the_texts_of_two_speakers_in_two_lists_are_a_conversation(tmp_path: Path) -> None:
    records = [{"user": [ASKED[0], ASKED[1]], "assistant": [SAID[0], SAID[1]], "reward": at} for at in (0, 1)]
    found = samples(write_lines(tmp_path, records), "turns", "response", "reward")
    assert [(turns, reward) for turns, _, reward in found] == [(2, 0.0), (2, 1.0)]
    assert found[0][1] == f"[assistant] {SAID[0]}\n[user] {ASKED[1]}\n[assistant] {SAID[1]}"


def test_prompts_and_responses_with_one_reward_are_samples_or_turns_so_nothing_is_opened(
    tmp_path: Path,
) -> None:
    records = [{"id": at, "prompts": ASKED[:2], "responses": SAID[:2], "score": at} for at in range(3)]
    with pytest.raises(RunNotFound, match="two readings are about equal: responses as samples"):
        samples(write_lines(tmp_path, records))


def test_the_only_long_text_of_a_call_is_the_response(tmp_path: Path) -> None:
    records = [
        {"case": f"c{at}", "model": "gpt-4.1-nano", "parsed": {"why": text}, "evaluation": {"score": reward}}
        for at, (text, reward) in enumerate(zip(LONG, REWARDS, strict=True))
    ]
    assert samples(write_lines(tmp_path, records), "response", "reward") == [*zip(LONG, REWARDS, strict=True)]


def test_the_verdict_of_a_record_belongs_to_its_one_answer_not_to_several_samples(tmp_path: Path) -> None:
    records = [
        {"question": asked, "generations": [*SAID], "greedy_generation": said, "accuracy": reward}
        for asked, said, reward in zip(ASKED, SAID, REWARDS, strict=True)
    ]
    assert samples(write_lines(tmp_path, records)) == [*zip(ASKED, SAID, REWARDS, strict=True)]


def test_a_sample_whose_text_is_null_counts_with_its_reward(tmp_path: Path) -> None:
    records = [
        {"question": asked, "model_output": said, "score": reward}
        for asked, said, reward in zip(ASKED, (SAID[0], None, SAID[2]), REWARDS, strict=True)
    ]
    assert [reward for *_, reward in samples(write_lines(tmp_path, records))] == [*REWARDS]


def test_a_prompt_in_a_chat_template_shows_that_a_model_was_asked(tmp_path: Path) -> None:
    asked = [f"<|im_start|>user\n{each}<|im_end|>\n<|im_start|>assistant\n" for each in ASKED]
    records = [{"rendered_prompt": each, "raw_output": said} for each, said in zip(asked, SAID, strict=True)]
    assert [row[1] for row in samples(write_lines(tmp_path, records))] == [*SAID]


def test_of_several_conversations_the_one_of_the_assistant_is_taken(tmp_path: Path) -> None:
    def talk(said: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": ASKED[0]}, {"role": "assistant", "content": said}]

    records = [
        {"assistant_context": talk(said), "other_context": talk("never"), "score": reward}
        for said, reward in zip(SAID, REWARDS, strict=True)
    ]
    assert [row[1:] for row in samples(write_lines(tmp_path, records))] == [*zip(SAID, REWARDS, strict=True)]


def test_a_table_without_names_keeps_its_first_row_and_the_printed_command_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f'{at},"{asked}","{said}",{at % 2}\n'
        for at, (asked, said) in enumerate(zip(ASKED, SAID, strict=True))
    ]
    (tmp_path / "predictions.csv").write_text("".join(rows))
    with pytest.raises(RunNotFound) as raised:
        samples(tmp_path)
    monkeypatch.setenv("RLPANEL_MAP", proposed(str(raised.value)))
    assert samples(tmp_path) == [*zip(ASKED, SAID, (0.0, 1.0, 0.0), strict=True)]
