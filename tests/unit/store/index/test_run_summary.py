"""Summaries of runs for lists: right, noted while a run is read, and saved beside its columns."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import discover
from rlpanel.store.cache.run_cache import save_text
from rlpanel.store.index.run_folder import settings_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.run_summary import FILE, TREND_POINTS, VERSION, RunSummary
from rlpanel.store.index.summary_store import SummaryStore, last_prompts, most_shared, summarize
from tests.factories import append, line, write_run
from tests.limits import SAVED

LOG = "rollout_data_rank_0.jsonl"
LATER = 4e9


def read(folder: Path, reading: Reading | None = None) -> RunIndex:
    index = RunIndex(folder, "run", reading, limits=SAVED)
    index.rescan()
    while index.read():
        pass
    return index


def saved_summary(index: RunIndex) -> RunSummary:
    """Return what the next process knows of a run before it reads it."""
    restarted = SummaryStore()
    list(restarted.read_saved([index.path]))
    return restarted.of(index.path)


def rewards(folder: Path, *by_step: float | None) -> Path:
    folder.mkdir()
    for step, reward in enumerate(by_step, start=1):
        append(folder / LOG, line(step, index=0, reward=reward), line(step, index=1, reward=reward))
    return folder


def test_a_summary_is_that_of_the_files(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 0.25, 1.5, -3.0)
    index = read(folder)
    summary = index.summaries.of(index.path)
    status = (folder / LOG).stat()
    assert (summary.samples, summary.bytes, summary.complete) == (6, status.st_size, True)
    assert summary.newest_line == pytest.approx(status.st_mtime, abs=0.01)
    settled = summarize(index.snapshot, LATER)
    assert (settled.step, settled.reward, settled.trend) == (3, -3.0, (0.25, 1.5, -3.0))


def test_a_summary_follows_the_run(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0))
    append(index.path / LOG, line(2, reward=2.0))
    index.rescan()
    index.read()
    summary = index.summaries.of(index.path)
    assert summary.samples == 3


def test_a_long_trend_is_the_means_of_equal_parts(tmp_path: Path) -> None:
    values = [float(step % 7) for step in range(3 * TREND_POINTS)]
    summary = summarize(read(rewards(tmp_path / "run", *values)).snapshot, LATER)
    expected = np.reshape(values, (TREND_POINTS, 3)).mean(axis=1)
    np.testing.assert_allclose(summary.trend, expected, rtol=1e-5)


def test_a_step_that_is_being_written_is_not_the_last_reward(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=8, reward=1.0)
    append(folder / LOG, line(4, reward=50.0))
    snapshot = read(folder).snapshot
    writing = summarize(snapshot, snapshot.newest_line)
    assert (writing.step, writing.reward) == (3, 1.0)


def test_rewards_that_were_not_logged_are_no_zeros(tmp_path: Path) -> None:
    summary = summarize(read(rewards(tmp_path / "none", None, None)).snapshot, LATER)
    assert (summary.samples, summary.reward, summary.trend) == (4, None, ())
    gap = summarize(read(rewards(tmp_path / "gap", 1.0, None, 3.0)).snapshot, LATER)
    assert (gap.reward, gap.trend) == (3.0, (1.0, 3.0))


def test_samples_of_all_splits_are_counted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    append(tmp_path / "run" / LOG, line(1), line(1, index=1, split="eval"), line(1, index=2, split="eval"))
    summary = summarize(read(tmp_path / "run").snapshot, LATER)
    assert summary.samples == 3


def test_a_run_without_samples_has_an_empty_summary(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 1.0)
    index = read(folder)
    assert index.summaries.of(index.path).samples
    (folder / LOG).unlink()
    index.rescan()
    index.read()
    assert index.summaries.of(index.path) == RunSummary()


def test_summaries_are_saved_beside_the_columns_and_read_by_the_next_process(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 0.25, 1.5), Reading(cache=True))
    index.save(last=True)
    before, restarted = index.summaries.of(index.path), SummaryStore()
    assert restarted.of(index.path) == RunSummary()
    assert list(restarted.read_saved([index.path, tmp_path / "other"])) == [2]
    assert before.samples
    assert restarted.of(index.path) == before
    assert restarted.of(tmp_path / "other") == RunSummary()


def test_a_run_that_is_not_saved_gets_no_folder(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=False))
    index.save(last=True)
    assert [path.name for path in index.path.iterdir()] == [LOG]


CHECKED = RunSummary(6, 3, 1.0, (0.5, 1.0), True, 9, 5.0, "train", "", "alarm", "x", 3)
GOOD = {"version": VERSION, **asdict(CHECKED)}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 60_000, "x" * 60_000),
        json.dumps({**GOOD, "version": VERSION + 1}),
        json.dumps({**GOOD, "other": 1}),
        *(json.dumps({key: GOOD[key] for key in GOOD if key != name}) for name in GOOD),
        *(
            json.dumps({**GOOD, name: value})
            for name, values in {
                "samples": ("many", -1, True, 1.5),
                "step": ("1", None, 10.0),
                "reward": (float("nan"), "1", True),
                "trend": ([float("inf"), 1.0], None, "ab", [1.0] * (TREND_POINTS + 1)),
                "complete": (1,),
                "split": (None, 3),
                "severity": ("red", 1),
                "finding": (3, None, "x" * 2000),
                "checked": ("1", None),
                "onset": ("1", 1.5),
                "error": (float("inf"), "1"),
                "alarms": (None, "2"),
                "config": (None, ["lr"], {"lr": [1]}, {"lr": float("nan")}, {"lr": "x" * 99}),
            }.items()
            for value in values
        ),
    ],
)
def test_a_damaged_summary_is_ignored(tmp_path: Path, text: str) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    assert save_text(index.path, FILE, text)
    assert saved_summary(index) == RunSummary()


def test_a_saved_summary_is_read_whole(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    assert save_text(index.path, FILE, json.dumps(GOOD))
    assert saved_summary(index) == CHECKED


def test_a_run_that_is_read_keeps_the_saved_finding(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    assert save_text(index.path, FILE, json.dumps(GOOD))
    summary = read(index.path).summaries.of(index.path)
    assert (summary.samples, summary.severity, summary.finding, summary.checked) == (2, "alarm", "x", 3)


def test_files_of_older_versions_are_removed(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    old = ("facts", "findings", "checks")
    for name in old:
        (index.path / ".rlpanel" / name).write_text("{}")
    append(index.path / LOG, line(2, reward=2.0))
    read(index.path, Reading(cache=True)).save(last=True)
    assert {path.name for path in (index.path / ".rlpanel").iterdir()} & {
        "facts",
        "findings",
        "checks",
    } == set()


def test_what_the_process_knows_is_not_replaced_by_what_was_saved(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    summary = index.summaries.of(index.path)
    newer = replace(summary, samples=99)
    index.summaries.note(index.path, newer)
    list(index.summaries.read_saved([index.path]))
    assert index.summaries.of(index.path) == newer


def test_a_summary_has_the_numbers_of_its_step(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lines = [line(2, index=at, reward=value, tokens=False) for at, value in enumerate((0.0, 1.0, 1.0, 1.0))]
    append(tmp_path / "run" / LOG, line(1, index=9, reward=5.0), *lines)
    snapshot = read(tmp_path / "run").snapshot
    summary = summarize(snapshot, LATER)
    assert (summary.first, summary.step, summary.reward) == (1, 2, 0.75)
    assert summary.error == pytest.approx(0.25)
    rows = snapshot.rows_of(2)
    expected = snapshot.number("response_chars")[rows].mean()  # step 2 has no tokens
    assert summary.length == pytest.approx(expected, rel=1e-5)
    assert summary.kl is None


def test_the_configuration_is_that_of_the_run_json(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=2)
    content = {
        "learning_rate": 3e-6,
        "use_vllm": True,
        "loss": {"type": "dapo"},
        "weights": [1, 2],
        "x": "y" * 99,
    }
    (folder / "run.json").write_text(json.dumps(content))
    summary = read(folder).summaries.of(folder)
    assert summary.config == {
        "learning_rate": 3e-6,
        "use_vllm": True,
        "loss.type": "dapo",
        "weights": "[1, 2]",
    }


def test_a_secret_of_the_run_json_is_in_no_summary() -> None:
    content = {"lr": 1e-5, "wandb_api_key": "abcdefgh", "hub": {"token": "hf_abcdefghijklmnop", "retries": 2}}
    assert settings_of(content) == {"lr": 1e-5, "hub.retries": 2.0}


def test_a_check_of_another_process_gives_an_open_run_its_findings_only(tmp_path: Path) -> None:
    summaries, found = SummaryStore(), replace(CHECKED, samples=1, onset=2, alarms=1)
    summaries.note(tmp_path, RunSummary(samples=9, step=4))
    summaries.note_check(tmp_path, found, is_open=True)
    known = summaries.of(tmp_path)
    assert (known.samples, known.step, known.severity, known.onset) == (9, 4, "alarm", 2)
    summaries.note_check(tmp_path, found, is_open=False)
    assert summaries.of(tmp_path) == found


def test_the_run_whose_last_lines_share_most_prompts_is_found(tmp_path: Path) -> None:
    for name, prompts in {"own": "abcd", "one": "axyz", "most": "abcz", "none": "uvwx"}.items():
        (tmp_path / name).mkdir()
        append(tmp_path / name / LOG, *(line(1, index=at, prompt=text) for at, text in enumerate(prompts)))
    runs = {run.name: run for run in discover(tmp_path)}
    own = read(tmp_path / "own").snapshot.prompts()
    assert sorted(own.tolist()) == last_prompts(runs["own"]).tolist()
    assert list(most_shared(own, [runs["none"], runs["one"], runs["most"]])) == ["most"]
    assert list(most_shared(own, [runs["none"]])) == [""]
    assert list(most_shared(own, [])) == [""]
