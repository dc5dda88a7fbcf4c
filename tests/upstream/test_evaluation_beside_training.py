"""Evaluations that a trainer writes beside the samples of training, at the same step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rlpanel
from tests.upstream.reading import means, read, splits

Written = Callable[[str], Path]


@pytest.mark.case("ms-swift", "evaluation")
def test_a_second_table_of_a_swift_step_is_an_evaluation(written: Written) -> None:
    folder = written("ms_swift.hf")
    assert splits(folder) == {"train": 8, "eval": 4}
    _, samples = read(folder, "eval")
    assert {(each.step, each.prompt) for each in samples} == {(2, "月?")}
    assert means(folder) == {1: 0.25, 2: 0.25}


@pytest.mark.case("TRL", "evaluation")
def test_a_trl_step_whose_file_may_be_an_evaluations_says_so(written: Written) -> None:
    """TRL's evaluation replaces the file of the step; the trainer's scalars name that step."""
    command = [sys.executable, "-m", "rlpanel", "index", str(written("trl.completions") / "completions")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "may hold evaluation samples" in done.stdout + done.stderr


@pytest.mark.case("AReaL", "evaluation")
def test_areals_folder_of_evaluations_is_eval(written: Written) -> None:
    assert splits(written("areal.tasks") / "eval-rollout") == {"eval": 2}
    assert splits(written("areal.tasks") / "rollout") == {"train": 4}


@pytest.mark.case("verl", "evaluation")
def test_verls_folder_of_validations_is_eval(written: Written) -> None:
    folder = written("verl.dump")
    assert splits(folder / "validation") == {"eval": 6}
    assert splits(folder / "rollout") == {"train": 12}
    names = {info.name for info in rlpanel.discover(folder)}
    assert names <= {".", "rollout", "validation"}
