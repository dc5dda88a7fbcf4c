"""Folders of one document each are one run if their names differ only in a number or an id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel import open_run
from rlpanel.sources.discovery.directory import Directory, discover
from rlpanel.sources.discovery.step_folders import shared_name


def _episode(number: int) -> dict[str, object]:
    talk = [{"role": "user", "content": f"Open door {number}"}, {"role": "assistant", "content": "Done."}]
    return {"case": f"door-{number}", "messages": talk, "reward": number / 10}


def _write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    "names",
    [
        ("case_3", "case_17", "case_21"),
        ("0a3f9c1d2b4e", "77aa01bc9d3e", "f00d5eed1234"),
        ("door-1", "door-2", "door-3"),
    ],
)
def test_numbered_folders_of_one_document_are_one_run(tmp_path: Path, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        _write(tmp_path / "eval" / name / "episode.json", _episode(number))
    found = discover(tmp_path)
    assert [(info.name, info.files) for info in found] == [("eval", 3)]
    directory = Directory(tmp_path)
    assert directory.is_run(tmp_path / "eval")
    assert not directory.is_run(tmp_path / "eval" / names[0])
    with open_run(tmp_path / "eval", follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert sorted(rows["reward"]) == [0.0, 0.1, 0.2]
    assert set(rows["step"]) == {0}


@pytest.mark.parametrize(
    "names", [("run_1", "run_2"), ("seed-1", "seed-2"), ("attempt_a", "attempt_b"), ("gpt-4", "gpt-5")]
)
def test_folders_that_name_runs_stay_runs(tmp_path: Path, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        _write(tmp_path / name / "episode.json", _episode(number))
    assert sorted(info.name for info in discover(tmp_path)) == sorted(names)


def test_a_log_of_lines_stays_a_run(tmp_path: Path) -> None:
    for name in ("case_1", "case_2"):
        _write(tmp_path / name / "episodes.jsonl", _episode(1), _episode(2))
    assert sorted(info.name for info in discover(tmp_path)) == ["case_1", "case_2"]


def test_settings_beside_the_document_do_not_count(tmp_path: Path) -> None:
    for number in (4, 9):
        _write(tmp_path / f"case_{number}" / "episode.json", _episode(number))
        _write(tmp_path / f"case_{number}" / "settings.json", {"temperature": 0.7, "seed": number})
    assert [(info.name, info.files) for info in discover(tmp_path)] == [(".", 2)]


def test_documents_of_tasks_in_step_folders_have_the_step(tmp_path: Path) -> None:
    for step in (2, 5):
        for number in (1, 2):
            _write(tmp_path / "ppo" / f"step_{step}" / f"case_{number}" / "episode.json", _episode(number))
    assert [(info.name, info.files) for info in discover(tmp_path)] == [("ppo", 4)]
    with open_run(tmp_path / "ppo", follow=False, jobs=0) as run:
        assert sorted(run.samples()["step"]) == [2, 2, 5, 5]


def test_documents_of_tasks_are_left_out_beside_the_runs_own_file_and_the_run_says_so(tmp_path: Path) -> None:
    for number in (1, 2):
        _write(tmp_path / f"case_{number}" / "episode.json", _episode(number))
    _write(tmp_path / "all.json", [_episode(1), _episode(2)])
    assert [(info.name, info.files) for info in discover(tmp_path)] == [(".", 1)]
    files, unread = Directory(tmp_path).find_files(tmp_path)
    assert [file.name for file in files] == ["all.json"]
    assert [str(each) for each in unread] == [
        "case_1/episode.json: 2 documents in folders of their own; the run's other files may hold the same"
        " samples; open such a folder to see its document"
    ]


def test_a_document_of_many_samples_stays_a_run(tmp_path: Path) -> None:
    for name in ("case_1", "case_2"):
        _write(tmp_path / name / "episodes.json", [_episode(1), _episode(2)])
    assert sorted(info.name for info in discover(tmp_path)) == ["case_1", "case_2"]


def test_documents_of_other_names_stay_runs(tmp_path: Path) -> None:
    _write(tmp_path / "case_1" / "first.json", _episode(1))
    _write(tmp_path / "case_2" / "second.json", _episode(2))
    assert sorted(info.name for info in discover(tmp_path)) == ["case_1", "case_2"]


def test_a_folder_that_is_opened_itself_is_a_run(tmp_path: Path) -> None:
    for number in (1, 2):
        _write(tmp_path / f"case_{number}" / "episode.json", _episode(number))
    assert [info.name for info in discover(tmp_path / "case_1")] == ["."]


@pytest.mark.parametrize(
    ("folder", "shared"),
    [("case_3", "case_"), ("step_3", ""), ("3", ""), ("notes", ""), ("run_3", ""), ("20260105120000", "")],
)
def test_shared_name(folder: str, shared: str) -> None:
    assert shared_name(folder) == shared
