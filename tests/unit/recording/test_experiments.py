"""The output folder from the environment, and an experiment's folder from its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.recording.output_folder import find_experiment, folder_from_environment


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAVE_ROLLOUT_DATA", "EXP_NAME", "ROLLOUT_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_nothing_is_recorded_unasked() -> None:
    assert folder_from_environment("out") is None


@pytest.mark.parametrize("place", [None, "elsewhere", "elsewhere/rollout_samples"])
def test_the_environment_names_the_folder(place: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "true")
    monkeypatch.setenv("EXP_NAME", "exp1")
    if place:
        monkeypatch.setenv("ROLLOUT_DATA_DIR", place)
    wanted = Path("elsewhere" if place else "out") / "rollout_samples" / "exp1"
    assert folder_from_environment("out") == wanted


def test_a_name_cannot_leave_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "1")
    monkeypatch.setenv("EXP_NAME", "../../x")
    found = folder_from_environment("out")
    assert found is not None
    assert found.parent == Path("out/rollout_samples")


@pytest.mark.parametrize("output", ["", "out", "runs/out"])
def test_an_experiment_is_found_by_its_name(tmp_path: Path, output: str) -> None:
    folder = tmp_path / output / "rollout_samples" / "exp1"
    folder.mkdir(parents=True)
    found, message = find_experiment("exp1")
    assert (found.resolve(), message) == (folder, "")


def test_a_name_nearly_right_is_answered_with_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "rollout_samples" / "couplets-grpo").mkdir(parents=True)
    with pytest.raises(RunNotFound, match="did you mean couplets-grpo"):
        find_experiment("couplet-grpo")


def test_one_name_in_two_places_is_a_question(tmp_path: Path) -> None:
    for output in ("a", "b"):
        (tmp_path / output / "rollout_samples" / "exp1").mkdir(parents=True)
    with pytest.raises(RunNotFound, match="2 experiments 'exp1'"):
        find_experiment("exp1")


def test_an_experiment_to_come_is_waited_for_and_says_what_to_check() -> None:
    found, message = find_experiment("exp1")
    assert found == Path("rollout_samples/exp1")
    assert all(name in message for name in ("SAVE_ROLLOUT_DATA=true", "EXP_NAME=exp1", "ROLLOUT_DATA_DIR"))
