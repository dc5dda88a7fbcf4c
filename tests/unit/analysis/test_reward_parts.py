"""Shares of a reward's parts within groups, against sums written out in numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.reward_parts import REST, RewardAnatomy, RewardPart, fitted_sum, reward_anatomy

GROUPS, SIZE = 30, 4


def parts_of(seed: int = 0) -> dict[str, np.ndarray]:
    """Two parts that vary, and one that is the same for all samples of a group."""
    draw = np.random.default_rng(seed)
    count = GROUPS * SIZE
    return {
        "right": (draw.random(count) < 0.5).astype(float),
        "style": draw.normal(0, 1, count).round(3),
        "prompt": np.repeat(draw.random(GROUPS).round(3), SIZE),
    }


def anatomy(
    folder: Path,
    reward: np.ndarray,
    parts: dict[str, Any],
    *,
    config: dict[str, Any] | None = None,
    by_step: bool = False,
    group: bool = True,
) -> RewardAnatomy:
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "run.json").write_text(json.dumps(config))
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for at, value in enumerate(reward.tolist()):
            made: dict[str, Any] = {
                "step": at // (GROUPS * SIZE // 2),
                "prompt": f"question {at // SIZE}" if group else "the same",
                "response": "x" * (1 + at % 7),
                "reward": value,
                "rewards": {
                    name: None if np.isnan(each[at]) else float(each[at]) for name, each in parts.items()
                },
            }
            file.write(json.dumps(made | ({"group": str(at // SIZE)} if group else {})) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        return reward_anatomy(run.view, run.snapshot.alive_rows, by_step=by_step)


def part(found: RewardAnatomy, name: str, step: int | None = None) -> RewardPart:
    return next(each for each in found.parts if each.name == name and each.step == step)


def centred(values: np.ndarray) -> np.ndarray:
    groups = values.reshape(-1, SIZE)
    return (groups - groups.mean(axis=1, keepdims=True)).ravel()


def test_shares_are_those_of_the_variance_within_groups(tmp_path: Path) -> None:
    parts = parts_of()
    reward = 2.0 * parts["right"] - 0.5 * parts["style"] + 3.0 * parts["prompt"] + 1.0
    found = anatomy(tmp_path / "run", reward, parts, by_step=True)
    assert found.source == "fitted"
    assert found.exact == 1
    spread = (centred(reward) ** 2).sum()
    for name, weight in {"right": 2.0, "style": -0.5, "prompt": 3.0}.items():
        mine = part(found, name)
        assert mine.weight == pytest.approx(weight, abs=1e-6)
        assert mine.mean == pytest.approx(parts[name].mean())
        expected = weight * (centred(parts[name]) * centred(reward)).sum() / spread
        assert mine.share == pytest.approx(expected, abs=1e-6)
        half = slice(0, GROUPS * SIZE // 2)
        first = weight * (centred(parts[name])[half] * centred(reward)[half]).sum()
        assert part(found, name, 0).share == pytest.approx(
            first / (centred(reward)[half] ** 2).sum(), abs=1e-6
        )
    # However large it is, a part that is the same in a group moves no gradient.
    assert part(found, "prompt").share == pytest.approx(0, abs=1e-6)
    assert sum(each.share or 0 for each in found.parts if each.step is None) == pytest.approx(1)


def test_correlations_are_those_within_groups(tmp_path: Path) -> None:
    parts = parts_of()
    found = anatomy(tmp_path / "run", parts["right"] + parts["style"], parts)
    expected = np.corrcoef(centred(parts["right"]), centred(parts["style"]))[0, 1]
    assert part(found, "right").correlations["style"] == pytest.approx(expected, abs=1e-6)
    length = 1.0 + np.arange(GROUPS * SIZE) % 7
    expected = np.corrcoef(centred(parts["right"]), centred(length))[0, 1]
    assert part(found, "right").correlations["length"] == pytest.approx(expected, abs=1e-6)
    assert part(found, "prompt").correlations["style"] is None  # it does not vary in a group


def test_declared_weights_are_used_if_the_reward_is_their_sum(tmp_path: Path) -> None:
    parts = parts_of()
    reward = parts["right"]
    weights = {"right": 1.0, "style": 0.0, "prompt": 0.0}
    found = anatomy(tmp_path / "a", reward, parts, config={"reward_weights": weights})
    assert found.source == "declared"
    assert part(found, "style").weight == 0
    wrong = anatomy(tmp_path / "b", reward + parts["style"], parts, config={"reward_weights": weights})
    assert wrong.source == "fitted"
    assert part(wrong, "style").weight == pytest.approx(1.0, abs=1e-6)


def test_what_the_parts_do_not_explain_is_the_rest(tmp_path: Path) -> None:
    parts = parts_of()
    other = np.random.default_rng(5).normal(0, 1, GROUPS * SIZE)
    found = anatomy(tmp_path / "run", parts["right"] + other, {"right": parts["right"]})
    assert found.exact is not None
    assert found.exact < 0.1
    assert "least squares" in " ".join(found.remarks)
    assert sum(each.share or 0 for each in found.parts) == pytest.approx(1)
    assert (part(found, REST).share or 0) > 0.5


def test_what_is_missing_is_null_with_a_reason(tmp_path: Path) -> None:
    parts = parts_of()
    parts["half"] = np.where(np.arange(GROUPS * SIZE) % 2, np.nan, 1.0)
    parts["double"] = 2 * parts["right"]
    parts["same"] = np.full(GROUPS * SIZE, 0.25)
    reward = 0.7 * parts["right"] + 0.1 * parts["double"] + 4 * np.nan_to_num(parts["half"])
    found = anatomy(tmp_path / "run", reward, parts)
    assert part(found, "same").weight is None
    assert "same in all samples" in part(found, "same").reasons["weight"]
    assert part(found, "right").share is None
    assert "depend on one another" in part(found, "right").reasons["share"]
    assert part(found, "half").missing == GROUPS * SIZE // 2


def test_groups_that_say_nothing_are_counted(tmp_path: Path) -> None:
    reward = np.repeat(np.arange(GROUPS, dtype=float), SIZE)
    found = anatomy(tmp_path / "run", reward, {"all": reward})
    assert (found.groups, found.equal, found.alone) == (GROUPS, GROUPS, 0)
    assert part(found, "all").share is None
    assert "equal" in part(found, "all").reasons["share"]


def test_rewards_that_are_no_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    parts = {"right": parts_of()["right"]}
    reward = parts["right"].copy()
    reward[[0, 5]] = np.nan, np.inf
    found = anatomy(tmp_path / "run", reward, parts)
    assert found.without_reward == 2
    assert part(found, "right").share == pytest.approx(1)


def test_a_run_without_parts_says_what_to_log(tmp_path: Path) -> None:
    found = anatomy(tmp_path / "run", np.arange(GROUPS * SIZE, dtype=float), {}, group=False)
    assert found.parts == ()
    assert "rewards/NAME" in " ".join(found.remarks)


def test_a_fit_does_not_choose_among_weights_that_fit_as_well() -> None:
    draw = np.random.default_rng(1)
    a, b = draw.normal(0, 1, (2, 50))
    assert fitted_sum(a + b, {"a": a, "b": b}).is_unique
    assert not fitted_sum(a + b, {"a": a, "b": b, "sum": a + b}).is_unique
