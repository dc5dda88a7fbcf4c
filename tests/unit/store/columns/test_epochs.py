"""Steps that begin again in each epoch are no restart where a counter goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append


def lines(*parts: dict[str, Any]) -> bytes:
    samples = (
        {"prompt": "q", "response": f"r{index}", "reward": 0.5, **part} for part in parts for index in (0, 1)
    )
    return b"".join(json.dumps(sample).encode() + b"\n" for sample in samples)


def epoch(number: float, last: int = 5, **more: Any) -> list[dict[str, Any]]:
    return [{"step": step, "epoch": number, **more} for step in range(1, last + 1)]


def counts(folder: Path) -> tuple[list[int], int, list[str]]:
    with rlpanel.open_run(folder, follow=False) as run:
        return run.steps["samples"].tolist(), run.left_out.older_attempts, [r.sentence for r in run.remarks]


def test_all_samples_of_all_epochs_count_and_it_is_said(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", lines(*epoch(1), *epoch(2), *epoch(3, last=3)))
    sentence = (
        "The steps begin again in 2 later epochs: a step holds the samples of all epochs, and all count."
    )
    assert counts(tmp_path) == ([6, 6, 6, 4, 4], 0, [sentence])


def test_a_counter_that_repeats_with_the_steps_is_a_restart(tmp_path: Path) -> None:
    parts = [{"step": step, "epoch": step / 4} for step in (1, 2, 3, 4, 5, 2, 3, 4, 5, 6)]
    append(tmp_path / "log.jsonl", lines(*parts))
    assert counts(tmp_path) == ([2] * 6, 8, [])


def test_a_restart_within_a_later_epoch_leaves_the_epochs_before_alone(tmp_path: Path) -> None:
    second = epoch(1, last=4) + [{"step": step, "epoch": 1} for step in (2, 3, 4, 5)]
    append(tmp_path / "log.jsonl", lines(*epoch(0), *second, *epoch(2)))
    steps, older, remarks = counts(tmp_path)
    assert (steps, older, len(remarks)) == ([6] * 5, 6, 1)


@pytest.mark.parametrize("name", ["global_step", "samples_seen", "epoch_idx"])
def test_other_counters_show_epochs_as_well(tmp_path: Path, name: str) -> None:
    parts = [{"step": step, name: 10 * round_ + step} for round_ in (0, 1) for step in (1, 2, 3, 4)]
    append(tmp_path / "log.jsonl", lines(*parts))
    assert counts(tmp_path)[:2] == ([4] * 4, 0)


def test_without_a_counter_the_newest_attempt_counts(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", lines(*({"step": step} for step in (1, 2, 3, 4) * 2)))
    assert counts(tmp_path)[:2] == ([2] * 4, 8)


@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_it_does_not_matter_in_which_pieces_lines_come(tmp_path: Path, pieces: int) -> None:
    text = lines(*epoch(0), *epoch(1, last=4), *({"step": step, "epoch": 1} for step in (2, 3)))
    index = RunIndex(tmp_path, "run", Reading(cache=False))
    size = len(text) // pieces + 1
    for start in range(0, len(text), size):
        append(tmp_path / "log.jsonl", text[start : start + size])
        index.rescan()
        while index.read():
            pass
        index.commit()
    assert index.snapshot.steps.samples.tolist() == [4, 4, 4, 2, 2]
    assert index.snapshot.older == 6
