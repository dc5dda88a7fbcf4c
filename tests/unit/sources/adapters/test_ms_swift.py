"""ms-swift's tables: an evaluation's samples are told from those of training in the same step."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rlpanel import open_run
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append
from tests.limits import store_limits

NAME = "completions.jsonl"


def table(step: int | str, samples: str, **columns: list[object]) -> bytes:
    """A line of GRPOTrainer.log of ms-swift 4.6.0; a sample is a prompt's letter and the response's."""
    rows = samples.split()
    document = {
        "step": [str(step)] * len(rows),
        "prompt": [f"prompt {row[0]}" for row in rows],
        "completion": [f"answer {row[1]}" for row in rows],
        "Format": [float(row[0].isupper()) for row in rows],  # prompts of evaluations have a capital letter
        "advantages": [0.5] * len(rows),
        **columns,
    }
    return json.dumps(document).encode() + b"\n"


def splits(folder: Path) -> dict[tuple[int, str], list[str]]:
    """The responses that count, by step and split, in the file's order."""
    found: dict[tuple[int, str], list[str]] = {}
    with open_run(folder, follow=False, jobs=0) as run:
        for name in run.splits:
            frame = run.split(name).samples(text=True).sort_values(["line", "uid"])
            for step, response in zip(frame["step"], frame["response"], strict=True):
                found.setdefault((step, name), []).append(response[-1])
    return found


def test_a_later_table_of_a_step_with_other_prompts_is_an_evaluation(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "a1 a2"), table(2, "b1 b2"), table(2, "E1 E2"), table(3, "c1 c2"))
    append(tmp_path / NAME, table(3, "c1 c2"))  # at the end of training, the trainer logs once more
    assert splits(tmp_path) == {
        (1, "train"): ["1", "2"],
        (2, "train"): ["1", "2"],
        (2, "eval"): ["1", "2"],
        (3, "train"): ["1", "2"],
    }
    with open_run(tmp_path, follow=False) as run:
        assert run.steps["reward_mean"].tolist() == [0.0, 0.0, 0.0]
        assert run.split("eval").steps["reward_mean"].tolist() == [1.0]
        assert run.snapshot.duplicates == 2


@pytest.mark.parametrize(
    ("tables", "train", "evaluated"),
    [
        (["1:a1 a2", "1:a2 E1"], "12", "1"),  # an evaluation that is smaller than the queue
        (["1:a1 a2", "1:E1 E2", "1:F3 F4"], "12", "1234"),  # two data sets of evaluations
        (["1:a1 a2", "1:E1 E2", "1:E1 E2"], "12", "12"),  # the end of training repeats the evaluation
        (["1:a1 a2", "1:a3 a4"], "1234", ""),  # a resumed job: the same prompts
        (["1:a1 a2", "1:a3 b4"], "1234", ""),
        (["0:E1 E2"], "", "12"),  # before the first update
        (["0:E1 E2", "1:a1 a2"], "12", "12"),
    ],
)
def test_split_of_a_tables_samples(tmp_path: Path, tables: list[str], train: str, evaluated: str) -> None:
    append(tmp_path / NAME, *(table(*each.split(":")) for each in tables))
    found = splits(tmp_path)
    by_split = {name: "".join("".join(found[key]) for key in found if key[1] == name) for _, name in found}
    assert (by_split.get("train", ""), by_split.get("eval", "")) == (train, evaluated)


def test_a_step_that_generates_nothing_does_not_train_on_the_evaluation_before(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "a1 a2"), table(1, "E1 E2"), table(2, "E1 E2"), table(3, "b1 b2"))
    assert splits(tmp_path) == {
        (1, "train"): ["1", "2"],
        (1, "eval"): ["1", "2"],
        (2, "discarded eval"): ["1", "2"],
        (3, "train"): ["1", "2"],
    }


def test_several_generations_of_a_megatron_step_are_all_training(tmp_path: Path) -> None:
    first = {**json.loads(table(2, "a1 a2")), "gen_step": [2, 2]}
    second = {**json.loads(table(2, "b1 b2")), "gen_step": [2, 2]}
    for document in (first, second):
        del document["step"]
    append(tmp_path / NAME, *(json.dumps(document).encode() + b"\n" for document in (first, second)))
    assert splits(tmp_path) == {(2, "train"): ["1", "2", "1", "2"]}


def test_followed_line_by_line_and_read_in_ranges_give_the_same(tmp_path: Path) -> None:
    lines = [
        table(step, f"{name}1 {name}2") for step, name in [(1, "a"), (2, "b"), (2, "E"), (3, "c"), (3, "F")]
    ]
    index = RunIndex(tmp_path, "run", limits=store_limits(range_bytes=64))
    for line in lines:
        append(tmp_path / NAME, line)
        index.rescan()
        while index.read():
            pass
    assert index.snapshot.splits == {"train": 6, "eval": 4}
    (tmp_path / NAME).unlink()
    (tmp_path / f"{NAME}.gz").write_bytes(gzip.compress(b"".join(lines)))
    assert len(splits(tmp_path)) == 5
    (tmp_path / f"{NAME}.gz").unlink()
    append(tmp_path / NAME, *lines)
    other = RunIndex(tmp_path, "run", Reading(backlog_bytes=1, jobs=0), limits=store_limits(range_bytes=64))
    other.rescan()
    while other.read():
        pass
    assert other.snapshot.splits == {"train": 6, "eval": 4}


def test_a_file_that_is_written_anew_is_told_anew(tmp_path: Path) -> None:
    append(tmp_path / NAME, table(1, "a1 a2"), table(1, "E1 E2"))
    assert set(splits(tmp_path)) == {(1, "train"), (1, "eval")}
    (tmp_path / NAME).unlink()
    append(tmp_path / NAME, table(1, "a1"), table(2, "E1 E2"))
    assert set(splits(tmp_path)) == {(1, "train"), (2, "train")}
