"""Bisections of runs that show little: what is claimed, and what is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.bisect.bisection import Bisection
from tests.bench.chains import bisected
from tests.bench.finding_scores import open_folder

ONSET = 25
Change = Callable[[int, dict[str, Any], float], dict[str, Any]]


def drawn(
    folder: Path,
    *,
    steps: Iterable[int] = range(1, 41),
    groups: int = 8,
    size: int = 4,
    since: int = ONSET,
    fall: float = 0.45,
    change: Change | None = None,
) -> Bisection:
    """Bisect a run in which calls fail from a step on, in most samples of a group, and cost them reward."""
    rng = np.random.default_rng(1)
    (folder / "run").mkdir()
    with (folder / "run" / "rollout_data_rank_0.jsonl").open("w") as file:
        for at, step in enumerate(steps):
            for group in range(groups):
                level = rng.normal(0, 0.08)
                for sample in range(size):
                    spared = sample >= 0.75 * size
                    failed = float(rng.random() < (0.8 if step >= since and not spared else 0.03))
                    reward = np.clip(0.7 + level - fall * failed + rng.normal(0, 0.1), 0, 1)
                    row = {
                        "step": step,
                        "group": f"{step}-{group}",
                        "prompt": f"q {at} {group}",
                        "response": "word " * int(rng.normal(30, 4)),
                        "failed_calls": failed,
                        "reward": round(float(reward), 3),
                    }
                    row |= change(step, row, float(rng.random())) if change is not None else {}
                    file.write(json.dumps(row) + "\n")
    return bisected(open_folder(folder / "run"))


def unknown(found: Bisection) -> str:
    return " ".join(each.text for each in found.unknown)


def test_five_steps_say_how_little_lies_before_the_change(tmp_path: Path) -> None:
    found = drawn(tmp_path, steps=range(1, 6), since=4)
    assert found.first is not None
    assert (found.first.column, found.first.step) == ("failed_calls", 4)
    assert "There are 3 steps before the change" in unknown(found)


def test_one_group_a_step_is_said_and_a_large_cause_is_still_found(tmp_path: Path) -> None:
    found = drawn(tmp_path, groups=1, size=8)
    assert found.first is not None
    assert found.first.column == "failed_calls"
    assert abs(found.first.step - ONSET) <= 1
    assert "Each step has one group" in unknown(found)


def test_a_change_that_explains_too_little_is_named_beside_the_fall(tmp_path: Path) -> None:
    found = drawn(tmp_path, groups=1, size=8, fall=0.16)
    assert found.state == "alone"
    assert "none explains it beyond two standard errors; failed_calls changed as well" in found.sentence.text


def test_steps_with_gaps_keep_their_numbers(tmp_path: Path) -> None:
    found = drawn(tmp_path, steps=range(0, 400, 10), since=250)
    assert found.first is not None
    assert (found.first.column, found.first.step) == ("failed_calls", 250)
    assert "Each step has one group" not in unknown(found)


def test_a_resumed_run_says_that_its_effects_are_not_separated(tmp_path: Path) -> None:
    found = drawn(tmp_path, steps=[*range(1, 30), *range(24, 41)])
    assert found.first is not None
    assert abs(found.first.step - ONSET) <= 1
    assert "resumed at step 24: the data do not separate its effects" in unknown(found)


def test_changed_reward_functions_lead_the_chain(tmp_path: Path) -> None:
    def scored(step: int, row: dict[str, Any], chance: float) -> dict[str, Any]:
        right, other = row["reward"], float(chance < 0.5)
        if step < ONSET:
            return {"rewards": {"right": right, "form": other}, "reward": right + other}
        return {"rewards": {"right": right, "strict": -other}, "reward": right - other}

    found = drawn(tmp_path, fall=0, change=scored)
    assert found.first is not None
    assert (found.first.name, found.first.step) == ("samples without rewards/form", ONSET)
    assert found.first.by == "time"
    assert "only the order of time speaks for it" in unknown(found)


def test_other_prompts_of_all_samples_lead_by_time_alone(tmp_path: Path) -> None:
    def replaced(step: int, row: dict[str, Any], _: float) -> dict[str, Any]:
        if step < ONSET:
            return {"failed_calls": 0.0}
        prompt = f"A wholly different riddle about trains that leave stations {row['prompt']}"
        return {"prompt": prompt, "reward": row["reward"] - 0.3, "failed_calls": 0.0}

    found = drawn(tmp_path, fall=0, change=replaced)
    assert found.first is not None
    assert found.first.name.startswith("prompts that begin with")
    assert found.first.by == "time"
    assert np.isnan(found.first.share)
    assert "prompts may differ, too" in unknown(found)


@pytest.mark.parametrize("steps", [1, 3])
def test_fewer_than_four_steps_claim_nothing(tmp_path: Path, steps: int) -> None:
    found = drawn(tmp_path, steps=range(1, steps + 1), since=2)
    assert (found.state, found.links) == ("short", ())
    assert "a bisection needs four" in found.sentence.text
