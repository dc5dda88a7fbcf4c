"""Evaluations that only the name of their folder tells apart: verl's validation, AReaL's eval-rollout."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.app.board.opened_runs import most_useful
from rlpanel.cli.commands import app
from rlpanel.sources.discovery.directory import discover
from rlpanel.sources.discovery.file_names import names_evaluation
from rlpanel.store.index.summary_store import SummaryStore
from tests.factories import append


@pytest.mark.parametrize(
    "name",
    [
        *("val", "validation", "eval", "Eval", "evals", "evaluation", "val2", "val_500"),
        *(
            "eval-rollout",
            "val_generations",
            "validation_data",
            "rollouts_val",
            "exp1-eval",
            "exp.validation",
        ),
    ],
)
def test_folders_of_evaluations(name: str) -> None:
    assert names_evaluation(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "train",
            "rollouts",
            "value_loss",
            "evaluator",
            "retrieval",
            "validate_me",
            "medieval",
            "exp_value",
        ),
        *(
            "no_eval",
            "with-eval",
            "exp_no_eval",
            "exp-without-val",
            "train_and_eval",
            "eval_beside_train",
            "eval.training",
            "_eval",
            "",
        ),
    ],
)
def test_folders_of_training(name: str) -> None:
    assert not names_evaluation(name)


def write_verl(folder: Path, score: float, **more: object) -> Path:
    """Write files of verl's trainer: ``rollout_data_dir`` and ``validation_data_dir`` hold the same lines."""
    folder.mkdir(parents=True)
    for step in (1, 2):
        lines = [
            {"input": f"p{at}", "output": "r", "score": score, "step": step, **more} for at in range(300)
        ]
        append(folder / f"{step}.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    return folder


def write_areal(folder: Path) -> Path:
    for version in (1, 2):
        (folder / str(version)).mkdir(parents=True)
        sample = {
            "task_id": version,
            "prompt": "p",
            "completion": "c",
            "tail_version": version,
            "reward": 1.0,
        }
        append(folder / str(version) / "7.jsonl", json.dumps(sample).encode() + b"\n")
    return folder


def splits(folder: Path) -> dict[str, int]:
    with rlpanel.open_run(folder, follow=False) as run:
        return run.splits


def test_verls_validation_and_areals_eval_rollout_are_evaluations(tmp_path: Path) -> None:
    assert splits(write_verl(tmp_path / "verl" / "train", 0.5)) == {"train": 600}
    assert splits(write_verl(tmp_path / "verl" / "val_generations", 1.0)) == {"eval": 600}
    assert splits(write_areal(tmp_path / "areal" / "rollout")) == {"train": 2}
    assert splits(write_areal(tmp_path / "areal" / "eval-rollout")) == {"eval": 2}


def test_a_format_with_evaluations_beside_training_keeps_its_training(tmp_path: Path) -> None:
    table = {"step": [1, 1], "prompt": ["p", "p"], "completion": ["a", "b"], "Format": [0.0, 1.0]}
    folder = tmp_path / "eval_run"
    folder.mkdir()
    append(folder / "completions.jsonl", json.dumps(table | {"advantages": [-1.0, 1.0]}).encode() + b"\n")
    assert splits(folder) == {"train": 2}
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.remarks == ()
    assert [info.split for info in discover(tmp_path)] == [""]


def test_a_split_in_the_lines_comes_first(tmp_path: Path) -> None:
    folder = write_verl(tmp_path / "eval", 0.5, split="train")
    assert splits(folder) == {"train": 600}
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.remarks == ()


def test_commands_say_where_the_split_comes_from(tmp_path: Path) -> None:
    folder = write_verl(tmp_path / "val", 1.0)
    result = CliRunner().invoke(app, ["index", str(folder)])
    assert "Split eval from the folder's name 'val'" in result.stderr
    result = CliRunner().invoke(app, ["steps", str(folder), "--json"])
    about = json.loads(result.stdout)["about"]
    assert (about["split"], [remark["kind"] for remark in about["remarks"]]) == ("eval", ["split"])


def test_the_list_of_runs_tells_them_apart_and_a_page_opens_training(tmp_path: Path) -> None:
    write_verl(tmp_path / "train", 0.5)
    write_verl(tmp_path / "val", 1.0)
    result = CliRunner().invoke(app, ["runs", str(tmp_path), "--json"])
    rows = {row["run"]: (row["split"], row["reward"]) for row in json.loads(result.stdout)["rows"]}
    assert rows == {"train": ("train", 0.5), "val": ("eval", 1.0)}
    opened = most_useful(discover(tmp_path), SummaryStore(), time.time())
    assert opened is not None
    assert opened.name == "train"
    alone = most_useful(discover(tmp_path / "val"), SummaryStore(), time.time())
    assert alone is not None
