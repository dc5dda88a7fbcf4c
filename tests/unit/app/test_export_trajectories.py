"""Samples as trajectories: what is written can be read again, and nothing is lost without a word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import rlpanel
from rlpanel.app.run_export import export_trajectories
from rlpanel.errors import SettingError
from rlpanel.store.query.trajectory_files import TRAJECTORIES
from tests.factories import write_run

DATA = Path(__file__).parents[2] / "data"


def test_atif_is_read_again_with_the_same_samples(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(DATA / "spans" / "trackio.db", run)
    written = export_trajectories(run, tmp_path / "out", TRAJECTORIES["atif"])
    assert (written.files, written.unread, written.media) == (12, 0, 0)
    shown = []
    for folder in (run, tmp_path / "out"):
        with rlpanel.open_run(folder, follow=False) as opened:
            frame = opened.samples().sort_values(["step", "uid"])
            samples = [opened.sample(uid) for uid in frame["uid"]]
        shown.append(
            sorted((each.step, each.group, each.reward, each.prompt, len(each.messages)) for each in samples)
        )
    assert shown[0] == shown[1]
    assert len(shown[0]) == 12


def test_tokens_go_to_the_turn_that_the_mask_names(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "t"},
        {"role": "assistant", "content": "b"},
    ]
    line = {
        "step": 3,
        "messages": messages,
        "response_token_ids": [1, 2, 3, 4, 5],
        "loss_mask": [1, 1, 0, 1, 1],
        "logprobs": [-0.1, -0.2, 0, -0.4, -0.5],
    }
    (run / "a.jsonl").write_text(json.dumps(line) + "\n")
    export_trajectories(run, tmp_path / "out", TRAJECTORIES["atif"])
    document = json.loads(next((tmp_path / "out" / "step_3").iterdir()).read_text())
    turns = [step["metrics"] for step in document["steps"] if step["source"] == "agent"]
    assert [turn["completion_token_ids"] for turn in turns] == [[1, 2], [4, 5]]
    assert [turn["logprobs"] for turn in turns] == [[-0.1, -0.2], [-0.4, -0.5]]
    assert document["steps"][1]["observation"]["results"] == [{"content": "t"}]


def test_a_session_trace_has_a_header_and_a_line_per_message(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    written = export_trajectories(run, tmp_path / "out", TRAJECTORIES["sessions"], samples=3)
    files = sorted((tmp_path / "out").rglob("*.jsonl"))
    assert written.files == len(files) == 3
    head, *rest = map(json.loads, files[0].read_text().splitlines())
    assert (head["type"], head["harness"]) == ("session", "rlpanel")
    assert [line["message"]["role"] for line in rest] == ["user", "assistant"]


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(SettingError, match="has files"):
        export_trajectories(run, tmp_path / "out", TRAJECTORIES["atif"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
