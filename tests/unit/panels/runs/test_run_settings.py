"""The settings in which runs differ are found in their configuration and in their paths."""

from __future__ import annotations

import pytest

from rlpanel.panels.runs.run_rows import differing, setting_text, settings_in_path, settings_of_run
from rlpanel.store.index.run_folder import Setting


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("math/lr3e-6-seed2", {"lr": 3e-6, "seed": 2.0}),
        ("beta=0.01/seed_10", {"beta": 0.01, "seed": 10.0}),
        ("topk=5,clip0.2", {"topk": 5.0, "epsilon": 0.2}),
        ("qwen2.5-7b/run-17/2026-11-27", {}),
        ("lr/seed", {}),
    ],
)
def test_a_path_spells_out_settings(label: str, found: dict[str, Setting]) -> None:
    assert settings_in_path(label) == found


def test_the_configuration_precedes_the_path() -> None:
    found = settings_of_run({"learning_rate": 1e-5, "optim.lr": 1e-5, "loss.type": "dapo"}, "lr3e-6-seed2")
    assert found == {"lr": 1e-5, "seed": 2.0, "optim.lr": 1e-5, "loss.type": "dapo"}


def test_only_settings_with_several_values_tell_runs_apart() -> None:
    runs: list[dict[str, Setting]] = [
        {"lr": 1e-6, "seed": 1.0, "use_vllm": True, "name": "a", "model": "m1", "note": "x"},
        {"lr": 2e-6, "seed": 1.0, "use_vllm": False, "name": "b", "model": "m1", "note": "y"},
        {"lr": 2e-6, "use_vllm": False, "name": "c", "model": "m2", "note": "z"},
    ]
    assert differing(runs) == ["lr", "model", "use_vllm"]


def test_the_settings_to_look_at_first_come_first() -> None:
    runs: list[dict[str, Setting]] = [
        {"x": 1.0, "seed": 1.0, "beta": 0.1, "lr": 1.0},
        {"x": 2.0, "seed": 2.0, "beta": 0.2, "lr": 2.0},
    ]
    assert differing(runs) == ["lr", "beta", "seed", "x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3e-6, "3e-6"), (0.04, "0.04"), (1.0, "1"), (1e20, "1e20"), (True, "on"), ("dapo", "dapo"), (None, "")],
)
def test_settings_are_written_as_people_write_them(value: Setting | None, text: str) -> None:
    assert setting_text(value) == text
