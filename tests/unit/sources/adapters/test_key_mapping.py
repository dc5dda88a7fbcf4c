"""Files that are read through the user's mapping: one sample per line, columnar lines and rows of parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.schema import Sample
from tests.factories import append

MAP = {"prompt": "question", "response": "answer", "reward": "score", "step": "iteration"}
COLUMNS = {
    "iteration": [3, 3, 4],
    "question": ["p", "p", "q"],
    "answer": ["a", "b", "c"],
    "score": [1.0, None, 0.5],
    "source": ["web", "web", "book"],
}


def read(
    folder: Path, *documents: dict[str, Any], mapping: dict[str, str] = MAP, name: str = "log.jsonl"
) -> tuple[pd.DataFrame, list[Sample], pd.DataFrame]:
    """Read documents as lines with a mapping; returns the samples twice, and the bad lines."""
    keys = "".join(f"{json.dumps(name)} = {json.dumps(key)}\n" for name, key in mapping.items())
    (folder / "rlpanel.toml").write_text(f"[map]\n{keys}")
    if documents:
        append(folder / name, *(json.dumps(each).encode() + b"\n" for each in documents))
    with rlpanel.open_run(folder, follow=False) as run:
        frame = run.samples(text=True)
        return frame, [run.sample(uid) for uid in frame["uid"]], run.errors


def rows(frame: pd.DataFrame, *columns: str) -> list[list[Any]]:
    picked = frame[list(columns)].astype(object)
    return picked.where(picked.notna(), None).values.tolist()


# -- columnar lines ----------------------------------------------------------------------------------


def test_a_columnar_line_gives_a_sample_for_each_item(tmp_path: Path) -> None:
    frame, samples, errors = read(tmp_path, COLUMNS, {**COLUMNS, "iteration": [5, 5, 5]})
    assert errors.empty
    assert rows(frame, "step", "prompt", "response", "reward", "source")[:4] == [
        [3, "p", "a", 1.0, "web"],
        [3, "p", "b", None, "web"],
        [4, "q", "c", 0.5, "book"],
        [5, "p", "a", 1.0, "web"],
    ]
    assert (samples[2].prompt, samples[2].response, samples[2].line) == ("q", "c", 1)


def test_a_long_columnar_line_is_read_as_a_short_one(tmp_path: Path) -> None:
    frame, _, _ = read(tmp_path, {key: 1000 * values for key, values in COLUMNS.items()})
    assert len(frame) == 3000
    assert rows(frame, "step", "response")[-1] == [4, "c"]


def test_single_values_of_a_columnar_line_belong_to_all_samples(tmp_path: Path) -> None:
    shared = {"iteration": 7, "lr": 0.5, "seed": None, "tags": ["x"], "note": {"a": [1]}}
    frame, samples, _ = read(tmp_path, {**COLUMNS, **shared})
    assert rows(frame, "step", "lr") == [[7, 0.5]] * 3
    assert all("seed" in sample.extra for sample in samples)
    assert [(sample.extra["tags"], sample.extra["note"]) for sample in samples] == [(["x"], {"a": [1]})] * 3


def test_the_step_of_a_columnar_line_may_be_in_the_files_name(tmp_path: Path) -> None:
    columns = {key: values for key, values in COLUMNS.items() if key != "iteration"}
    frame, _, _ = read(tmp_path, columns, name="step_12.jsonl")
    assert frame["step"].tolist() == [12, 12, 12]


def test_lists_inside_objects_are_columns_if_they_are_mapped(tmp_path: Path) -> None:
    columns = {**COLUMNS, "score": {"total": [1.0, 2.0, 3.0], "format": [0.0, 0.0, 1.0]}}
    mapping = {**MAP, "reward": "score.total", "rewards/format": "score.format"}
    frame, _, _ = read(tmp_path, columns, mapping=mapping)
    assert rows(frame, "reward", "rewards/format") == [[1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]


def test_token_arrays_of_a_columnar_line_are_the_samples_own(tmp_path: Path) -> None:
    logprobs = [[-1.0], [-2.0, -3.0], [-4.0]]
    _, samples, _ = read(tmp_path, {**COLUMNS, "logprobs": logprobs})
    assert [sample.arrays()["logprobs"].tolist() for sample in samples] == logprobs


def test_a_list_of_conversations_is_columnar_and_one_conversation_is_not(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "user", "content": "go"}]
    reply = [{"role": "assistant", "content": "a"}]
    one = {"iteration": 1, "question": talk, "answer": reply}
    two = {"iteration": 2, "question": [talk, talk], "answer": [reply, reply]}
    frame, samples, errors = read(tmp_path, one, two)
    assert errors.empty
    assert frame["step"].tolist() == [1, 2, 2]
    assert {(sample.prompt, sample.response) for sample in samples} == {
        (samples[0].prompt, samples[0].response)
    }


def test_a_columnar_line_without_items_has_no_samples(tmp_path: Path) -> None:
    frame, _, errors = read(tmp_path, COLUMNS, {key: [] for key in COLUMNS})
    assert (len(frame), len(errors)) == (3, 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({**COLUMNS, "score": [1]}, "lists of unequal length: 'iteration' 3, 'question' 3, 'answer' 3, 'sc"),
        ({**COLUMNS, "iteration": [3, 3]}, "lists of unequal length: 'iteration' 2, 'question' 3"),
        ({**COLUMNS, "logprobs": [-1.0]}, "lists of unequal length"),
        ({**COLUMNS, "iteration": ["x", 3, 3]}, "'step' is not an integer: 'x'"),
        ({"iteration": [3], "score": [1.0]}, "neither 'question' nor 'answer', which the mapping requires"),
        ({"iteration": 3, "question": 65_536 * ["p"]}, "65,536 samples in one line; the limit is 65,535"),
        (
            {"iteration": 3, "question": 1001 * ["p"], **{f"k{at}": at for at in range(999)}},
            "1,002,001 values in one line; the limit is 1,000,000",
        ),
    ],
)  # fmt: skip
def test_a_columnar_line_that_does_not_fit_hides_no_good_one(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    frame, _, errors = read(tmp_path, COLUMNS, bad, COLUMNS)
    assert len(frame) == 6
    assert errors["line"].tolist() == [2]
    assert errors["reason"][0].startswith(reason)


# -- parquet -----------------------------------------------------------------------------------------


def write_parquet(folder: Path, table: dict[str, list[Any]]) -> None:
    pq.write_table(pa.table(table), folder / "rollouts.parquet")


def test_rows_of_parquet_are_mapped(tmp_path: Path) -> None:
    write_parquet(tmp_path, COLUMNS)
    frame, samples, errors = read(tmp_path)
    assert errors.empty
    assert rows(frame, "step", "prompt", "response", "reward", "source") == [
        [3, "p", "a", 1.0, "web"],
        [3, "p", "b", None, "web"],
        [4, "q", "c", 0.5, "book"],
    ]
    assert samples[2].line == 3


def test_nested_columns_of_parquet_are_mapped(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hi"}]
    table = {**COLUMNS, "question": [talk] * 3, "score": [{"total": 1.0}, {"total": None}, {"total": 0.5}]}
    write_parquet(tmp_path, table)
    frame, samples, errors = read(tmp_path, mapping={**MAP, "reward": "score.total"})
    assert errors.empty
    assert rows(frame, "reward", "response") == [[1.0, "a"], [None, "b"], [0.5, "c"]]
    assert "hi" in (samples[0].prompt or "")


def test_a_row_of_parquet_may_be_columnar(tmp_path: Path) -> None:
    write_parquet(tmp_path, {key: [values, values] for key, values in COLUMNS.items()})
    frame, _, errors = read(tmp_path)
    assert errors.empty
    assert frame["response"].tolist() == ["a", "b", "c"] * 2
