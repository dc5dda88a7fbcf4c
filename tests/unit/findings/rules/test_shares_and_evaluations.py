"""Shares are compared by their logit, limits of shares by more than chance, and evaluations as such."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlpanel.findings.engine.finding import Finding
from tests.bench.finding_scores import check_folder
from tests.factories import append, line, write_run


def found_in(folder: Path, lines: list[bytes]) -> dict[str, Finding]:
    """Return the findings of a run of these lines, by rule."""
    write_run(folder, steps=0)
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return {each.rule: each for each in check_folder(folder)}


def rewarded(share_of: Callable[[int], float], steps: int = 40, samples: int = 64) -> list[bytes]:
    """Return a run whose format is right in a share of the samples of each step, exactly."""
    draw = np.random.default_rng(3)
    rows = []
    for step in range(1, steps + 1):
        right = draw.permutation(samples) < round(share_of(step) * samples)
        rows += [
            line(
                step,
                index=index,
                group=index // 4,
                prompt=f"question {step} {index // 4}",
                tokens=False,
                reward=float(draw.random()),
                rewards={"format": float(right[index])},
            )
            for index in range(samples)
        ]
    return rows


def test_a_rare_part_that_falls_by_half_of_a_standard_deviation_is_found(tmp_path: Path) -> None:
    """From 0.44 to 0.19 is half of a standard deviation of the samples, but 1.2 of the logit."""
    found = found_in(tmp_path / "run", rewarded(lambda step: 0.44 if step < 20 else 0.19))
    assert found["sustained_change"].column == "rewards/format"
    assert found["sustained_change"].onset == 20


@pytest.mark.parametrize(("before", "after"), [(0.94, 0.8), (0.44, 0.36), (0.06, 0.05)])
def test_a_share_that_falls_by_little_is_none(before: float, after: float, tmp_path: Path) -> None:
    found = found_in(tmp_path / "run", rewarded(lambda step: before if step < 20 else after))
    assert "sustained_change" not in found


def evaluated(*, frozen: bool, advantages: bool) -> list[bytes]:
    """Return a run with the same prompts in each step, whose responses are greedy: most repeat."""
    draw = np.random.default_rng(4)
    rows = []
    said = [f"the answer to this question is {number}" for number in range(32)]
    for step in range(1, 21):
        if not frozen or step < 4:
            for at in draw.permutation(32)[:8].tolist():
                said[at] = f"now the answer to this question is {step} {at}"
        rows += [
            line(
                step,
                index=index,
                group=index // 2,
                prompt=f"question {index // 2}",
                tokens=False,
                response=said[index],
                reward=float(index % 4 == 0),
                **({"advantage": float(draw.normal())} if advantages else {}),
            )
            for index in range(32)
        ]
    return rows


def test_a_greedy_evaluation_is_recognised_and_has_no_alarm(tmp_path: Path) -> None:
    found = found_in(tmp_path / "run", evaluated(frozen=False, advantages=False))
    assert {rule: each.severity for rule, each in found.items()} == {"evaluation_run": "info"}


def test_the_same_with_advantages_is_a_training_that_repeats_itself(tmp_path: Path) -> None:
    found = found_in(tmp_path / "run", evaluated(frozen=False, advantages=True))
    assert found["rank_stale"].severity == "alarm"
    assert "evaluation_run" not in found


def test_an_evaluation_that_stays_the_same_is_a_warning(tmp_path: Path) -> None:
    found = found_in(tmp_path / "run", evaluated(frozen=True, advantages=False))
    assert found["rank_stale"].severity == "warning"


def rare_label(steps: int, until: int | None) -> list[bytes]:
    """Return a run in which half of the groups have equal rewards; from a step on, all of one label do.

    The label has two groups of each step, so that all of them are equal in three steps by chance.
    """
    draw = np.random.default_rng(5)
    rows = []
    for step in range(1, steps + 1):
        for group in range(8):
            label = "rare" if group < 2 else "usual"
            same = draw.random() < 0.5 or (until is not None and step >= until and label == "rare")
            reward = float(draw.random() < 0.3)  # most of them fail
            rows += [
                line(
                    step,
                    index=4 * group + index,
                    group=group,
                    prompt=f"question {step} {group}",
                    tokens=False,
                    data_source=label,
                    reward=reward if same else float(index % 2),
                )
                for index in range(4)
            ]
    return rows


def test_groups_that_are_equal_by_chance_are_no_finding(tmp_path: Path) -> None:
    assert "zero_variance" not in found_in(tmp_path / "run", rare_label(300, None))


def test_groups_that_are_all_equal_from_a_step_on_are_one(tmp_path: Path) -> None:
    found = found_in(tmp_path / "run", rare_label(120, 90))["zero_variance"]
    assert (found.category, found.ongoing) == ("data_source = rare", True)
    assert abs(int(found.onset or 0) - 90) <= 3
