"""Changes from one visit of a prompt to the next, against values that are set by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.next_visits import LearnedToken, LearnedTokens, learned_tokens

PROMPTS, SIZE = 12, 4
#: Logprobs of the first token at both visits.
FIRST = {" yes": (-1.6, -0.4), " no": (-0.3, -1.2)}


def run_of(folder: Path, *, logprobs: bool = True, advantage: bool = True, steps: int = 2) -> LearnedTokens:
    """At the first visit of a prompt half of the answers say yes, at the second all but one."""
    folder.mkdir()
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(steps):
            for prompt in range(PROMPTS):
                for at in range(SIZE):
                    word = " yes" if at < (2 if step == 0 else 3) else " no"
                    tokens = [word, f" {(prompt + at) % 5}", "."]
                    noise = 0.01 * np.sin(prompt)
                    made: dict[str, Any] = {
                        "step": step,
                        "prompt": f"question {prompt if steps > 1 else at + 100 * prompt}",
                        "group": f"{step} {prompt}",
                        "response": "".join(tokens),
                        "response_tokens": tokens,
                        "reward": float(word == " yes"),
                    }
                    if logprobs:
                        made["logprobs"] = [FIRST[word][step] + step * noise, -1.0, -0.1]
                    if advantage:
                        made["advantage"] = 1.0 if word == " yes" else -1.0
                    file.write(json.dumps(made) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        *_, last = learned_tokens(run.index, run.view, run.snapshot.alive_rows)
    return last


def named(found: LearnedTokens, kind: str, name: str) -> LearnedToken:
    return next(each for each in found.learned if (each.kind, each.name) == (kind, name))


def test_the_change_of_a_token_is_that_in_the_same_context(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run")
    shifts = [0.01 * float(np.sin(prompt)) for prompt in range(PROMPTS)]
    for word, (before, after) in FIRST.items():
        token = named(found, "token", word)
        assert token.change == pytest.approx(after - before + np.mean(shifts))
        error = np.sqrt(((shifts - np.mean(shifts)) ** 2).sum() * PROMPTS / (PROMPTS - 1)) / PROMPTS
        assert token.error == pytest.approx(error)
        assert token.now == pytest.approx(np.exp(before))
        assert (token.visits, token.prompts) == (PROMPTS, PROMPTS)
        assert token.push == pytest.approx(0.5 if word == " yes" else -0.5)
    assert found.logprobs == "logprobs"
    assert found.agreement is not None
    assert found.agreement > 0.6


def test_the_change_of_a_phrase_is_that_of_its_share(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", logprobs=False)
    assert found.logprobs == ""
    assert "No logprobs" in " ".join(found.remarks)
    assert found.pairs == PROMPTS
    assert not [each for each in found.learned if each.kind == "token"]


def test_rewards_stand_for_advantages_that_are_not_logged(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", advantage=False)
    assert "reward minus the mean" in " ".join(found.remarks)
    assert named(found, "token", " yes").push == pytest.approx(0.25)


def test_prompts_that_never_come_back_show_nothing_and_say_so(tmp_path: Path) -> None:
    found = run_of(tmp_path / "run", steps=1)
    assert found.learned == ()
    assert "comes back" in " ".join(found.remarks)
