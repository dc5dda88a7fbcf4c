"""A new token metric: the saved run opens at once, and the new column is filled from the lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.metrics.engine import column_info
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.saved_rows import ColumnBackfill
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite, write_run
from tests.limits import SAVED, store_limits
from tests.unit.sources.readers.faults import public_folder, unreadable

LOG = "rollout_data_rank_0.jsonl"
Declare = Callable[[Callable[..., np.ndarray]], None]


@pytest.fixture(autouse=True)
def _small_runs_are_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declares the metric ``made_up``, in the place of the one that it declared before."""

    def made_up(function: Callable[..., np.ndarray]) -> None:
        withdraw()
        column_info.metric("made up", level="token", reductions=("sum",), name="made_up")(function)

    yield made_up
    withdraw()


def withdraw() -> None:
    if "made_up" in column_info.METRICS:
        column_info.unregister("made_up")


#: Five rows a turn.
SMALL_TURNS = store_limits(min_log_bytes=0, turn_seconds=0, batch_rows=5)


def look(found: RunIndex) -> Snapshot:
    found.rescan()
    while found.read():
        pass
    return found.snapshot


def saved(run: Path) -> Path:
    write_run(run, ranks=2)
    first = RunIndex(run, "run", limits=SAVED)
    look(first)
    first.save(last=True)
    return run


def assert_same_run(found: Snapshot, run: Path) -> None:
    """Rows, statistics and what follows from them are those of the run read anew."""
    anew = look(RunIndex(run, "run", Reading(cache=False)))
    frames = [RunView(shot).frame(shot.alive_rows).set_index("uid").sort_index() for shot in (found, anew)]
    pd.testing.assert_frame_equal(frames[0][sorted(frames[0])], frames[1][sorted(frames[1])])
    steps = [RunView(shot).step_frame() for shot in (found, anew)]
    pd.testing.assert_frame_equal(steps[0][sorted(steps[0])], steps[1][sorted(steps[1])])


def test_no_other_column_is_made_anew(
    tmp_path: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path)
    declare(lambda logprobs: 2 * logprobs)
    made: list[tuple[str, ...]] = []
    really = ColumnBackfill.__init__
    monkeypatch.setattr(
        ColumnBackfill,
        "__init__",
        lambda self, t, names, limits: (made.append(names), really(self, t, names, limits))[1],
    )
    again = RunIndex(tmp_path, "run", limits=SAVED)
    found = look(again)
    assert (again.bytes_read, made) == (0, [("made_up_sum",)])
    np.testing.assert_allclose(found.number("made_up_sum"), -2 * found.number("surprisal_sum"))
    assert_same_run(found, tmp_path)


def test_the_run_is_there_before_the_column_is(tmp_path: Path, declare: Declare) -> None:
    whole = sum(path.stat().st_size for path in saved(tmp_path).glob("*.jsonl"))
    declare(lambda logprobs: 2 * logprobs)
    again = RunIndex(tmp_path, "run", limits=SMALL_TURNS)
    again.rescan()
    waiting = []
    while again.read():
        found = again.snapshot
        assert (found.samples, RunView(found).has("kl_k3_mean"), RunView(found).has("made_up_sum")) == (
            48,
            True,
            False,
        )
        waiting.append(found.progress.waiting)
    assert len(waiting) == 9
    assert whole > waiting[0] > waiting[-1] > 0
    assert again.snapshot.progress.waiting == 0
    assert_same_run(again.snapshot, tmp_path)


def test_it_is_made_once(tmp_path: Path, declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)
    declare(lambda logprobs: 2 * logprobs)
    first = RunIndex(tmp_path, "run", limits=SAVED)
    look(first)
    first.save(last=True)
    monkeypatch.setattr(ColumnBackfill, "run", None)
    again = RunIndex(tmp_path, "run", limits=SAVED)
    assert RunView(look(again)).has("made_up_sum")
    assert again.bytes_read == 0


def test_half_a_column_is_not_saved(tmp_path: Path, declare: Declare) -> None:
    saved(tmp_path)
    manifest = (tmp_path / ".rlpanel" / "manifest").read_bytes()
    declare(lambda logprobs: 2 * logprobs)
    first = RunIndex(tmp_path, "run", limits=SMALL_TURNS)
    first.rescan()
    first.read()
    append(tmp_path / LOG, line(9))
    first.read()
    first.save(last=True)
    assert (tmp_path / ".rlpanel" / "manifest").read_bytes() == manifest
    assert_same_run(
        look(RunIndex(tmp_path, "run", limits=SMALL_TURNS)),
        tmp_path,
    )


def test_a_metric_that_is_another_one_now_is_made_anew(tmp_path: Path, declare: Declare) -> None:
    declare(lambda logprobs: 2 * logprobs)
    saved(tmp_path)
    declare(lambda logprobs: 3 * logprobs)
    again = RunIndex(tmp_path, "run", limits=SAVED)
    found = look(again)
    np.testing.assert_allclose(found.number("made_up_sum"), -3 * found.number("surprisal_sum"))
    assert again.bytes_read == 0


def test_a_metric_that_is_gone_takes_its_column_along(tmp_path: Path, declare: Declare) -> None:
    declare(lambda logprobs: 2 * logprobs)
    saved(tmp_path)
    withdraw()
    again = RunIndex(tmp_path, "run", limits=SAVED)
    assert "made_up_sum" not in look(again).numbers
    assert again.bytes_read == 0


def test_a_logged_column_of_the_metrics_name_moves_aside(tmp_path: Path, declare: Declare) -> None:
    append(tmp_path / LOG, line(1, made_up_sum=7.0), line(2, made_up_sum=8.0))
    first = RunIndex(tmp_path, "run", limits=SAVED)
    look(first)
    first.save(last=True)
    declare(lambda logprobs: 2 * logprobs)
    found = look(RunIndex(tmp_path, "run", limits=SAVED))
    assert found.number("logged_made_up_sum").tolist() == [7.0, 8.0]
    np.testing.assert_allclose(found.number("made_up_sum"), -2 * found.number("surprisal_sum"))


@pytest.mark.parametrize("gathered", [False, True])
def test_what_happens_to_the_logs_meanwhile_counts(tmp_path: Path, declare: Declare, gathered: bool) -> None:
    """Lines come, a file is replaced, another deleted; the dead stay among the rows, or are left behind."""
    saved(write_run(tmp_path, ranks=4))
    declare(lambda logprobs: 2 * logprobs)
    again = RunIndex(
        tmp_path,
        "run",
        limits=store_limits(
            min_log_bytes=0, turn_seconds=0, batch_rows=5, dead_rows=0 if gathered else 1 << 16
        ),
    )
    again.rescan()
    again.read()
    append(tmp_path / LOG, line(9), line(9, index=1, drop=["logprobs", "ref_logprobs"]))
    again.read()
    for rank in (1, 2, 3):
        (tmp_path / f"rollout_data_rank_{rank}.jsonl").unlink()
    rewrite(tmp_path / "rollout_data_rank_1.jsonl", line(4, rank=1))
    again.rescan()
    again.read()
    assert_same_run(look(again), tmp_path)


def test_several_samples_in_a_line_get_a_value_each(tmp_path: Path, declare: Declare) -> None:
    row = {
        "step": [1] * 7,
        "prompt": ["p"] * 7,
        "completion": ["c"] * 7,
        "reward": [float(i) for i in range(7)],
    }
    logprobs = [[-1.0 - i, -2.0] for i in range(7)]
    append(tmp_path / "completions.jsonl", json.dumps(row | {"logprobs": logprobs}).encode() + b"\n")
    first = RunIndex(tmp_path, "run", limits=SMALL_TURNS)
    assert look(first).samples == 7
    first.save(last=True)
    declare(lambda logprobs: 2 * logprobs)
    found = look(RunIndex(tmp_path, "run", limits=SMALL_TURNS))
    assert found.number("made_up_sum").tolist() == [-6.0 - 2 * i for i in range(7)]


def test_a_file_that_cannot_be_read_waits_and_loses_nothing(declare: Declare) -> None:
    with public_folder() as run:
        saved(run)
        declare(lambda logprobs: 2 * logprobs)
        again = RunIndex(run, "run", limits=SMALL_TURNS)
        again.rescan()
        again.read()
        with unreadable(run / LOG):
            found = look(again)  # ends: nobody waits for a file that is not there
        assert (found.samples, RunView(found).has("made_up_sum"), os.access(run / LOG, os.R_OK)) == (
            48,
            False,
            True,
        )
        assert_same_run(look(again), run)
