"""The colour scale of each token metric follows from the statistics of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rlpanel import open_run
from rlpanel.metrics.engine import column_info
from rlpanel.store.snapshot.token_scales import Scale, scale_rule, token_scales
from tests.factories import append, sample

TICKS = {1.0, 2.0, 3.0, 5.0}


def write(folder: Path, steps: Sequence[dict[str, list[float]]], samples: int = 4) -> Path:
    """Write a run whose samples have these arrays at each step."""
    folder.mkdir()
    for step, arrays in enumerate(steps, start=1):
        tokens = [str(at) for at in range(len(next(iter(arrays.values()))))]
        rows = [
            sample(step, index=index, tokens=False, response_tokens=tokens, **arrays)
            for index in range(samples)
        ]
        append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    return folder


def scales_of(
    folder: Path, steps: Sequence[dict[str, list[float]]], step: int | None = None
) -> dict[str, Scale]:
    with open_run(write(folder, steps)) as run:
        return token_scales(run.view.snapshot, step)


def shifted(by: float) -> dict[str, list[float]]:
    """Return logprobs of six tokens that lie this far from the reference's, half of them on each side."""
    policy = np.full(6, -1.0)
    return {"logprobs": policy.tolist(), "ref_logprobs": (policy + by * np.resize([1, -1], 6)).tolist()}


def test_differences_are_symmetric_and_the_others_start_at_zero(tmp_path: Path) -> None:
    arrays = shifted(0.3) | {"values": [0.4] * 6, "advantages": [1.2] * 6, "entropy": [0.5] * 6}
    scales = scales_of(tmp_path / "run", [arrays])
    for name in ("log_ratio", "value", "token_advantage"):
        low, high = scales[name]
        assert low == -high < 0
    for name in ("kl_k3", "surprisal", "token_entropy", "prob"):
        assert scales[name][0] == 0 < scales[name][1]
    assert scales["logprob"] == (-scales["surprisal"][1], 0.0) == scales["ref_logprob"]


@pytest.mark.parametrize(("by", "bound"), [(1e-4, 0.1), (0.25, 1.0), (0.5, 2.0), (50.0, 5.0)])
def test_the_scale_is_four_root_mean_squares_between_noise_and_certainty(
    tmp_path: Path, by: float, bound: float
) -> None:
    assert scales_of(tmp_path / "run", [shifted(by)])["log_ratio"] == (-bound, bound)


def test_engines_and_ratios_have_a_floor_of_five_percent(tmp_path: Path) -> None:
    same = [-1.0] * 6
    arrays = {"logprobs": same, "rollout_logprobs": [-1.001] * 6, "old_logprobs": same}
    scales = scales_of(tmp_path / "run", [arrays])
    assert scales["engine_log_ratio"] == (-0.05, 0.05)
    assert scales["ratio"] == (0.95, 1.05)


def test_values_and_returns_share_a_scale_that_holds_both(tmp_path: Path) -> None:
    scales = scales_of(tmp_path / "run", [{"values": [0.4] * 4, "returns": [1.1] * 4}])
    assert scales["value"] == scales["token_return"] == (-2.0, 2.0)


def test_a_scale_only_grows_with_the_steps_and_only_by_ticks(tmp_path: Path) -> None:
    sizes = [0.01, 0.02, 0.3, 0.05, 0.4, 0.02, 1.1, 0.9, 0.9, 0.1]
    bounds = [
        scales_of(tmp_path / f"first-{count}", [shifted(size) for size in sizes[:count]])["log_ratio"][1]
        for count in range(1, len(sizes) + 1)
    ]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) < len(bounds) / 2
    assert {float(f"{bound:e}".partition("e")[0]) for bound in bounds} <= TICKS


def test_the_newest_step_counts_once_another_one_follows(tmp_path: Path) -> None:
    before = scales_of(tmp_path / "two", [shifted(0.01), shifted(2.0)])
    after = scales_of(tmp_path / "three", [shifted(0.01), shifted(2.0), shifted(0.01)])
    assert before["log_ratio"][1] == 0.1 < after["log_ratio"][1]


def test_one_step_that_explodes_does_not_make_the_others_pale(tmp_path: Path) -> None:
    steps = [shifted(0.2)] * 9 + [shifted(30.0), shifted(0.2)]
    assert scales_of(tmp_path / "run", steps)["log_ratio"] == (-1.0, 1.0)


def test_a_step_has_a_scale_of_its_own(tmp_path: Path) -> None:
    steps = [shifted(0.25), shifted(0.5), shifted(0.25)]
    assert scales_of(tmp_path / "run", steps, step=2)["log_ratio"] == (-2.0, 2.0)
    assert scales_of(tmp_path / "other", steps, step=7) == {}


def test_a_run_without_tokens_has_scales_of_probabilities_only(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", json.dumps(sample(1, tokens=False)).encode() + b"\n")
    with open_run(folder) as run:
        assert set(token_scales(run.view.snapshot)) == {"prob", "ref_prob"}


def test_every_scale_has_its_rule_in_words(tmp_path: Path) -> None:
    arrays = shifted(0.3) | {"values": [0.4] * 6, "token_rewards": [0.1] * 6}
    assert all(scale_rule(name) for name in scales_of(tmp_path / "run", [arrays]) if "prob" not in name)
    assert {
        m.name for m in column_info.visible_metrics() if m.level == "token" and not scale_rule(m.name)
    } == {
        "prob",
        "ref_prob",
    }
