"""Facts of runs for lists: right, noted while a run is read, and saved beside its columns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlpanel.settings import Reading
from rlpanel.store.cache.saved_text import save_text
from rlpanel.store.index import run_facts
from rlpanel.store.index.run_facts import FILE, TREND_POINTS, facts_of, known_facts, read_saved_facts
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.limits import SAVED

LOG = "rollout_data_rank_0.jsonl"
LATER = 4e9


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget all facts, and save the columns of small runs."""
    monkeypatch.setattr(run_facts, "_facts", {})


def read(folder: Path, reading: Reading | None = None) -> RunIndex:
    index = RunIndex(folder, "run", reading, limits=SAVED)
    index.rescan()
    while index.read():
        pass
    return index


def rewards(folder: Path, *by_step: float | None) -> Path:
    folder.mkdir()
    for step, reward in enumerate(by_step, start=1):
        append(folder / LOG, line(step, index=0, reward=reward), line(step, index=1, reward=reward))
    return folder


def test_facts_are_those_of_the_files(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 0.25, 1.5, -3.0)
    index = read(folder)
    facts = known_facts(index.path)
    assert facts is not None
    status = (folder / LOG).stat()
    assert (facts.samples, facts.bytes, facts.complete) == (6, status.st_size, True)
    assert facts.newest_line == pytest.approx(status.st_mtime, abs=0.01)
    settled = facts_of(index.snapshot, LATER)
    assert settled is not None
    assert (settled.step, settled.reward, settled.trend) == (3, -3.0, (0.25, 1.5, -3.0))


def test_facts_follow_the_run(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0))
    append(index.path / LOG, line(2, reward=2.0))
    index.rescan()
    index.read()
    facts = known_facts(index.path)
    assert facts is not None
    assert facts.samples == 3


def test_a_long_trend_is_the_means_of_equal_parts(tmp_path: Path) -> None:
    values = [float(step % 7) for step in range(3 * TREND_POINTS)]
    facts = facts_of(read(rewards(tmp_path / "run", *values)).snapshot, LATER)
    assert facts is not None
    expected = np.reshape(values, (TREND_POINTS, 3)).mean(axis=1)
    np.testing.assert_allclose(facts.trend, expected, rtol=1e-5)


def test_a_step_that_is_being_written_is_not_the_last_reward(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=8, reward=1.0)
    append(folder / LOG, line(4, reward=50.0))
    snapshot = read(folder).snapshot
    writing = facts_of(snapshot, snapshot.newest_line)
    assert writing is not None
    assert (writing.step, writing.reward) == (3, 1.0)


def test_rewards_that_were_not_logged_are_no_zeros(tmp_path: Path) -> None:
    facts = facts_of(read(rewards(tmp_path / "none", None, None)).snapshot, LATER)
    assert facts is not None
    assert (facts.samples, facts.reward, facts.trend) == (4, None, ())
    gap = facts_of(read(rewards(tmp_path / "gap", 1.0, None, 3.0)).snapshot, LATER)
    assert gap is not None
    assert (gap.reward, gap.trend) == (3.0, (1.0, 3.0))


def test_samples_of_all_splits_are_counted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    append(tmp_path / "run" / LOG, line(1), line(1, index=1, split="eval"), line(1, index=2, split="eval"))
    facts = facts_of(read(tmp_path / "run").snapshot, LATER)
    assert facts is not None
    assert facts.samples == 3


def test_a_run_without_samples_has_no_facts(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 1.0)
    index = read(folder)
    assert known_facts(index.path) is not None
    (folder / LOG).unlink()
    index.rescan()
    index.read()
    assert known_facts(index.path) is None


def test_facts_are_saved_beside_the_columns_and_read_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = read(rewards(tmp_path / "run", 0.25, 1.5), Reading(cache=True))
    index.save(last=True)
    before = known_facts(index.path)
    monkeypatch.setattr(run_facts, "_facts", {})
    assert known_facts(index.path) is None
    assert list(read_saved_facts([index.path, tmp_path / "other"])) == [2]
    assert before is not None
    assert known_facts(index.path) == before
    assert known_facts(tmp_path / "other") is None


def test_a_run_that_is_not_saved_gets_no_folder(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=False))
    index.save(last=True)
    assert [path.name for path in index.path.iterdir()] == [LOG]


GOOD = {"samples": 6, "step": 3, "reward": 1.0, "trend": [0.5, 1.0], "complete": True, "bytes": 9}
GOOD |= {"newest_line": 5.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 60_000,
        json.dumps({**GOOD, "samples": "many"}),
        json.dumps({**GOOD, "samples": 0}),
        json.dumps({**GOOD, "reward": float("nan")}),
        json.dumps({**GOOD, "trend": [float("inf"), 1]}),
        json.dumps({**GOOD, "trend": None}),
        json.dumps({key: value for key, value in GOOD.items() if key != "bytes"}),
    ],
)
def test_damaged_facts_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    assert save_text(index.path, FILE, text)
    monkeypatch.setattr(run_facts, "_facts", {})
    list(read_saved_facts([index.path]))
    assert known_facts(index.path) is None


def test_what_the_process_knows_is_not_replaced_by_what_was_saved(tmp_path: Path) -> None:
    index = read(rewards(tmp_path / "run", 1.0), Reading(cache=True))
    index.save(last=True)
    facts = known_facts(index.path)
    assert facts is not None
    newer = replace(facts, samples=99)
    run_facts._facts[str(index.path)] = newer
    list(read_saved_facts([index.path]))
    assert known_facts(index.path) == newer
