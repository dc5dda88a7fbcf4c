"""Formats in which a job logs a step once: what is logged again belongs to a resumed job, or is said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append
from tests.limits import store_limits
from tests.unit.sources.adapters.test_ms_swift import table

SHARD = "exp1_rollouts_000000.jsonl"


def batch(step: int, samples: Iterable[int] = range(4), attempt: int = 1) -> bytes:
    """A step's lines as open-instruct's ``_save_rollouts`` (commit e6c3044aa) writes them."""
    lines = [
        {
            "step": step,
            "sample_idx": index,
            "prompt_idx": index // 2,
            "prompt_tokens": [1, index // 2],
            "response_tokens": [step, index, attempt],
            "reward": float(attempt),
            "advantage": 0.5,
            "finish_reason": "stop",
            "dataset": ["gsm8k"],
        }
        for index in samples
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def rewards(snapshot: Snapshot) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in snapshot.alive_rows.tolist():
        found.setdefault(int(snapshot.metadata("step")[row]), []).append(
            float(snapshot.number("reward")[row])
        )
    return {step: found[step] for step in sorted(found)}


def read(folder: Path, reading: Reading | None = None) -> Snapshot:
    index = RunIndex(folder, "run", reading, limits=store_limits(range_bytes=300))
    index.rescan()
    while index.read():
        pass
    return index.snapshot


@pytest.mark.case("open-instruct", "resume")
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_resume_of_open_instruct_is_recognised_whatever_was_lost(tmp_path: Path, lost: int) -> None:
    again = range(7 - lost, 9)
    append(tmp_path / SHARD, *(batch(step) for step in range(1, 7)))
    append(tmp_path / SHARD, *(batch(step, attempt=2) for step in again))
    found = read(tmp_path)
    assert rewards(found) == {step: [2.0 if step in again else 1.0] * 4 for step in range(1, 9)}
    assert (found.older, found.restarts, found.remarks) == (4 * lost, (again[0],), ())


def test_lines_that_arrive_one_by_one_or_in_ranges_tell_the_same(tmp_path: Path) -> None:
    lines = [*map(batch, range(1, 4)), batch(3, attempt=2), batch(4, attempt=2)]
    index = RunIndex(tmp_path, "run")
    for line in b"".join(lines).splitlines(keepends=True):
        append(tmp_path / SHARD, line)
        index.rescan()
        while index.read():
            pass
    wanted = {1: [1.0] * 4, 2: [1.0] * 4, 3: [2.0] * 4, 4: [2.0] * 4}
    assert rewards(index.snapshot) == wanted
    assert rewards(read(tmp_path, Reading(backlog_bytes=1, jobs=0))) == wanted


def test_two_threads_that_write_steps_in_another_order_are_no_resume(tmp_path: Path) -> None:
    append(tmp_path / SHARD, *map(batch, (1, 2, 4, 3)), batch(6, range(2)), batch(5), batch(6, range(2, 4)))
    found = read(tmp_path)
    assert rewards(found) == {step: [1.0] * 4 for step in range(1, 7)}
    assert (found.older, found.remarks) == (0, ())


def test_a_step_in_two_shards_counts_twice_and_is_said(tmp_path: Path) -> None:
    append(tmp_path / SHARD, *map(batch, (1, 2)), batch(4, attempt=2))
    append(tmp_path / "exp1_rollouts_000001.jsonl", *map(batch, (3, 4, 5)))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (remark,) = run.remarks
        assert run.steps.set_index("step")["samples"][4] == 8
    assert (remark.kind, remark.steps) == ("attempts", (4,))
    assert remark.sentence.startswith("Step 4: two attempts are mixed?")


@pytest.mark.case("ms-swift", "resume")
def test_a_table_of_ms_swift_after_a_later_step_is_of_a_resumed_job(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", table(1, "a1"), table(2, "b1"), table(3, "c1"))
    append(tmp_path / "completions.jsonl", table(2, "b2"), table(3, "c2"), table(4, "d2"))
    found = read(tmp_path)
    assert found.samples == 4
    assert (found.older, found.restarts, found.remarks) == (2, (2,), ())


def test_one_lost_step_of_ms_swift_counts_twice_and_is_said(tmp_path: Path) -> None:
    append(
        tmp_path / "completions.jsonl",
        table(1, "a1 a2"),
        table(2, "b1 b2"),
        table(2, "b3 b4"),
        table(3, "c1"),
    )
    found = read(tmp_path)
    assert [(remark.kind, remark.steps) for remark in found.remarks] == [("attempts", (2,))]
    assert found.steps.samples.tolist() == [2, 4, 1]
