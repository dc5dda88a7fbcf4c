"""Metrics and the rule of on-policy distillation, against plain numpy on made-up logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlpanel import open_run
from rlpanel.metrics.engine.compute import token_values
from tests.factories import append


def write(folder: Path, teacher: str, steps: int = 6, size: int = 20) -> list[dict[str, list[float]]]:
    """Write a run whose teacher is ``right``, gives ``zeros`` for a template, or has other ``tokens``."""
    chance, rows = np.random.default_rng(3), []
    for step in range(steps):
        for _ in range(16):
            tokens = chance.choice([*"abcdefgh"], size).tolist()
            logprobs = -chance.exponential(0.7, size)
            values = np.minimum(logprobs + chance.normal(-0.1, 0.3, size), -1e-3)
            if teacher == "zeros":
                values[:4] = 0.0
            elif teacher == "tokens":
                values = -chance.exponential(9.0, size)
            rows.append(
                {
                    "step": step, "prompt": "p", "response": "".join(tokens), "response_tokens": tokens,
                    "logprobs": logprobs.tolist(), "teacher_logprobs": values.tolist(),
                    "reward": chance.random(),
                }
            )  # fmt: skip
    folder.mkdir()
    append(folder / "rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    return rows


def test_the_kl_to_the_teacher_is_the_difference_of_logprobs(tmp_path: Path) -> None:
    rows = write(tmp_path / "run", "zeros")
    with open_run(tmp_path / "run", follow=False) as run:
        kl, zero = run.snapshot.number("teacher_kl_mean"), run.snapshot.number("teacher_zero_mean")
    expected = [np.mean(np.subtract(row["logprobs"], row["teacher_logprobs"])) for row in rows]
    np.testing.assert_allclose(kl, expected)
    np.testing.assert_allclose(zero, 4 / 20)


def test_its_mean_is_an_unbiased_estimate_of_the_reverse_kl() -> None:
    """Tokens are drawn from the policy; the mean approaches Σ p log(p / q)."""
    chance = np.random.default_rng(0)
    policy, teacher = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.2, 0.3])
    drawn = chance.choice(3, 200_000, p=policy)
    values = token_values({"logprobs": np.log(policy)[drawn], "teacher_logprobs": np.log(teacher)[drawn]})
    exact = float(np.sum(policy * np.log(policy / teacher)))
    assert values["teacher_kl"].mean() == pytest.approx(exact, abs=0.01)


def test_a_token_without_a_teachers_logprob_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    row = {"step": 1, "prompt": "p", "response": "abc", "response_tokens": [*"abc"]}
    row |= {"logprobs": [-1.0, -2.0, -3.0], "teacher_logprobs": [-2.0, None, -5.0]}
    append(tmp_path / "run" / "rank_0.jsonl", json.dumps(row).encode() + b"\n")
    with open_run(tmp_path / "run", follow=False) as run:
        assert run.snapshot.number("teacher_kl_mean").tolist() == [1.5]
        assert run.snapshot.number("unscored_teacher_logprobs").tolist() == [1.0]


@pytest.mark.parametrize(("teacher", "found"), [("right", 0), ("zeros", 1), ("tokens", 1)])
def test_a_teacher_that_did_not_score_the_tokens_is_found(tmp_path: Path, teacher: str, found: int) -> None:
    write(tmp_path / "run", teacher)
    with open_run(tmp_path / "run", follow=False) as run:
        titles = run.findings["rule"].tolist()
    assert titles.count("teacher_scores") == found
