"""The trainer's scalars of a run: one table on the step axis, whatever their source."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, write_run
from tests.waiting import wait_until

DATA = Path(__file__).parents[3] / "data" / "scalars"
EVENTS = "events.out.tfevents.1795247991.train.0"


def index_of(folder: Path) -> RunIndex:
    index = RunIndex(folder, "run", Reading())
    look(index)
    return index


def look(index: RunIndex) -> None:
    index.rescan()
    while index.read():
        pass


def scalar_line(step: int, **numbers: float) -> bytes:
    return json.dumps({"step": step, **numbers}).encode() + b"\n"


def loss(index: RunIndex) -> tuple[list[int], list[float]]:
    series = index.snapshot.scalars.series("loss")
    return series.steps.tolist(), series.values.tolist()


def oracle() -> pd.DataFrame:
    """Read the raw lines with pandas, one row per step."""
    frame = pd.read_json(DATA / "scalars.jsonl", lines=True, precise_float=True)
    return frame.set_index("step").sort_index().astype(float)


def test_the_table_is_what_pandas_reads(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    shutil.copy(DATA / "scalars.jsonl", run)
    with rlpanel.open_run(run) as opened:
        scalars = opened.scalars.set_index("step")
    pd.testing.assert_frame_equal(scalars, oracle(), check_index_type=False)


def test_events_fill_what_the_better_file_lacks(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    shutil.copy(DATA / EVENTS, run)
    append(run / "scalars.jsonl", scalar_line(1, loss=100.0))
    expected = oracle()["loss"].astype(np.float32).astype(float)
    expected[1] = 100.0
    assert loss(index_of(run)) == (expected.index.tolist(), expected.tolist())


def test_without_tensorboard_its_events_are_said_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # simulates a missing package
    run = write_run(tmp_path / "run", steps=2)
    shutil.copy(DATA / EVENTS, run)
    index = index_of(run)
    (problem,) = index.snapshot.problems
    append(run / "scalars.jsonl", scalar_line(1, loss=1.0))
    look(index)
    assert problem.startswith(EVENTS)
    assert '"tensorboard>=' in problem
    assert (index.snapshot.problems, loss(index)) == ((), ([1], [1.0]))


def test_a_step_that_comes_again_after_a_resume_counts_as_it_came_last(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    path = run / "scalars.jsonl"
    append(path, *(scalar_line(step, loss=value) for step, value in [(1, 1.0), (2, 2.0), (3, 3.0)]))
    index = index_of(run)
    append(path, scalar_line(2, loss=20.0))
    look(index)
    assert loss(index) == ([1, 2, 3], [1.0, 20.0, 3.0])


def test_a_replaced_file_takes_its_points_along(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    path = run / "scalars.jsonl"
    append(path, scalar_line(1, loss=1.0, gone=1.0), scalar_line(2, loss=2.0))
    index = index_of(run)
    path.write_bytes(scalar_line(1, loss=5.0))
    look(index)
    assert (loss(index), index.snapshot.scalars.names) == (([1], [5.0]), ("loss",))


def test_a_state_of_a_newer_checkpoint_takes_the_place_of_the_older(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    index = index_of(run)
    for checkpoint, history in [(1, [1.0]), (2, [1.0, 0.5])]:
        entries = [{"step": step, "loss": value} for step, value in enumerate(history, 1)]
        folder = run / f"checkpoint-{checkpoint}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
        look(index)
    assert loss(index) == ([1, 2], [1.0, 0.5])


def test_an_older_snapshot_keeps_what_it_showed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    append(run / "scalars.jsonl", scalar_line(1, loss=1.0))
    index = index_of(run)
    before = index.snapshot.scalars
    append(run / "scalars.jsonl", scalar_line(2, loss=2.0))
    look(index)
    assert before.series("loss").steps.tolist() == [1]
    assert index.snapshot.scalars.version == before.version + 1


def test_a_nan_is_kept_and_a_bad_line_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    append(run / "scalars.jsonl", b'{"step": 1, "loss": NaN}\n', b"half a thing\n", scalar_line(3, loss=0.5))
    with rlpanel.open_run(run) as opened:
        values, errors = opened.scalars["loss"].tolist(), opened.errors
    np.testing.assert_array_equal(values, [np.nan, 0.5])
    assert errors[["file", "line"]].to_numpy().tolist() == [["scalars.jsonl", 2]]


def test_scalars_alone_do_not_touch_the_rows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    index = index_of(run)
    before = index.snapshot
    append(run / "scalars.jsonl", scalar_line(1, loss=1.0))
    look(index)
    after = index.snapshot
    assert after.rows == before.rows
    assert not len(after.steps.changed_since(before.version))


@pytest.mark.parametrize("name", ["scalars.jsonl", EVENTS, "checkpoint-8/trainer_state.json"])
def test_a_run_that_is_followed_shows_new_scalars(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run", steps=1)
    with rlpanel.open_run(run) as opened:
        path = run / name
        path.parent.mkdir(exist_ok=True)
        data = (DATA / Path(name).name).read_bytes()
        with path.open("wb") as file:
            for start in range(0, len(data), 4001):
                file.write(data[start : start + 4001])
                file.flush()
        wait_until(lambda: len(opened.scalars) == 8 and opened.scalars["loss"].notna().all())
        np.testing.assert_allclose(opened.scalars["loss"], oracle()["loss"], rtol=1e-6)


def test_a_hundred_thousand_steps_are_taken_up_and_a_further_one_costs_little(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    append(run / "scalars.jsonl", *(scalar_line(step, loss=1.0 / step) for step in range(1, 100_001)))
    index = index_of(run)
    append(run / "scalars.jsonl", scalar_line(100_001, loss=0.0))
    look(index)
    series = index.snapshot.scalars.series("loss")
    assert (len(series.steps), series.at(100_001), series.at(2)) == (100_001, 0.0, 0.5)
