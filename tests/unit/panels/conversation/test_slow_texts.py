"""Texts that repeat what templates, tools and thoughts are recognised by: read and packed in bounded time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import rlpanel
from rlpanel.panels.conversation.conversation_payload import pack_conversation

UNITS = (
    "a ", "<tool_call>", "<tool_call>{", "<think>", "</think>", "<think></think>", "[", "{", '{"a":',
    "Action:", "Action: x\nAction Input: ", "\n\n", "<|im_start|>", "<|im_start|>user\n", "<|im_end|>", " ",
    "\t", "```", "```python\n", "<function=", "<function=a><parameter=b>", "[TOOL_CALLS]", "<|channel|>",
    "\\boxed{", "\\(a ", "<|start|>assistant<|channel|>analysis<|message|>", "$", "(", "<", "<a", "<!--",
    "User:", "\nUser:\nAssistant:", "[INST]", "<<SYS>>", "<s>", "<start_of_turn>", "<|start_header_id|>",
    "Observation:", "error:", "![](", "Traceback (most recent call last):\n", '{"error":', "\u200b",
    "\u202e", "\ud83d", "\u0301", "=", "#", "0", "1e9", "data:image/png;base64,", "http://",
    "<tool_response>", "<answer>", "call_tool(", "<img", "&", "\x00", "<|tool_calls_section_begin|>", "\r",
    "-", "_", "*", "|",
)  # fmt: skip


@pytest.mark.parametrize("size", [10_000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", ["response", "prompt", "messages"])
def test_a_repeated_text_is_read_and_packed_in_bounded_time(tmp_path: Path, place: str, size: int) -> None:
    with (tmp_path / "rank_00000.jsonl").open("w") as file:
        for unit in UNITS:
            file.write(json.dumps(line(place, (unit * size)[:size])) + "\n")
    started = time.process_time()
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert time.process_time() - started < 60
        times = {}
        for unit, uid in zip(UNITS, run.samples().uid, strict=True):
            sample, started = run.sample(uid), time.thread_time()
            pack_conversation(sample)
            times[unit] = time.thread_time() - started
    slowest = max(times, key=lambda unit: times[unit])
    assert times[slowest] < 4, slowest  # 0.3 s on a machine without other load


def line(place: str, text: str) -> dict[str, object]:
    """Return a sample that has the text in one place."""
    asked = {"role": "user", "content": "q"}
    answers = [{"role": "assistant", "content": text}, {"role": "tool", "content": text}]
    own: dict[str, dict[str, object]] = {
        "response": {"prompt": "q", "response": text},
        "prompt": {"prompt": text, "response": "x"},
        "messages": {
            "prompt": "q",
            "response": text[:10],
            "messages": [asked, *answers],
            "prompt_messages": 1,
        },
    }
    return {"step": 1, "reward": 1.0, **own[place]}
