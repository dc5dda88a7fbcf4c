"""What the numbers leave out is counted and said by one function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.commands import app
from rlpanel.queries.catalogue import QUESTIONS
from rlpanel.settings import CacheLimits, Reading, StoreLimits
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.left_out import Omissions, left_out
from tests.factories import append

SAMPLE: dict[str, Any] = {"prompt": "q", "response": "a", "reward": 0.5}
SENTENCE = "4 of 9 samples are excluded: 4 of older attempts (restarted at step 2; the newest attempt counts)"


def restarted(folder: Path) -> Path:
    """A run of 5 samples that count: it went back from step 5 to step 2, and a line is cut."""
    folder.mkdir(parents=True)
    for index, step in enumerate([1, 2, 3, 4, 5, 2, 3, 4, 5]):
        append(folder / "log.jsonl", json.dumps(SAMPLE | {"step": step, "number": index}).encode() + b"\n")
    append(folder / "log.jsonl", b'{"step": 6, \n')
    return folder


def test_the_counts_are_one_sentence() -> None:
    left = Omissions(
        10, older_attempts=3, duplicates=1, discarded=2, bad_lines=1, unread_files=2, restarts=(4, 9)
    )
    assert left.sentence == (
        "6 of 16 samples are excluded: 3 of older attempts (restarted at steps 4, 9; the newest attempt "
        "counts), 1 logged twice, 2 discarded, as failed or not trained on; 1 bad line left out; "
        "2 files not read"
    )
    assert (Omissions(7).sentence, Omissions(7).listed) == ("", {})


@pytest.mark.parametrize("command", ["index", "steps", "samples", "groups", "findings", "check", "prompts"])
def test_commands_say_what_is_left_out(tmp_path: Path, command: str) -> None:
    run = restarted(tmp_path / "run")
    text = CliRunner().invoke(app, [command, str(run)])
    assert f"{SENTENCE}; 1 bad line left out\n" in text.stderr
    answer = json.loads(CliRunner().invoke(app, [command, str(run), "--json"]).stdout)
    left = (answer.get("about") or answer)["left_out"]
    assert (left["older_attempts"], left["bad_lines"], left["restarts"]) == (4, 1, [2])


@pytest.mark.parametrize("kind", ["--html", "--jsonl"])
def test_an_export_says_it_too(tmp_path: Path, kind: str) -> None:
    done = CliRunner().invoke(app, ["export", str(restarted(tmp_path / "run")), kind, str(tmp_path / "out")])
    assert f"{SENTENCE}; 1 bad line left out\n" in done.stderr


def test_the_list_of_runs_counts_excluded_samples(tmp_path: Path) -> None:
    restarted(tmp_path / "run")
    (row,) = QUESTIONS["runs"](tmp_path).rows
    assert (row["samples"], row["excluded"]) == (5, 4)


def test_python_says_what_is_left_out(tmp_path: Path) -> None:
    with rlpanel.open_run(restarted(tmp_path / "run"), follow=False) as run:
        assert run.left_out.sentence == f"{SENTENCE}; 1 bad line left out"
        assert run.left_out.excluded == 4


def test_a_run_in_which_all_counts_says_nothing(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", json.dumps(SAMPLE | {"step": 1}).encode() + b"\n")
    assert CliRunner().invoke(app, ["steps", str(tmp_path)]).stderr == ""
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.ask("steps").about["left_out"] == {}


def test_a_split_counts_what_was_discarded_from_it(tmp_path: Path) -> None:
    for index, split in enumerate(["train", "discarded", "eval", "discarded eval", "discarded"]):
        document = SAMPLE | {"step": 1, "split": split, "number": index}
        append(tmp_path / "log.jsonl", json.dumps(document).encode() + b"\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        counts = [run.split(name).left_out.discarded for name in ("train", "eval")]
        assert (counts, run.left_out.discarded) == ([2, 1], 0)


def test_padding_is_counted_also_when_a_backlog_is_read_and_from_the_index(tmp_path: Path) -> None:
    verl: dict[str, Any] = {"input": "q", "output": "a", "score": 1.0, "step": 1}
    padding = [verl | {"uid": f"pad{index:032x}_0_0"} for index in range(3)]
    for index, document in enumerate([verl | {"uid": "x_0_0"}, *padding] * 2):
        append(tmp_path / "1.jsonl", json.dumps(document | {"number": index}).encode() + b"\n")
    limits = StoreLimits(cache=CacheLimits(min_log_bytes=0))
    for reading in (Reading(jobs=0, backlog_bytes=1), Reading(jobs=0)):
        index = RunIndex(tmp_path, "run", reading, limits=limits)
        index.rescan()
        while index.read():
            pass
        index.read_last_lines()
        found = left_out(index.snapshot)
        assert (index.snapshot.rows, found.empty_lines) == (2, 6)
        assert found.sentence == "6 lines without a sample, such as padding"
        index.close()
    assert (tmp_path / ".rlpanel").is_dir()
