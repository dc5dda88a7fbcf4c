"""A run has one reward wherever it is opened: ``run.json`` and ``rlpanel.toml`` of its parent count."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.commands import app
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import discover
from rlpanel.sources.files.file_access import path_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.summary_store import newest_step
from tests.factories import append
from tests.unit.sources.discovery.test_folder_config import TOML, line, look, vocabulary
from tests.unit.store.snapshot.test_remarks import TRAINED, write_state, write_trl


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """A TRL run in the layout of its output folder, with the recorder's ``run.json`` in the parent."""
    write_trl(tmp_path / "exp" / "completions", TRAINED)  # the mean of the only reward function is 0.75
    (tmp_path / "exp" / "run.json").write_text('{"reward_weights": {"accuracy": 0.5}}')
    return tmp_path / "exp"


def logged(folder: Path) -> Path:
    """Write a line that needs a mapping."""
    folder.mkdir(parents=True)
    append(folder / "log.jsonl", line())
    return folder


def commands(*arguments: object) -> list[dict]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["rows"]


@pytest.mark.parametrize("root", ["..", ".", "completions"])
def test_the_reward_is_the_same_from_every_folder(experiment: Path, root: str) -> None:
    folder = experiment / root
    assert [row["reward_mean"] for row in commands("steps", folder)] == [0.375] * 4
    assert [row["reward"] for row in commands("runs", folder)] == [0.375]
    pool = RunPool(path_of(folder.resolve()))
    try:
        assert pool.run("").steps["reward_mean"].tolist() == [0.375] * 4
    finally:
        pool.close()


def test_the_trainers_log_of_the_parent_counts_as_well(experiment: Path) -> None:
    write_state(experiment, {"step": 2, "eval_reward": 0.25})
    for folder in (experiment, experiment / "completions"):
        with rlpanel.open_run(folder, follow=False) as run:
            assert [remark.steps for remark in run.remarks] == [(2,)]


def test_a_toml_of_the_parent_maps_the_run_that_is_opened_itself(tmp_path: Path) -> None:
    logged(tmp_path / "exp" / "train")
    (tmp_path / "exp" / "rlpanel.toml").write_text(TOML)
    (row,) = commands("runs", tmp_path)
    assert (row["run"], row["step"], row["reward"]) == ("exp/train", 3, 0.5)
    assert [row["reward_mean"] for row in commands("steps", tmp_path / "exp" / "train")] == [0.5]


def test_the_list_of_runs_uses_a_toml_far_above_a_run(tmp_path: Path) -> None:
    logged(tmp_path / "a" / "b" / "train")
    (tmp_path / "rlpanel.toml").write_text(TOML)
    (info,) = discover(tmp_path)
    assert newest_step(info, Reading()) == (3, 0.5)
    (row,) = commands("runs", tmp_path)
    assert (row["run"], row["step"], row["reward"]) == ("a/b/train", 3, 0.5)


def test_only_the_parent_counts_above_the_folder_that_is_opened(tmp_path: Path) -> None:
    write_trl(tmp_path / "exp" / "completions" / "deep", TRAINED)
    (tmp_path / "exp" / "run.json").write_text('{"reward_weights": {"accuracy": 0.5}}')
    (tmp_path / "exp" / "rlpanel.toml").write_text("[reward_weights]\naccuracy = 0.25\n")
    found = commands("steps", tmp_path / "exp" / "completions" / "deep")
    assert [row["reward_mean"] for row in found] == [0.75] * 4


# -- security ----------------------------------------------------------------------------------------


def problems(run: Path) -> str:
    return "; ".join(look(RunIndex(run, "run")).snapshot.problems)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "exp" / "run").mkdir(parents=True)
    append(tmp_path / "exp" / "run" / "rank_0.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
    vocabulary(tmp_path / "exp" / "tokenizer.json")
    return tmp_path / "exp" / "run"


def test_a_parents_toml_that_others_can_write_names_no_tokenizer_outside_of_the_run(run: Path) -> None:
    toml = run.parent / "rlpanel.toml"
    toml.write_text('tokenizer = "tokenizer.json"\n')
    toml.chmod(0o666)
    assert "it names a tokenizer outside of" in problems(run)
    toml.chmod(0o644)
    assert problems(run) == ""


def test_a_link_in_the_parent_is_not_followed(run: Path) -> None:
    (run.parent / "elsewhere.json").write_text('{"reward_weights": {"accuracy": 0.5}}')
    (run.parent / "run.json").symlink_to("elsewhere.json")
    assert "run.json: is a link" in problems(run)


def test_files_of_strangers_in_the_parent_do_not_count(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``/tmp``, where anyone may put a file beside a run."""
    write_state(experiment, {"step": 2, "eval_reward": 0.25})
    (experiment / "rlpanel.toml").write_text("[reward_weights]\naccuracy = 0.25\n")
    stranger = os.lstat(experiment / "run.json").st_uid + 1
    real = os.lstat

    def foreign(path: object, **options: object) -> os.stat_result:
        status = real(path, **options)  # type: ignore[call-overload]
        if str(path).startswith(f"{experiment}/") and Path(str(path)).parent == experiment:
            return os.stat_result([*status[:4], stranger, *status[5:10]], {"st_mtime_ns": status.st_mtime_ns})
        return status

    monkeypatch.setattr(os, "lstat", foreign)
    with rlpanel.open_run(experiment / "completions", follow=False) as opened:
        assert opened.steps["reward_mean"].tolist() == [0.75] * 4
        assert opened.remarks == ()
        assert "../run.json: belongs to another user" in "; ".join(opened.snapshot.problems)
        assert "../rlpanel.toml: belongs to another user" in "; ".join(opened.snapshot.problems)
    with rlpanel.open_run(experiment, follow=False) as opened:
        assert opened.steps["reward_mean"].tolist() == [0.1875] * 4
