"""Special tokens between the turns of an agent belong to its log; others are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel.findings.check import FAILED
from tests.bench.finding_scores import check_folder

STEPS, SAMPLES, FROM = 40, 16, 25


def rules_of(folder: Path, end: str, *, growing: bool = False, other: str = "") -> set[str]:
    """Return the rules that are broken by rollouts with tool calls, whose turns end with a token.

    With ``growing``, calls become frequent; ``other`` follows some responses from a step on.
    """
    folder.mkdir(exist_ok=True)
    lines = []
    for step in range(STEPS):
        for at in range(SAMPLES):
            calls = 1 + at % 2 if not growing or at < SAMPLES * (step + 4) // STEPS else 0
            call = {"type": "function", "function": {"name": "stock", "arguments": {"item": at}}}
            turns = [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "name": "stock", "content": f"{at} of {step}"},
            ] * calls
            answer = f"There are {at} pieces at {step}{other if step >= FROM and at % 2 else ''}"
            lines.append(
                {
                    "step": step,
                    "group": at // 4,
                    "prompt": f"How many pieces {step} {at // 4}",
                    "response": f"look{end}" * calls + answer + "<|im_end|>",
                    "messages": [
                        {"role": "user", "content": "How many"},
                        *turns,
                        {"role": "assistant", "content": answer},
                    ],
                    "prompt_messages": 1,
                    "reward": (at * 7 + step) % 5 / 4,
                }
            )
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "rollouts.jsonl").write_text(text, encoding="utf-8")
    found = [each for finding in check_folder(folder) for each in (finding, *finding.symptoms)]
    assert FAILED not in {each.rule for each in found}
    return {each.rule for each in found}


@pytest.mark.parametrize("growing", [False, True])
def test_the_markup_between_turns_is_normal_from_the_first_step_on(tmp_path: Path, growing: bool) -> None:
    assert "special_tokens" not in rules_of(tmp_path / "run", "<|im_end|>", growing=growing)


def test_further_tokens_are_found_beside_that_markup(tmp_path: Path) -> None:
    found = rules_of(tmp_path / "run", "<|im_end|>", other="<|im_end|><|im_start|>user")
    assert "special_tokens" in found


def test_a_token_in_logs_without_markup_is_found(tmp_path: Path) -> None:
    assert "special_tokens" in rules_of(tmp_path / "run", " ", other="<|im_start|>user")
