"""Output of Harbor's verifier beside the trajectory; the files are at the places that Harbor's paths name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import rlpanel
from rlpanel.sources.adapters.harbor import verifier_outputs

HARBOR = Path(__file__).parents[3] / "data" / "upstream" / "harbor-0.26.0"


def test_the_test_log_is_beside_the_trajectory_and_failed_tests_come_first() -> None:
    with rlpanel.open_run(HARBOR, follow=False).split("eval") as run:
        sample = run.sample("hello__bbbbbbb/agent/trajectory.json:0")
        step = next(run.sample(uid) for uid in run.snapshot.uids(run.snapshot.alive_rows) if "/first/" in uid)
        counts = run.snapshot.number("verifier_outputs")[run.snapshot.row(sample.uid)]
    assert [*sample.verifier] == ["ctrf.json", "test-stdout.txt", "reward.txt"]
    lines = sample.verifier["ctrf.json"].splitlines()
    assert lines[0] == "2 tests: 1 passed, 1 failed"
    assert lines[1].startswith("✗ test_outputs.py::test_hello_content")
    assert "AssertionError" in sample.verifier["test-stdout.txt"]
    assert counts == 3
    assert step.verifier["test-stdout.txt"] == "first step: ok\n"


def test_a_trial_without_the_folder_has_no_output() -> None:
    assert verifier_outputs(str(HARBOR / "hello__ccccccc")) == {}


def test_links_are_left_out_long_logs_are_cut_and_a_broken_report_stays_text(tmp_path: Path) -> None:
    folder = tmp_path / "verifier"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    os.symlink(tmp_path / "secret.txt", folder / "link.txt")
    (folder / "test-stdout.txt").write_text("a" * 250_000 + "the end")
    (folder / "ctrf.json").write_text("{not json")
    (folder / "empty.txt").write_text("")
    (folder / "odd.bin").write_bytes(b"\0")
    found = verifier_outputs(str(tmp_path))
    assert [*found] == ["ctrf.json", "test-stdout.txt", "empty.txt"]
    assert found["ctrf.json"] == "{not json"
    assert found["empty.txt"] == "[empty]"
    assert "50,007 characters left out" in found["test-stdout.txt"]
    assert found["test-stdout.txt"].endswith("the end")


def test_a_report_without_tests_and_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "verifier").mkdir(parents=True)
    (tmp_path / "a" / "verifier" / "ctrf.json").write_text(json.dumps({"results": {"summary": {"tests": 0}}}))
    assert verifier_outputs(str(tmp_path / "a")) == {"ctrf.json": "0 tests: none ran"}
    (tmp_path / "b").mkdir()
    os.symlink(tmp_path / "a" / "verifier", tmp_path / "b" / "verifier")
    assert all("cannot be read" in text for text in verifier_outputs(str(tmp_path / "b")).values())
