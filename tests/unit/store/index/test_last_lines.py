"""The last lines of a run that was never read tell its newest step and reward, with little work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.sources.discovery.directory import RunInfo, discover
from rlpanel.sources.files import file_access
from rlpanel.store.index import summary_store
from rlpanel.store.index.run_summary import RunSummary
from rlpanel.store.index.summary_store import SummaryStore
from tests.factories import append, line, write_run

LOG = "rollout_data_rank_0.jsonl"


def run_with(folder: Path, *lines: bytes) -> RunInfo:
    folder.mkdir()
    append(folder / LOG, *lines)
    return discover(folder)[0]


def looked(run: RunInfo, summaries: SummaryStore | None = None) -> tuple[int | None, float | None]:
    summaries = summaries or SummaryStore()
    list(summaries.read_last_lines([run]))
    summary = summaries.of(run.path)
    return summary.step, summary.reward


def test_they_are_those_of_the_newest_step(tmp_path: Path) -> None:
    rewards = {1: (0.0, 1.0), 2: (0.5, 2.5)}
    lines = [line(step, index=i, reward=value) for step in rewards for i, value in enumerate(rewards[step])]
    assert looked(run_with(tmp_path / "run", *lines)) == (2, 1.5)


def test_evaluations_and_rewards_that_were_not_logged_do_not_count(tmp_path: Path) -> None:
    lines = [line(1, split="train", reward=None), line(7, split="eval", reward=3.0)]
    assert looked(run_with(tmp_path / "run", *lines)) == (1, None)


def test_only_the_end_of_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_store, "TAIL_BYTES", 20_000)
    folder = write_run(tmp_path / "run", steps=300, samples=4)
    size = (folder / LOG).stat().st_size
    read: list[int] = []
    really = file_access.LocalFile.read

    def counted(self: file_access.LocalFile, length: int, offset: int) -> bytes:
        data = really(self, length, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(file_access.LocalFile, "read", counted)
    found = looked(discover(folder)[0])
    assert found[0] == 300
    assert sum(read) < size / 2


def test_a_line_that_is_being_written_tells_nothing(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", line(1, reward=1.0))
    with (tmp_path / "run" / LOG).open("a") as log:
        log.write('{"step": 2, "prompt": "p", "resp')
    assert looked(run) == (1, 1.0)


def test_a_run_is_looked_at_once_until_it_has_grown_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, summaries = run_with(tmp_path / "run", line(1, reward=1.0)), SummaryStore()
    assert looked(run, summaries) == (1, 1.0)
    append(tmp_path / "run" / LOG, line(2, reward=2.0))
    grown = discover(run.path)[0]
    assert looked(grown, summaries) == (1, 1.0)
    monkeypatch.setattr(summary_store, "AGAIN", 0.0)
    assert looked(grown, summaries) == (2, 2.0)
    assert list(summaries.read_last_lines([grown])) == []


def test_a_run_that_was_read_is_not_looked_at(tmp_path: Path) -> None:
    run, summaries = run_with(tmp_path / "run", line(1, reward=1.0)), SummaryStore()
    summaries.note(run.path, RunSummary(1, 7, 2.0))
    assert looked(run, summaries) == (7, 2.0)
