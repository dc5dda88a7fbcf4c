"""Lines with equal keys are read as columns and give the same values as single records."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.sources.adapters.native import Native
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import Block
from rlpanel.sources.records.column_batch import ColumnBatch, ColumnReader
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Adapter, Chunk, Record, RecordList
from rlpanel.store.columns import row_builder
from rlpanel.store.columns.row_builder import RowBuilder, Rows
from tests.property import strategies

LOG = "rollout_data_rank_3.jsonl"
LINE: dict[str, Any] = {
    "prompt": "渔歌 🙂",
    "step": 3,
    "reward": 0.5,
    "response": "bad \ufffd",
    "response_tokens": ["a", "b"],
    "logprobs": [-1.0, -2.0],
    "values": [1, 2.5],
    "group": 7,
    "mine": 2,
    "kind": "x",
    "messages_of": [{"role": "user"}],
    "ground_truth": "t",
    "rewards": {"format": 1.0, "truth": None},
}


def read(*rows: dict[str, Any] | bytes, name: str = LOG) -> Chunk:
    """Read the lines, good or bad, as one chunk."""
    file, chunk = JsonlFile(name, name, Native()), Chunk()
    offset = 0
    for row in rows:
        line = (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n"
        file.add_block(Block(0, offset, line, len(line)), chunk)
        offset += len(line)
    return chunk


def one_by_one(*rows: dict[str, Any], name: str = LOG) -> list[Record]:
    """The same lines as the adapter reads them."""
    lines = (json.dumps(row).encode() for row in rows)
    return [record for line in lines for record in Native().read(parse(line), name, full=False)]


def plain(record: Record) -> dict[str, Any]:
    """A record's parts, arrays as lists; of what was odd only how much."""
    found = {f.name: getattr(record, f.name) for f in fields(record)}
    found["arrays"] = {name: array.tolist() for name, array in record.arrays.items()}
    return found | {"notes": len(record.notes)}


def assert_same(found: list[Record], expected: list[Record]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_equal(plain(one), plain(other))
        assert list(one.numbers) == list(other.numbers)


@pytest.mark.parametrize("missing", ["", *sorted(LINE.keys() - {"step", "prompt"})])
def test_equal_lines_are_one_batch_that_tells_what_records_tell(missing: str) -> None:
    line = {key: value for key, value in LINE.items() if key != missing}
    rows = [line, line | {"step": 4}, line | dict.fromkeys(line.keys() & {"reward", "group"})]
    chunk = read(*rows)
    assert [type(part) for part in chunk.parts] == [ColumnBatch]
    assert_same(chunk.records, one_by_one(*rows))


@pytest.mark.parametrize(
    "odd",
    [
        {"step": "4"},
        {"prompt": None},
        {"prompt": [{"role": "user", "content": "q"}]},
        {"prompt": '[{"role": "user", "content": "q"}]'},
        {"response": "[{'role': 'assistant', 'content': 'a'}]"},
        {"response": '[{"role": "cut off'},
        {"reward": "0.5"},
        {"reward": [1.0]},
        {"mine": "text"},
        {"mine": None},
        {"kind": 5},
        {"group": [1]},
        {"messages_of": "a word"},
        {"logprobs": [None, -1.0]},
        {"logprobs": [[-1.0, -2.0]]},
        {"logprobs": [-1.0]},
        {"logprobs": [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}]},
        {"response_tokens": [["a", "b"], ["c"]]},
        {"response_tokens": [["a", "b"], ["c"]], "logprobs": [], "values": []},
        {"mine": 2**53},
        {"mine": -(2**53)},
        {"values": {"a": 1}},
        {"reward": {"score": 1.0}},
        {"rewards": {"format": {"score": 1, "weight": 2}, "truth": {"score": 1, "weight": 1}}},
        {"meta_info": {"output_token_logprobs": [[-1.0, 7, "a"]]}},
        {"logprobs": None},
        {"logprobs": [float("nan"), -1.0]},
        {"response_tokens": "ab"},
        {"rewards": {"format": 1.0}},
        {"rewards": {"truth": 1.0, "format": 1.0}},
        {"rewards": {"format": "x", "truth": 1.0}},
        {"one_more": 1},
    ],
    ids=str,
)
def test_an_odd_line_is_read_as_a_record_among_others(odd: dict[str, Any]) -> None:
    rows = [LINE, LINE | odd, LINE]
    chunk = read(*rows)
    assert [type(part) for part in chunk.parts] == [ColumnBatch, RecordList, ColumnBatch]
    assert_same(chunk.records, one_by_one(*rows))


@pytest.mark.parametrize(
    "other",
    [
        {"logprobs": [], "response_tokens": [], "values": []},
        {"logprobs": []},
        {"logprobs": [[-1.0], [-2.0]]},
        {"kind": "x" * 200},
        {"group": None},
        {"group": "g"},
        {"rewards": {"format": True, "truth": 2}},
        {"prompt": "see data:image/png;base64,AAAA== there"},
        {"response": "no;base64,image"},
        {"response": '{"answer": 4}', "prompt": "[INST] q [/INST]"},
        {"response": "", "prompt": ""},
    ],
    ids=str,
)
def test_what_differs_in_its_values_alone_stays_in_the_batch(other: dict[str, Any]) -> None:
    rows = [LINE, LINE | other, LINE]
    chunk = read(*rows)
    assert [type(part) for part in chunk.parts] == [ColumnBatch]
    assert_same(chunk.records, one_by_one(*rows))


FLAT = {key: value for key, value in LINE.items() if not isinstance(value, list)}


def read_block(*rows: dict[str, Any], adapter: Adapter, name: str) -> Chunk:
    """Read the lines as one block, so that those without lists are parsed in one call."""
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    file, chunk = JsonlFile(name, name, adapter), Chunk()
    file.add_block(Block(0, 0, data, len(data)), chunk)
    return chunk


@pytest.mark.parametrize(
    "odd",
    [
        {"reward": 10**400},
        {"reward": -(10**400)},
        {"reward": 2**63},
        {"mine": 10**300},
        {"mine": 2**53},
        {"mine": "1_2"},
        {"reward": "1_2"},
        {"reward": {"score": 1.0}},
        {"group": 2**70},
        {"group": True},
        {"reward": float("nan")},
        {"reward": None},
        {"step": 2**60},
        {"step": 2.0},
        {"prompt": None},
        {"kind": None},
        {"rewards": {"truth": 1.0, "format": 1.0}},
        {"rewards": [1.0]},
        {"rewards": {"format": 10**400, "truth": 1}},
        {"ground_truth": [{"a": 1}]},
        {"one_more": 1},
        {"prompt": '[{"role": "user", "content": "q"}]'},
        {"response": '{"role": "assistant", "content": "a", "tool_calls": []}'},
        {"response": '{"answer": 4}', "prompt": "[INST] q"},
        {"response": ""},
        {"prompt": "\ud83d"},
    ],
    ids=lambda odd: str(odd)[:40],
)
def test_lines_without_lists_are_parsed_together_and_tell_what_records_tell(odd: dict[str, Any]) -> None:
    rows = [FLAT, FLAT | {"step": 4}, FLAT | odd, FLAT, FLAT]
    chunk = read_block(*rows, adapter=Native(), name=LOG)
    good = [row for row in rows if row["step"] != 2**60]
    assert any(isinstance(part, ColumnBatch) for part in chunk.parts)
    assert_same(chunk.records, one_by_one(*good))
    assert [bad.line for bad in chunk.bad] == [3] * (len(rows) - len(good))


def test_verls_lines_are_columns_with_its_step_and_uid() -> None:
    row = {"input": "q", "output": "a", "score": 1.0, "gts": [1], "acc": True}
    uids = ["p_0_0", "p_1_0", f"pad{'0' * 32}_0_0", "own", "p_q_1_2"]
    rows = [row | {"uid": uid} for uid in uids]
    for lines in (rows, [rows[3], rows[3], *rows], [row] * 5, [row | {"turns": [1, 2]}] * 5):
        chunk = read_block(*lines, adapter=Verl(), name="7.jsonl")
        expected = [record for line in lines for record in Verl().read(line, "7.jsonl", full=False)]
        assert any(isinstance(part, ColumnBatch) for part in chunk.parts)
        assert_same(chunk.records, expected)


@pytest.mark.parametrize("rewards", [{}, {"rewards": {"a": 1.0}}], ids=str)
def test_lines_with_a_single_text_are_read(rewards: dict[str, Any]) -> None:
    rows = [{"output": text} | rewards for text in ("ab", "cd", "e")]
    found = read_block(*rows, adapter=Verl(), name="7.jsonl").records
    assert [(record.step, record.texts) for record in found] == [
        (7, {"response": row["output"]}) for row in rows
    ]


@pytest.mark.parametrize("without", ["", "response_tokens", "logprobs"])
def test_tokens_are_counted_by_the_loss_mask_as_in_records(without: str) -> None:
    """A mask of zeros, or with a value that is neither 0 nor 1, stays in the batch, unlike labels."""
    masks = [[1, 0], [1, 1], [0, 0], [0], [], [1, 0, 0], [0.5, 0], [-100, 7]]
    masked = LINE | {"loss_mask": [1, 0]}
    rows = [
        {key: value for key, value in (masked | {"loss_mask": mask}).items() if key != without}
        for mask in masks
    ]
    chunk = read(*rows)
    batches = [len(part) for part in chunk.parts if isinstance(part, ColumnBatch)]
    assert batches[0] >= 3
    assert_same(chunk.records, one_by_one(*rows))
    found = rows_of(chunk).numbers
    assert found["response_tokens"].tolist() == [1, 2, 2, 2, 2, 2, 1, 1]
    assert found["trajectory_tokens"].tolist() == [2] * 8


def test_a_line_that_tells_its_rank_or_an_evaluation_is_what_it_says() -> None:
    name = "rollout_data_rank0_val2.jsonl"
    rows = [{"step": 1, "prompt": "p", "rank": 5}, {"step": 1, "prompt": "p", "rank": 6}]
    found = read(*rows, name=name).records
    assert [(record.rank, record.labels) for record in found] == [
        (5, {"split": "eval"}),
        (6, {"split": "eval"}),
    ]


def test_a_bad_line_among_others_is_bad() -> None:
    chunk = read(LINE, LINE | {"step": 2**60}, LINE)
    assert (len(chunk), [bad.line for bad in chunk.bad]) == (2, [2])


def test_of_a_key_that_comes_twice_the_last_value_counts() -> None:
    twice = b'{"step": 1, "prompt": "p", "reward": 1.0, "reward": 2.0, "logprobs": [-1.0]}'
    once = {"step": 1, "prompt": "p", "reward": 0.0, "logprobs": [-1.0]}
    assert [record.numbers["reward"] for record in read(once, twice, once).records] == [0.0, 2.0, 0.0]


def test_a_log_without_any_order_is_soon_read_as_records() -> None:
    rows = [LINE if at % 2 else {"step": 1, "prompt": "p", f"key_{at}": 1} for at in range(400)]
    chunk = read(*rows)
    assert sum(isinstance(part, ColumnBatch) for part in chunk.parts) < 40
    assert_same(chunk.records, one_by_one(*rows))


def test_a_log_that_changes_its_keys_becomes_a_batch_again() -> None:
    other = {key: value for key, value in LINE.items() if key != "values"}
    chunk = read(*[LINE] * 20, *[other] * 40)
    assert [type(part) for part in chunk.parts] == [ColumnBatch, RecordList, ColumnBatch]
    assert (len(chunk.parts[0]), len(chunk.parts[2])) > (19, 30)


def rows_of(chunk: Chunk) -> Rows:
    stage = RowBuilder()
    stage.add_chunk(0, chunk)
    rows = stage.flush()
    assert rows is not None
    return rows


@pytest.mark.parametrize(
    ("odd", "ended"),
    [
        ({"truncated": True}, 0.0),
        ({"truncated": None}, np.nan),
        ({"finish_reason": "stop"}, 1.0),
        ({"finish_reason": "LENGTH"}, 0.0),
        ({"finish_reason": None}, np.nan),
    ],
    ids=str,
)
def test_how_a_response_ended_is_known_as_of_records(odd: dict[str, Any], ended: float) -> None:
    usual = {"truncated": False} if "truncated" in odd else {"finish_reason": "stop"}
    found = rows_of(read(LINE | usual, LINE | odd))
    np.testing.assert_array_equal(found.numbers["ended"], [1.0, ended])


masked_samples = st.builds(
    lambda sample, tokens, mask: sample | {"response_tokens": tokens, "loss_mask": mask},
    *(
        strategies.samples(),
        st.lists(strategies.text, max_size=3),
        st.lists(st.sampled_from([0, 1]), max_size=3),
    ),
)


@given(st.lists(strategies.samples() | masked_samples, min_size=1, max_size=8), st.integers(1, 3))
def test_whatever_lines_come_their_rows_are_those_of_records(
    samples: list[dict[str, Any]], times: int
) -> None:
    """Columns and values are exactly equal."""
    rows = [sample for sample in samples for _ in range(times)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_builder, "MIN_BATCH_SAMPLES", 1)
        found = rows_of(read(*rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ColumnReader, "add_line", lambda self, line, chunk: False)
        expected = rows_of(read(*rows))
    np.testing.assert_equal(dict(found.metadata), dict(expected.metadata))
    np.testing.assert_equal(dict(found.numbers), dict(expected.numbers))
    assert {name: list(texts) for name, texts in found.labels.items()} == expected.labels


def test_a_file_on_disk_is_read_by_the_column_reader(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b"".join(json.dumps(LINE).encode() + b"\n" for _ in range(50)))
    (chunk,) = JsonlFile(str(tmp_path / LOG), LOG, Native()).poll(1 << 20)
    assert [len(part) for part in chunk.parts] == [50]
