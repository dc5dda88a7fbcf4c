"""The table of runs has the settings of all configuration files in a run's folder, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

from rlpanel.store.index.run_folder import MAX_SETTINGS, run_settings
from rlpanel.store.index.run_summary import parse_summary, summary_text
from rlpanel.store.index.summary_store import SummaryStore
from tests.factories import write_run
from tests.unit.store.index.test_run_summary import read


def test_settings_of_files_and_of_the_launch_command_stand_in_the_summary(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=2)
    (folder / "run.json").write_text(json.dumps({"learning_rate": 1e-6}))
    (folder / "config.yaml").write_text("learning_rate: 2.0e-6\nactor:\n  optim:\n    warmup: 10\n")
    (folder / "run.sh").write_text("python -m train --beta 0.04 --hub_token hf_abcdefghijklmnopqrst\n")
    index = read(folder)
    config = index.summaries.of(folder).config
    assert config["learning_rate"] == 1e-6  # run.json is that of the training itself
    assert config["actor.optim.warmup"] == 10.0
    assert config["beta"] == 0.04
    assert not [name for name, value in config.items() if "token" in name or "hf_" in str(value)]


def test_a_saved_summary_has_the_settings_of_files(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=2)
    (folder / "config.yaml").write_text("seed: 3\n")
    summary = read(folder).summaries.of(folder)
    assert parse_summary(summary_text(summary)) == summary
    assert summary.config["seed"] == 3.0
    assert SummaryStore().of(folder).config == {}


def test_many_settings_are_cut_and_those_of_the_run_json_stay(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({f"key{at}": at for at in range(2 * MAX_SETTINGS)}))
    found = run_settings({"lr": 1e-6}, tmp_path, None)
    assert len(found) == MAX_SETTINGS
    assert found["lr"] == 1e-6


def test_the_session_of_a_recording_is_no_setting(tmp_path: Path) -> None:
    logged = {"lr": 1e-6, "session": "1a-1", "not_recorded": "no logprobs", "data": {"session": 3}}
    assert run_settings(logged, tmp_path, None) == {"lr": 1e-6, "data.session": 3.0}
