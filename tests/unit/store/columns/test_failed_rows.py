"""Samples that failed through the environment, or were discarded, do not enter the means of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel

#: Status, split and reward of the samples of one step.
ROWS: list[tuple[str | None, str | None, float]] = [
    ("ok", None, 1.0),
    ("timeout", "train", 0.5),
    ("environment_error", None, -9.0),
    ("discarded", "train", -9.0),
    ("environment_error", "eval", -9.0),
    ("ok", "eval", 2.0),
    (None, None, 0.0),
]


def write(folder: Path, *, nested: bool, **constants: Any) -> Path:
    """Write one step, as lines that are read as records (``nested``) or as columns."""
    folder.mkdir()
    for at, (status, split, reward) in enumerate(ROWS):
        row = {"step": 1, "prompt": f"p{at}", "response": "r", "reward": reward, "status": status}
        row |= {"split": split} if split else {}
        row |= {"timing": {"tool": 1.0}} if nested else {}
        with (folder / f"part{at if nested else ''}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    (folder / "run.json").write_text(json.dumps(constants))
    return folder


@pytest.mark.parametrize("nested", [True, False])
def test_failed_samples_are_a_split_of_their_own(tmp_path: Path, nested: bool) -> None:
    with rlpanel.open_run(write(tmp_path / "run", nested=nested), follow=False) as run:
        rewards = {name: sorted(run.split(name).samples()["reward"]) for name in run.view.snapshot.splits}
        steps = run.steps
    assert rewards == {
        "train": [0.0, 0.5, 1.0], "eval": [2.0], "discarded": [-9.0, -9.0], "discarded eval": [-9.0],
    }  # fmt: skip
    assert steps["reward_mean"].tolist() == [0.5]


def test_shares_count_them(tmp_path: Path) -> None:
    with rlpanel.open_run(write(tmp_path / "run", nested=True), follow=False) as run:
        train, evaluation = run.steps.iloc[0], run.split("eval").steps.iloc[0]
    assert (train["environment_error_share"], train["timeout_share"], train["ok_share"]) == (0.25, 0.25, 0.25)
    assert train["discarded_share"] == 2 / 5
    assert (evaluation["environment_error_share"], evaluation["discarded_share"]) == (0.5, 0.5)


@pytest.mark.parametrize("where", ["run.json", "environment"])
def test_a_switch_lets_them_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "environment":
        monkeypatch.setenv("RLPANEL_COUNT_FAILED", "1")
    constants = {"count_failed": 1} if where == "run.json" else {}
    with rlpanel.open_run(write(tmp_path / "run", nested=True, **constants), follow=False) as run:
        assert set(run.view.snapshot.splits) == {"train", "eval"}
        assert run.steps["reward_mean"].tolist() == [np.mean([1.0, 0.5, -9.0, -9.0, 0.0])]


def test_a_run_without_statuses_has_no_shares(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 1, "prompt": "p", "response": "r"}\n')
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert not {"ok_share", "environment_error_share", "discarded_share"} & set(run.steps)
