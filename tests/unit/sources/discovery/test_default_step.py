"""A step for files that give none: by an option, a setting, or rlpanel.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.commands import app
from rlpanel.errors import RunNotFound, SettingError
from rlpanel.settings import Reading
from tests.factories import append

NATIVE: dict[str, Any] = {"prompt": "2+2?", "response": "4", "reward": 1.0}
ODD: dict[str, Any] = {"q": "2+2?", "a": "4", "mark": 1.0}
MAP = "prompt=q,response=a,reward=mark"
GYM: dict[str, Any] = {
    "responses_create_params": {"input": [{"role": "user", "content": "2+2?"}]},
    "response": {
        "incomplete_details": None,
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
        ],
    },
    "reward": 1.0,
}


def put(path: Path, *documents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def steps(folder: Path) -> list[int]:
    with rlpanel.open_run(folder, follow=False) as run:
        return sorted(run.samples()["step"].tolist())


@pytest.mark.parametrize("step", [0, 7, -1])
def test_files_without_a_step_get_the_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    put(tmp_path / "results.jsonl", NATIVE, NATIVE)
    monkeypatch.setenv("RLPANEL_STEP", str(step))
    assert steps(tmp_path) == [step, step]


def test_it_is_that_of_a_mapping_with_this_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "results.jsonl", ODD)
    monkeypatch.setenv("RLPANEL_MAP", f"{MAP},step=4")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        before = run.samples().to_dict()
    monkeypatch.setenv("RLPANEL_MAP", MAP)
    monkeypatch.setenv("RLPANEL_STEP", "4")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples().to_dict() == before


def test_a_step_in_the_line_or_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_STEP", "9")
    put(tmp_path / "native" / "log.jsonl", NATIVE | {"step": 3})
    put(tmp_path / "named" / "step_5" / "log.jsonl", NATIVE)
    put(tmp_path / "gym" / "step_6" / "rollouts.jsonl", GYM)
    found = [steps(tmp_path / name) for name in ("native", "named", "gym")]
    assert found == [[3], [5], [6]]


def test_formats_that_know_no_step_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "rollouts.jsonl", GYM)
    assert steps(tmp_path) == [0]
    monkeypatch.setenv("RLPANEL_STEP", "9")
    assert steps(tmp_path) == [9]


def test_a_file_of_the_folder_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "results.jsonl", NATIVE)
    (tmp_path / "rlpanel.toml").write_text("step = 2\n")
    monkeypatch.setenv("RLPANEL_STEP", "9")
    assert steps(tmp_path) == [2]
    (tmp_path / "rlpanel.toml").write_text("step = 2.5\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert any("step must be an integer" in problem for problem in run.snapshot.problems)


def test_a_step_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("first", str(2**53)):
        monkeypatch.setenv("RLPANEL_STEP", text)
        with pytest.raises(SettingError):
            Reading.from_environment()


def test_other_files_stay_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "data.jsonl", {"text": "a", "label": 1})
    monkeypatch.setenv("RLPANEL_STEP", "0")
    with pytest.raises(RunNotFound):
        rlpanel.open_run(tmp_path, follow=False)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "--step") for command in ("index", "check", "findings")),
        *((command, "--default-step") for command in ("steps", "samples", "prompts")),
    ],
)
def test_each_reading_command_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    put(tmp_path / "results.jsonl", NATIVE)
    monkeypatch.setenv("RLPANEL_STEP", "")  # is set by the command, and removed after the test
    monkeypatch.delenv("RLPANEL_STEP")
    done = CliRunner().invoke(app, [command, str(tmp_path), option, "7", "--json"])
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)
