"""The run's own corrections and bounds, read from settings as public trainers write them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.drift.corrections import run_corrections
from tests.unit.drift.test_taken_away import masked_run

#: Settings as the trainer spells them, and the corrections that they mean: name, low, high.
SETTINGS: dict[str, tuple[dict[str, Any], list[tuple[str, float, float]]]] = {
    "trl": (
        {
            "use_vllm": True,
            "vllm_importance_sampling_correction": True,
            "vllm_importance_sampling_mode": "sequence_mask",
            "vllm_importance_sampling_clip_max": 3.0,
            "vllm_importance_sampling_clip_min": None,
        },
        [("sequence_mask", 0.0, 3.0)],
    ),
    "trl before 1.0": (
        {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_cap": 2.5},
        [("tis", 0.0, 2.5)],
    ),
    "trl, switched off": (
        {"vllm_importance_sampling_correction": False, "vllm_importance_sampling_mode": "token_mask"},
        [],
    ),
    "verl": (
        {
            "algorithm.rollout_correction.rollout_is": "token",
            "algorithm.rollout_correction.rollout_is_threshold": 2.0,
            "algorithm.rollout_correction.rollout_rs": "seq_mean_k1",
            "algorithm.rollout_correction.rollout_rs_threshold": "0.999_1.001",
        },
        [("tis", 0.0, 2.0), ("geometric_mask", 0.999, 1.001)],
    ),
    "verl, two bounds": (
        {"rollout_is": "token", "rollout_is_threshold": "0.5_5.0", "rollout_rs": "null"},
        [("icepop", 0.5, 5.0)],
    ),
    "verl, one bound of a mask": (
        {"rollout_is": "null", "rollout_rs": "sequence", "rollout_rs_threshold": 4},
        [("sequence_mask", 0.25, 4.0)],
    ),
    "verl before 0.6": ({"actor_rollout_ref.actor.tis_imp_ratio_cap": 10.0}, [("tis", 0.0, 10.0)]),
    "verl before 0.6, off": ({"actor_rollout_ref.actor.tis_imp_ratio_cap": -1}, []),
    "slime": ({"use_tis": True, "tis_clip": 2.0, "tis_clip_low": 0.5}, [("tis", 0.5, 2.0)]),
    "slime, launch command": ({"--use-tis": True, "--tis-clip": 3}, [("tis", 0.0, 3.0)]),
    "slime, IcePop": (
        {
            "use_tis": True,
            "tis_clip": 5,
            "tis_clip_low": 0.2,
            "custom_tis_function_path": "m.icepop_function",
        },
        [("icepop", 0.2, 5.0)],
    ),
    "slime, off": ({"use_tis": False, "tis_clip": 2.0}, []),
    "nemo-rl": (
        {
            "loss_fn.use_importance_sampling_correction": True,
            "loss_fn.truncated_importance_sampling_ratio": 1.002,
            "loss_fn.truncated_importance_sampling_ratio_min": 0.999,
            "loss_fn.truncated_importance_sampling_type": "seq-mask-tis",
        },
        [("geometric_mask", 0.999, 1.002)],
    ),
    "prime-rl": (
        {
            "trainer.loss.token_mask_low": 0.125,
            "trainer.loss.token_mask_high": 8.0,
            "trainer.loss.geo_mask_high": 1.05,
            "trainer.loss.geo_mask_low": 0.95,
        },
        [("mis", 0.125, 8.0), ("geometric_mask", 0.95, 1.05)],
    ),
    "open-instruct": ({"truncated_importance_sampling_ratio_cap": 2.0}, [("tis", 0.0, 2.0)]),
    "open-instruct, off": ({"truncated_importance_sampling_ratio_cap": 0.0}, []),
    "areal": ({"actor.behave_imp_weight_cap": 5.0}, [("mis", 0.0, 5.0)]),
    "nothing": ({"lr": 1e-6, "epsilon": 0.2}, []),
}


@pytest.mark.parametrize("trainer", sorted(SETTINGS))
def test_settings_of_trainers(trainer: str) -> None:
    settings, expected = SETTINGS[trainer]
    found = run_corrections(settings)
    assert [(each.name, each.low, each.high) for each in found] == expected
    for each in found:
        assert any(name in each.settings for name in settings)


def test_a_bound_that_no_file_has_is_said() -> None:
    (found,) = run_corrections({"use_tis": True})
    assert (found.name, found.high) == ("tis", 2.0)
    assert "the bound 2 is assumed" in found.settings


@pytest.mark.parametrize(
    "settings",
    [
        {"rollout_rs": "seq_mean_k3", "rollout_rs_threshold": 0.01},
        {"use_tis": True, "custom_tis_function_path": "own.weights"},
        {"vllm_importance_sampling_mode": "something_new"},
        {"use_tis": True, "tis_clip": 1.0, "tis_clip_low": 3.0},
    ],
)
def test_a_correction_of_another_kind_is_named_and_not_recomputed(settings: dict[str, Any]) -> None:
    (found,) = run_corrections(settings)
    assert found.name == ""
    assert next(iter(settings)) in found.settings
    assert math.isnan(found.high) or found.low > found.high


def test_question_recomputes_with_the_bounds_of_the_run(tmp_path: Path) -> None:
    masked_run(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(
        json.dumps(
            {"algorithm": {"rollout_is": "token", "rollout_is_threshold": 1.01, "rollout_rs": "seq_max_k2"}}
        )
    )
    with open_run(tmp_path / "run", follow=False) as run:
        table = run.ask("corrections")
        rows = {row["correction"]: row for row in table.document()["rows"]}
        given = run.ask("corrections", name="tis", high=4.0).document()["rows"]
        taken = run.ask("taken_away", name="tis").about
    assert (rows["tis"]["low"], rows["tis"]["high"]) == (0.0, 1.01)
    assert "rollout_is_threshold = 1.01" in rows["tis"]["settings"]
    assert rows["mis"]["settings"] is None
    assert rows["mis"]["high"] == 3.0
    assert "seq_max_k2" in table.about["not_recomputed"][0]
    assert given[0]["high"] == 4.0
    assert taken["changed"] == pytest.approx(rows["tis"]["changed"])


def test_a_bound_of_zero_is_named_and_not_divided_by() -> None:
    (found,) = run_corrections({"rollout_rs": "sequence", "rollout_rs_threshold": 0})
    assert found.name == ""
    assert "rollout_rs_threshold = 0" in found.settings
