"""Files that are read through the user's mapping: one sample per line, columnar lines and rows of parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.schema import Sample
from rlpanel.sources.adapters.key_mapping import parse_mapping
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
    folder: Path, *documents: dict[str, Any], mapping: Mapping[str, str | int] = MAP, name: str = "log.jsonl"
) -> tuple[pd.DataFrame, list[Sample], pd.DataFrame]:
    """Read documents as lines with a mapping; returns the frame, its first samples, and the bad lines."""
    keys = "".join(f"{json.dumps(name)} = {json.dumps(key)}\n" for name, key in mapping.items())
    (folder / "rlpanel.toml").write_text(f"[map]\n{keys}")
    if documents:
        append(folder / name, *(json.dumps(each).encode() + b"\n" for each in documents))
    with rlpanel.open_run(folder, follow=False) as run:
        frame = run.samples(text=True)
        return frame, [run.sample(uid) for uid in frame["uid"][:100]], run.errors


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


def test_a_mapped_group_has_one_prompt_for_all_its_samples(tmp_path: Path) -> None:
    group = {"iteration": 2, "question": "p", "answer": ["a", "b", "c"], "score": [1, 0, 0.5], "lr": 0.5}
    frame, samples, errors = read(tmp_path, group, {**group, "iteration": 3})
    assert errors.empty
    assert rows(frame, "step", "prompt", "response", "reward", "lr")[:4] == [
        [2, "p", "a", 1.0, 0.5], [2, "p", "b", 0.0, 0.5], [2, "p", "c", 0.5, 0.5], [3, "p", "a", 1.0, 0.5],
    ]  # fmt: skip
    assert (samples[2].response, samples[2].line) == ("c", 1)


def test_the_rewards_of_a_mapped_group_may_be_inside_an_object(tmp_path: Path) -> None:
    group = {"iteration": 2, "question": "p", "out": {"texts": ["a", "b"]}, "score": {"total": [1, 0]}}
    mapping = {**MAP, "response": "out.texts", "reward": "score.total"}
    frame, _, _ = read(tmp_path, group, mapping=mapping)
    assert rows(frame, "response", "reward") == [["a", 1.0], ["b", 0.0]]


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


# -- logs without a step -----------------------------------------------------------------------------


def test_an_integer_is_the_step_of_all_lines(tmp_path: Path) -> None:
    """Also of a file whose name or lines have one: the mapping says so."""
    lines = [{"question": "p", "answer": "a"}, {"question": "q", "answer": "b", "step": 7}]
    frame, _, errors = read(tmp_path, *lines, mapping={"prompt": "question", "step": 3}, name="12.jsonl")
    assert errors.empty
    assert rows(frame, "step", "prompt", "logged_step") == [[3, "p", None], [3, "q", 7.0]]


def test_columns_of_a_log_without_a_step_are_samples_of_the_mapped_one(tmp_path: Path) -> None:
    lists = {"question": ["p", "q"], "answer": ["a", "b"]}
    frame, _, _ = read(tmp_path, lists, mapping={"prompt": "question", "response": "answer", "step": 0})
    assert rows(frame, "step", "prompt", "response") == [[0, "p", "a"], [0, "q", "b"]]


def test_a_key_that_is_called_like_a_number_is_written_in_quotes(tmp_path: Path) -> None:
    frame, _, _ = read(tmp_path, {"0": 5, "question": "p"}, mapping={"prompt": "question", "step": "0"})
    assert rows(frame, "step", "prompt") == [[5, "p"]]


@pytest.mark.parametrize(
    ("option", "step"), [("step=0", 0), ("step=-1", -1), ('step="0"', 5), ("step=iteration", 6)]
)
def test_the_option_says_which_step_a_line_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, step: int
) -> None:
    append(tmp_path / "log.jsonl", json.dumps({"0": 5, "iteration": 6, "question": "p"}).encode() + b"\n")
    monkeypatch.setenv("RLPANEL_MAP", f"prompt=question,{option}")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["step"].tolist() == [step]


def test_a_step_that_no_float_can_hold_is_refused() -> None:
    with pytest.raises(SettingError, match="the step must be below 2\\^53"):
        parse_mapping("step=9007199254740993")
