"""Lists of a line that are as long as the tokens are arrays of their own names, without a declaration."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel import Run, open_run
from rlpanel.schema import MAX_TOKEN_ARRAYS, TOKEN_ARRAYS_LEFT_OUT
from tests.factories import append

Line = dict[str, Any]


def lines(count: int = 12, seed: int = 0) -> list[Line]:
    """Return lines with lists beside the fields: numbers, booleans, whole numbers, nested."""
    chance, made = random.Random(seed), []
    for index in range(count):
        tokens = [chance.choice("abc") for _ in range(chance.randint(5, 30))]
        size = len(tokens)
        made.append(
            {
                "step": index // 4, "prompt": "p", "response": "".join(tokens), "reward": 1.0,
                "response_tokens": tokens,
                "loss_mask": [int(position % 3 > 0) for position in range(size)],
                "score": [chance.gauss(0, 1) for _ in tokens],
                "kept": [chance.random() < 0.5 for _ in tokens],
                "layer": [chance.randrange(9) for _ in tokens],
                "gaps": [None if position % 2 else 1.5 for position in range(size)],
                "token_data": {"inner": {"grad": [chance.random() for _ in tokens]}, "name": "n"},
                "stop_ids": [1, 2],
                "words": tokens,
            }
        )  # fmt: skip
    return made


def opened(folder: Path, rows: list[Line]) -> Run:
    folder.mkdir(exist_ok=True)
    append(folder / "rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    return open_run(folder, follow=False)


def test_columns_are_those_of_the_finite_values_in_the_loss_mask(tmp_path: Path) -> None:
    rows = lines()
    with opened(tmp_path / "run", rows) as run:
        snapshot = run.snapshot
        arrays = {
            "score": lambda row: row["score"],
            "kept": lambda row: row["kept"],
            "layer": lambda row: row["layer"],
            "gaps": lambda row: row["gaps"],
            "token_data.inner.grad": lambda row: row["token_data"]["inner"]["grad"],
        }
        found = [name for name in snapshot.numbers if name.startswith("token_")]
        assert sorted(found) == sorted(
            f"token_{kind}.{name}" for kind in ("mean", "min", "max") for name in arrays
        )
        for name, get in arrays.items():
            for kind, reduce in (("mean", np.nanmean), ("min", np.nanmin), ("max", np.nanmax)):
                expected = [
                    reduce(np.array(get(row), float)[np.array(row["loss_mask"]) == 1]) for row in rows
                ]
                np.testing.assert_allclose(snapshot.number(f"token_{kind}.{name}"), expected)


def test_lines_without_objects_give_the_same_columns_as_records(tmp_path: Path) -> None:
    """Lines with equal keys are read as columns; a text in `reward` makes records of the others."""
    rows = [{key: value for key, value in row.items() if key != "token_data"} for row in lines(40)]
    slow = [row | ({"extra": {"kind": 1}} if index % 2 else {}) for index, row in enumerate(rows)]
    with opened(tmp_path / "fast", rows) as fast, opened(tmp_path / "slow", slow) as other:
        names = [name for name in fast.snapshot.numbers if name.startswith("token_")]
        assert names == [name for name in other.snapshot.numbers if name.startswith("token_")] != []
        for name in names:
            np.testing.assert_array_equal(fast.snapshot.number(name), other.snapshot.number(name), name)


def test_a_sample_has_its_arrays_with_their_types(tmp_path: Path) -> None:
    rows = lines()
    with opened(tmp_path / "run", rows) as run:
        sample = run.sample(run.snapshot.uid(3))
        kinds = {name: array.dtype.kind for name, array in sample.token_arrays.items()}
        assert kinds == {"score": "f", "kept": "b", "layer": "i", "gaps": "f", "token_data.inner.grad": "f"}
        np.testing.assert_array_equal(sample.token_arrays["layer"], rows[3]["layer"])


def test_an_array_of_wrong_length_is_named_and_left_out(tmp_path: Path) -> None:
    rows = lines()
    rows[5]["score"] = rows[5]["score"][:-2]
    size = len(rows[5]["response_tokens"])
    with opened(tmp_path / "run", rows) as run:
        sample = run.sample(run.snapshot.uid(5))
        assert f"'score' has {size - 2} values for {size} tokens; it is left out" in sample.notes
        assert "score" not in sample.token_arrays
        assert np.isnan(run.snapshot.number("token_mean.score")).tolist() == [at == 5 for at in range(12)]
        assert "field_remarks" in run.snapshot.labels


def test_a_list_that_has_the_length_by_chance_is_no_array(tmp_path: Path) -> None:
    rows = lines()
    short = {"step": 3, "prompt": "p", "response": "ab", "response_tokens": ["a", "b"], "stop_ids": [1, 2]}
    with opened(tmp_path / "run", [*rows, short]) as run:
        assert "token_mean.stop_ids" not in run.snapshot.numbers
        assert run.sample(run.snapshot.uid(12)).token_arrays == {}
        assert not any("stop_ids" in note for note in run.sample(run.snapshot.uid(3)).notes)


@pytest.mark.parametrize("jobs", [0, 2])
def test_arrays_beyond_the_limit_are_counted(tmp_path: Path, jobs: int) -> None:
    many = {f"array_{number}": [0.5, 1.0, 2.0] for number in range(MAX_TOKEN_ARRAYS + 3)}
    base = {"prompt": "p", "response": "abc", "response_tokens": [*"abc"]}
    rows: list[Line] = [{"step": step, **base, **many} for step in range(6)]
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    with open_run(folder, follow=False, jobs=jobs) as run:
        snapshot = run.snapshot
        assert sum(name.startswith("token_mean.") for name in snapshot.numbers) == MAX_TOKEN_ARRAYS
        assert snapshot.number(TOKEN_ARRAYS_LEFT_OUT).tolist() == [3.0] * 6


def test_tokens_of_the_prompt_are_no_array(tmp_path: Path) -> None:
    rows = [
        {"step": step, "prompt": "p", "response": "abc", "response_tokens": [*"abc"], "prompt_ids": [1, 2, 3]}
        for step in range(3)
    ]
    with opened(tmp_path / "run", rows) as run:
        assert not any(name.startswith("token_") for name in run.snapshot.numbers)


def test_no_tokens_no_arrays(tmp_path: Path) -> None:
    row = {"step": 1, "prompt": "p", "response": "abc", "list": [1, 2, 3]}
    with opened(tmp_path / "run", [row]) as run:
        assert not any(name.startswith("token_") for name in run.snapshot.numbers)


def test_sql_and_the_table_of_tokens_have_the_arrays_by_name(tmp_path: Path) -> None:
    """An array with the name of a metric is called otherwise there."""
    rows = [row | {"value": [float(at) for at in range(len(row["score"]))]} for row in lines()]
    with opened(tmp_path / "run", rows) as run:
        found = run.sql("select uid, score, kept, logged_value from tokens(1) order by uid, position")
        uid = run.snapshot.uid(4)
        mine = found[found["uid"] == uid]
        np.testing.assert_allclose(mine["score"], rows[4]["score"])
        np.testing.assert_array_equal(mine["kept"], np.array(rows[4]["kept"], float))
        np.testing.assert_array_equal(mine["logged_value"], rows[4]["value"])
        table = run.tokens(uid=uid)
        np.testing.assert_allclose(table["score"], rows[4]["score"])
        assert "logged_value" in table.columns
        assert run.sql('select avg("token_mean.score") as m from samples')["m"].notna().all()
