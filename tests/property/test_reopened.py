"""A run that is reopened from its index equals a run that is read from its logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.settings import Reading
from rlpanel.store.columns import row_table
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append
from tests.limits import SAVED
from tests.property import strategies
from tests.property.test_invariants import assert_same_rows, assert_same_steps, folder, follow, samples

History = tuple[dict[str, bytes], list[tuple[str, bytes]]]


@pytest.fixture(scope="module", autouse=True)
def _made_up_logs_are_long_enough() -> Iterator[None]:
    """Make generated logs long enough for an index, and short lines count as duplicates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_table, "DUPLICATE_SURPRISAL", 3.0)
        yield


def fresh(run: Path) -> Snapshot:
    return whole(RunIndex(run, "run", Reading(cache=False)))


def whole(index: RunIndex) -> Snapshot:
    """Read all that is there, also last lines whose newline is missing."""
    follow(index)
    index.read_last_lines()
    return follow(index)


def assert_same_run(one: Snapshot, other: Snapshot) -> None:
    """Assert equal rows, statistics and bad lines in each split, and equal excluded rows."""
    assert one.splits == other.splits
    for split in one.splits or [one.split]:
        assert_same_split(one.in_split(split), other.in_split(split))


def assert_same_split(one: Snapshot, other: Snapshot) -> None:
    """Like `assert_same_run`, for a single split."""
    assert one.split == other.split
    found, expected = (samples(run).dropna(axis=1, how="all") for run in (one, other))
    assert_same_rows(found, expected)
    assert_same_steps(RunView(one).step_frame(), RunView(other).step_frame())
    assert set(one.bad_lines) == set(other.bad_lines)
    for name in (
        "older",
        "duplicates",
        "repeats",
        "restarts",
        "ranks",
        "samples",
        "bad_count",
        "blank_count",
    ):
        assert getattr(one, name) == getattr(other, name), name


def cut_before_newlines(appends: list[tuple[str, bytes]], data: st.DataObject) -> Iterator[tuple[str, bytes]]:
    """Cut parts before a newline, so that a whole line waits for it."""
    for name, part in appends:
        newlines = [at for at, byte in enumerate(part) if byte == ord("\n")]
        cut = data.draw(st.sampled_from(newlines)) if newlines else 0
        yield from ((name, piece) for piece in (part[:cut], part[cut:]) if piece)


@strategies.dear
@given(strategies.histories(), st.data())
def test_a_run_opened_again_at_any_time_is_the_run_read_anew(history: History, data: st.DataObject) -> None:
    logs, appends = history
    with folder() as run:
        live = RunIndex(run, "run", limits=SAVED)
        for name, part in cut_before_newlines(appends, data):
            append(run / name, part)
            follow(live)
            if data.draw(st.booleans()):
                live.read_last_lines()
            match data.draw(st.sampled_from(["on", "on", "again", "again", "replaced", "deleted"])):
                case "again":
                    live.save(last=True)
                    live = RunIndex(run, "run", limits=SAVED)
                case "replaced":
                    (run / name).unlink()
                    (run / name).write_bytes(data.draw(st.sampled_from(sorted(logs.values()))))
                case "deleted":
                    (run / name).unlink()
        follow(live)
        live.save(last=True)
        assert_same_run(whole(RunIndex(run, "run", limits=SAVED)), fresh(run))


@strategies.dear
@given(strategies.log, strategies.log, st.booleans())
def test_what_happens_to_a_log_while_nobody_looks_is_seen(before: bytes, after: bytes, anew: bool) -> None:
    """The log is rewritten in place or replaced by another file, cut, or appended to."""
    with folder() as run:
        path = run / "rollout_data_rank_0.jsonl"
        append(run / "rollout_data_rank_1.jsonl", b'{"step": 2, "prompt": "other", "reward": 1.0}\n')
        path.write_bytes(before)
        first = RunIndex(run, "run", limits=SAVED)
        follow(first)
        first.save(last=True)
        if anew:
            path.unlink()
        path.write_bytes(after)
        assert_same_run(whole(RunIndex(run, "run", limits=SAVED)), fresh(run))
