"""The folder of a run lists its files, or says why it cannot, and knows what may be hidden in it."""

from __future__ import annotations

from pathlib import Path

from rlpanel.settings import Reading
from rlpanel.store.index.run_folder import RunFolder
from tests.factories import write_run
from tests.unit.sources.readers.faults import public_folder, unreadable

RANK0 = "rollout_data_rank_0.jsonl"


def run_folder(path: Path) -> RunFolder:
    return RunFolder(path, path, Reading(cache=False))


def test_the_rollout_files_are_listed_by_name(tmp_path: Path) -> None:
    folder = run_folder(write_run(tmp_path / "run", ranks=2))
    assert sorted(folder.list_files() or ()) == [RANK0, "rollout_data_rank_1.jsonl"]
    assert (folder.problem, folder.config_problem, folder.inaccessible) == ("", "", [])


def test_a_folder_that_is_gone_is_a_problem_until_it_is_back(tmp_path: Path) -> None:
    folder = run_folder(write_run(tmp_path / "run"))
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert folder.list_files() is None
    assert folder.problem == "the run's folder is gone; its last state is shown"
    (tmp_path / "elsewhere").rename(tmp_path / "run")
    assert folder.list_files()
    assert folder.problem == ""


def test_a_folder_replaced_by_a_link_is_not_read(tmp_path: Path) -> None:
    folder = run_folder(write_run(tmp_path / "run"))
    (tmp_path / "run").rename(tmp_path / "before")
    (tmp_path / "run").symlink_to(write_run(tmp_path / "other"))
    assert folder.list_files() is None
    assert folder.problem == "the path of the run's folder leads elsewhere now; its last state is shown"


def test_an_error_in_the_folders_configuration_is_told(tmp_path: Path) -> None:
    folder = run_folder(write_run(tmp_path / "run"))
    (tmp_path / "run" / "rlpanel.toml").write_text("tokenizer = [")
    assert folder.list_files()
    assert "rlpanel.toml" in folder.config_problem


def test_files_below_a_folder_that_cannot_be_listed_are_hidden_not_gone() -> None:
    with public_folder() as root:
        folder = run_folder(write_run(root))
        (root / "rollouts").mkdir()
        with unreadable(root / "rollouts"):
            listed = folder.list_files()
    assert listed is not None
    assert (folder.hides("rollouts/1.jsonl"), folder.hides(RANK0)) == (True, False)
