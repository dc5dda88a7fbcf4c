"""A trend is real if it exceeds its error, clustered by prompt and by step; noise and few prompts do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.recent_trend import RecentTrend, recent_trend
from rlpanel.errors import SettingError
from rlpanel.queries.learning.trends import trend

STEPS, PROMPTS, SIZE = 40, 4, 4
#: Takes the step and the random generator; returns the rewards of the step's prompts and samples.
Rewards = Callable[[int, np.random.Generator], np.ndarray]


def write(folder: Path, rewards: Rewards, *, steps: int = STEPS, fixed: bool = False, seed: int = 0) -> Path:
    """Write a run; with ``fixed``, each step has the same prompts."""
    folder.mkdir()
    draw = np.random.default_rng(seed)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(steps):
            values = rewards(step, draw)
            for prompt in range(PROMPTS):
                for at in range(SIZE):
                    line = {
                        "step": step,
                        "prompt": f"question {prompt if fixed else step * PROMPTS + prompt}",
                        "group": f"{step} {prompt}",
                        "response": "x" * (10 + step),
                        "reward": float(values[prompt, at]),
                        "truncated": bool(values[prompt, at] < 0),
                    }
                    file.write(json.dumps(line) + "\n")
    return folder


def found(folder: Path, curve: str = "reward", last: int = 20) -> RecentTrend:
    with rlpanel.open_run(folder, follow=False) as run:
        return recent_trend(run.view, curve, last)


def noise(draw: np.random.Generator) -> np.ndarray:
    return draw.normal(0, 1, (PROMPTS, SIZE))


def test_a_real_rise_is_an_improvement_with_its_size(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", lambda step, draw: 0.05 * step + noise(draw))
    result = found(folder)
    assert result.verdict == "improved"
    assert (result.steps, result.since) == ((20, 39), (0, 19))
    assert result.change == pytest.approx(1.0, abs=3 * result.error)
    assert found(folder, "truncated").verdict == "improved"  # fewer are better
    assert found(folder, "response_chars").verdict in ("rose", "improved", "worsened")


def test_a_real_fall_is_worse(tmp_path: Path) -> None:
    assert found(write(tmp_path / "run", lambda step, draw: noise(draw) - 0.05 * step)).verdict == "worsened"


@pytest.mark.parametrize("seed", range(5))
def test_noise_cannot_be_told_from_a_trend(tmp_path: Path, seed: int) -> None:
    assert found(write(tmp_path / "run", lambda step, draw: noise(draw), seed=seed)).verdict == "unclear"


def test_few_prompts_are_no_evidence_however_many_samples_there_are(tmp_path: Path) -> None:
    """Two of four prompts rise, and two fall: each alone is clear, and together they say nothing."""
    signs = np.array([1.0, -1.0, 1.2, -0.8])[:, None]
    folder = write(tmp_path / "run", lambda step, draw: signs * (step >= 20) + 0.1 * noise(draw), fixed=True)
    result = found(folder)
    assert result.prompts == PROMPTS
    assert result.by_prompts > 5 * result.by_steps
    assert result.verdict == "unclear"


def test_the_clustered_error_is_that_of_sums_by_prompt(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", lambda step, draw: 0.05 * step + noise(draw), fixed=True)
    with rlpanel.open_run(folder, follow=False) as run:
        reward = run.snapshot.number("reward").reshape(STEPS, PROMPTS, SIZE)
        result = recent_trend(run.view, "reward", 20)
    means = reward[:20].mean(), reward[20:].mean()
    early = (reward[:20] - means[0]).sum(axis=(0, 2)) / reward[:20].size
    late = (reward[20:] - means[1]).sum(axis=(0, 2)) / reward[20:].size
    expected = np.sqrt(((late - early) ** 2).sum() * PROMPTS / (PROMPTS - 1))
    assert result.by_prompts == pytest.approx(expected)
    assert result.change == pytest.approx(means[1] - means[0])


def test_a_short_run_compares_its_halves_and_a_shorter_one_nothing(tmp_path: Path) -> None:
    assert found(write(tmp_path / "a", lambda step, draw: noise(draw), steps=10)).steps == (5, 9)
    short = found(write(tmp_path / "b", lambda step, draw: noise(draw), steps=6))
    assert short.verdict == "too few steps"
    assert np.isnan(short.value)


def test_a_constant_curve_is_unclear(tmp_path: Path) -> None:
    result = found(write(tmp_path / "run", lambda step, draw: np.ones((PROMPTS, SIZE))))
    assert (result.verdict, result.change, result.z) == ("unclear", 0, 0)


def test_the_question_tests_all_headline_curves_together(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", lambda step, draw: 0.05 * step + noise(draw))
    with rlpanel.open_run(folder, follow=False) as run:
        table = trend(run.data, last=10)
        assert {row["curve"] for row in table.rows} >= {"reward", "truncated"}
        assert table.rows[0]["steps"] == "30..39"
        one = trend(run.data, last=10, curves=["reward"])
        assert one.rows[0]["change"] == table.rows[0]["change"]
        assert one.about["least_z"] <= table.about["least_z"]
        with pytest.raises(SettingError, match="reward"):
            trend(run.data, curves=["rewart"])
