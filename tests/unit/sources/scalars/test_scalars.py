"""The trainer's scalars equal the raw files, read at once or in pieces."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlpanel.sources.scalars.find_scalars import find_scalars
from rlpanel.sources.scalars.scalar_files import EventFile, Points, Row, ScalarFile, ScalarLines, TrainerState

DATA = Path(__file__).parents[3] / "data" / "scalars"
EVENTS = "events.out.tfevents.1795247991.train.0"
BUDGET = 1 << 20


def read(file: ScalarFile, budget: int = BUDGET) -> Points:
    """All that a file gives now."""
    points = file.poll(budget)
    while points.more:
        further = file.poll(budget)
        points.rows += further.rows
        points.bad += further.bad
        points.more = further.more
    return points


def logged(path: Path) -> list[Row]:
    """Read the log of transformers with the standard library."""
    history = json.loads(path.read_text())["log_history"]
    return [(entry.pop("step"), entry) for entry in history]


def of_step(rows: list[Row], step: int) -> dict[str, float]:
    return {name: value for at, numbers in rows if at == step for name, value in numbers.items()}


def test_a_line_gives_its_step_and_its_numbers() -> None:
    rows = read(ScalarLines(str(DATA / "scalars.jsonl"), "scalars.jsonl")).rows
    assert rows == logged(DATA / "trainer_state.json")


def test_a_trainer_state_gives_its_history() -> None:
    rows = read(TrainerState(str(DATA / "trainer_state.json"), "trainer_state.json")).rows
    assert rows == logged(DATA / "trainer_state.json")


@pytest.mark.parametrize("budget", [1, BUDGET], ids=["a record a turn", "at once"])
def test_events_hold_what_the_trainer_logged_as_32_bit_numbers(budget: int) -> None:
    rows = read(EventFile(str(DATA / EVENTS), EVENTS), budget).rows
    expected = {
        step: {name: float(np.float32(value)) for name, value in numbers.items()}
        for step, numbers in logged(DATA / "trainer_state.json")
    }
    assert {step: of_step(rows, step) for step in expected} == expected


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "scalars.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 0.5}\n{"step": 2, "lo')
    file = ScalarLines(str(path), path.name)
    first = read(file)
    with path.open("ab") as log:
        log.write(b'ss": 0.25}\n')
    assert (first.rows, read(file).rows) == ([(1, {"loss": 0.5})], [(2, {"loss": 0.25})])


def test_a_record_cut_anywhere_is_read_when_it_is_whole(tmp_path: Path) -> None:
    data = (DATA / EVENTS).read_bytes()
    path = tmp_path / EVENTS
    file = EventFile(str(path), path.name)
    rows = []
    for cut in (3, 11, 40, 2001, 2002, len(data) - 1, len(data)):
        path.write_bytes(data[:cut])
        rows += read(file).rows
    assert rows == read(EventFile(str(DATA / EVENTS), EVENTS)).rows


def test_a_damaged_record_ends_the_events_and_is_told_with_its_place(tmp_path: Path) -> None:
    data = bytearray((DATA / EVENTS).read_bytes())
    data[3000] ^= 0xFF
    path = tmp_path / EVENTS
    path.write_bytes(data)
    points = read(EventFile(str(path), path.name))
    whole = read(EventFile(str(DATA / EVENTS), EVENTS)).rows
    assert 0 < len(points.rows) < len(whole)
    assert points.rows == whole[: len(points.rows)]
    assert [("fails its checksum" in bad.reason, bad.offset <= 3000) for bad in points.bad] == [(True, True)]


def test_a_replaced_event_file_begins_again(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    shutil.copy(DATA / EVENTS, path)
    file = EventFile(str(path), path.name)
    before = read(file)
    fresh = tmp_path / "fresh"
    fresh.write_bytes((DATA / EVENTS).read_bytes())
    os.replace(fresh, path)
    after = read(file)
    assert after.generation > before.generation
    assert after.rows == before.rows


def test_a_scalar_that_is_a_tensor_counts_and_a_text_does_not(tmp_path: Path) -> None:
    from tensorboard.summary import Writer

    writer = Writer(str(tmp_path))
    writer.add_scalar("train/loss", 0.5, 1)
    writer.add_scalar("train/loss", 0.25, 2)
    writer.close()
    (path,) = tmp_path.iterdir()
    assert read(EventFile(str(path), path.name)).rows == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]


def test_a_state_that_is_being_written_leaves_the_last_one_standing(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": [{"step": 1, "loss": 2.0}]}))
    file = TrainerState(str(path), path.name)
    first = read(file)
    path.write_text('{"log_history": [{"step": 1, "lo')
    during = read(file)
    path.write_text(json.dumps({"log_history": [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]}))
    after = read(file)
    assert (during.rows, during.bad, during.generation) == ([], [], first.generation)
    assert (after.rows, after.generation > first.generation) == (
        [(1, {"loss": 1.0}), (2, {"loss": 0.5})],
        True,
    )


def test_a_state_that_stays_broken_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text('{"log_history": [')
    os.utime(path, (1.0, 1.0))
    assert [bad.reason.partition(":")[0] for bad in read(TrainerState(str(path), path.name)).bad] == [
        "not valid JSON"
    ]


def test_odd_values_are_kept_as_numbers_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"step": "3", "loss": NaN, "lr": 1, "name": "x", "flag": true, "none": null, "list": [1]}\n'
        '{"global_step": 4.0, "optim": {"lr": 0.5, "norm": Infinity}}\n'
        '{"loss": 1}\n'
        "no json\n"
        '{"step": 1.5, "loss": 1}\n'
    )
    points = read(ScalarLines(str(path), path.name))
    (step, numbers), nested = points.rows
    assert (step, math.isnan(numbers.pop("loss")), numbers) == (3, True, {"lr": 1.0})
    assert nested == (4, {"optim/lr": 0.5, "optim/norm": math.inf})
    assert [bad.line for bad in points.bad] == [3, 4, 5]


# -- where they lie --------------------------------------------------------------------------------


def place(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


def names(folder: Path, root: Path) -> list[str]:
    return [found.name for found in find_scalars(folder, root.resolve())]


def test_scalars_lie_beside_the_rollouts_in_checkpoints_and_in_tensorboards_folder(tmp_path: Path) -> None:
    run = place(
        tmp_path / "exp1",
        "rank_0.jsonl",
        "scalars.jsonl",
        "metrics.jsonl",
        "checkpoint-9/trainer_state.json",
        "runs/Nov21_host/events.out.tfevents.2.host.1.0",
        "runs/Nov20_host/events.out.tfevents.1.host.1.0",
        "other/events.out.tfevents.1",
    )
    assert names(run, tmp_path) == [
        "runs/Nov20_host/events.out.tfevents.1.host.1.0",
        "runs/Nov21_host/events.out.tfevents.2.host.1.0",
        "checkpoint-9/trainer_state.json",
        "metrics.jsonl",
        "scalars.jsonl",
    ]


def test_the_newest_checkpoint_state_is_used(tmp_path: Path) -> None:
    run = place(tmp_path, "checkpoint-9/trainer_state.json", "checkpoint-20/trainer_state.json")
    os.utime(run / "checkpoint-9" / "trainer_state.json", (2.0, 2.0))
    os.utime(run / "checkpoint-20" / "trainer_state.json", (1.0, 1.0))
    assert names(run, tmp_path) == ["checkpoint-9/trainer_state.json"]


def test_a_folder_with_only_rollouts_uses_the_scalars_of_its_parent(tmp_path: Path) -> None:
    place(tmp_path / "exp1", "trainer_state.json", "rollouts/rank_0.jsonl", "notes/rank_0.jsonl")
    rollouts = tmp_path / "exp1" / "rollouts"
    found = names(rollouts, tmp_path), names(tmp_path / "exp1" / "notes", tmp_path), names(rollouts, rollouts)
    assert found == (["trainer_state.json"], [], ["trainer_state.json"])


def test_nothing_outside_the_root_is_read(tmp_path: Path) -> None:
    place(tmp_path, "secret/scalars.jsonl")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "scalars.jsonl").symlink_to(tmp_path / "secret" / "scalars.jsonl")
    assert names(tmp_path / "runs", tmp_path / "runs") == []


def test_llama_factorys_log_gives_its_numbers_by_its_own_name_of_the_step(tmp_path: Path) -> None:
    """As `LogCallback.on_log` of 0.9.5 writes them; a prediction without training logs its progress only."""
    lines = [
        {"current_steps": 10, "total_steps": 20, "loss": 0.5, "lr": 1e-05, "epoch": 1.0, "percentage": 50.0,
         "elapsed_time": "0:00:09", "remaining_time": "0:00:09"},
        {"current_steps": 20, "total_steps": 20, "eval_loss": 0.25, "epoch": 2.0, "percentage": 100.0},
    ]  # fmt: skip
    (tmp_path / "trainer_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = find_scalars(tmp_path, tmp_path)
    rows = read(found.open(found.path, found.name)).rows
    assert rows == [
        (10, {"total_steps": 20.0, "loss": 0.5, "lr": 1e-05, "epoch": 1.0, "percentage": 50.0}),
        (20, {"total_steps": 20.0, "eval_loss": 0.25, "epoch": 2.0, "percentage": 100.0}),
    ]


def test_easyr1s_log_gives_its_nested_numbers(tmp_path: Path) -> None:
    line = {"step": 3, "critic": {"score": {"mean": 0.5}}, "perf": {"total_num_tokens": 900}}
    (tmp_path / "experiment_log.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = find_scalars(tmp_path, tmp_path)
    assert read(found.open(found.path, found.name)).rows == [
        (3, {"critic/score/mean": 0.5, "perf/total_num_tokens": 900.0})
    ]
