"""Hostile lines need little memory, and their problems are reported."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.settings import Reading
from rlpanel.sources.adapters import NATIVE
from rlpanel.sources.adapters.columnar import Columnar
from rlpanel.sources.readers.jsonl import REASON_CHARS, JsonlFile
from rlpanel.sources.records.json_parser import MAX_KEYS, parse, parse_slow
from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.columns.row_builder import MAX_COLUMNS
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line

LOG = "rollout_data_rank_0.jsonl"
MANY = 10**6
START = b'{"step": 1, "prompt": "p", "response": "r", '


@contextmanager
def within(megabytes: float) -> Iterator[None]:
    """Assert that Python and numpy never allocate more than this inside the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    assert peak < megabytes


def poll(path: Path) -> Chunk:
    chunks = list(JsonlFile(str(path), path.name, NATIVE).poll(1 << 28))
    assert len(chunks) == 1
    return chunks[0]


def keys(count: int) -> bytes:
    return b",".join(b'"%d":1' % at for at in range(count))


@pytest.fixture(scope="module")
def million_keys() -> bytes:
    return START + keys(MANY) + b"}"


def test_a_line_of_a_million_keys_is_no_sample(million_keys: bytes) -> None:
    with within(1), pytest.raises(LineError, match="the line has 1,000,003 keys; the limit is 10,000"):
        parse(million_keys)


def test_without_the_fast_parser_the_same_is_said() -> None:
    with pytest.raises(LineError, match="the line has 10,004 keys; the limit is 10,000"):
        parse_slow(START + keys(MAX_KEYS + 1) + b"}")


def test_as_many_keys_as_may_be_are_read(tmp_path: Path) -> None:
    append(tmp_path / LOG, START + keys(MAX_KEYS - 3) + b"}\n")
    assert len(poll(tmp_path / LOG).records[0].numbers) == MAX_KEYS - 1


def test_a_million_rewards_are_left_out_and_said(tmp_path: Path, million_keys: bytes) -> None:
    append(tmp_path / LOG, START + b'"rewards": {' + keys(MANY) + b"}}\n")
    chunk = poll(tmp_path / LOG)
    assert chunk.records[0].notes == [
        "'rewards' has 1,000,000 entries; the limit is 10,000; the sample is kept without it"
    ]


def test_keys_that_no_line_repeats_do_not_fill_the_memory(tmp_path: Path) -> None:
    lines = [
        line(1, index=at, tokens=False, **{f"{at}-{key}": 1.0 for key in range(250)}) for at in range(400)
    ]
    append(tmp_path / LOG, *lines)
    index = RunIndex(tmp_path, "run", Reading(cache=False))
    index.rescan()
    with within(60):
        while index.read():
            pass
    assert index.snapshot.samples == 400
    assert len(index.snapshot.numbers) < MAX_COLUMNS + 50
    assert "the log has too many columns" in index.snapshot.problems[0]


def test_a_long_line_of_many_lists_is_no_sample() -> None:
    line = START + b'"x": [' + b"[]," * 6_000_000 + b"[]]}"
    with (
        within(1),
        pytest.raises(LineError, match="holds 6,000,003 lists and objects; the limit is 1,000,000"),
    ):
        parse(line)


@pytest.mark.parametrize("read", [parse, parse_slow])
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_without_end_is_no_sample(read: Callable[[bytes], Any], closed: bool) -> None:
    depth = 10**5
    with within(1), pytest.raises(LineError, match=r"not valid JSON: (nested too deeply|.*recursion)"):
        read(START + b'"x": ' + b"[" * depth + b"]" * (depth if closed else 0) + b"}")


@pytest.mark.parametrize("filler", [b"", b', "y": NaN'], ids=["fast", "slow"])
@pytest.mark.parametrize("depth", [150, 1000])
@pytest.mark.parametrize(
    "key", ["step", "prompt", "response_tokens", "logprobs", "rewards", "reward", "group", "x"]
)
def test_deep_nesting_anywhere_is_kept_or_said(tmp_path: Path, key: str, depth: int, filler: bytes) -> None:
    nested = b"[" * depth + b"]" * depth
    whole = {"step": 1, "prompt": "p", "response": "r"} | {key: 0}
    text = json.dumps(whole).encode().replace(f'"{key}": 0'.encode(), b'"%s": %s' % (key.encode(), nested))
    append(tmp_path / LOG, text[:-1] + filler + b"}\n", line(1))
    chunk = poll(tmp_path / LOG)
    assert len(chunk.records) + len(chunk.bad) == 2
    assert not [bad for bad in chunk.bad if "cannot be read" in bad.reason]
    file = JsonlFile(str(tmp_path / LOG), LOG, NATIVE)
    assert [file.fetch(locator).step for locator in chunk.locators] == [1] * len(chunk.records)


def test_a_key_too_long_for_a_column_is_left_out_and_cut_where_it_is_said(tmp_path: Path) -> None:
    append(tmp_path / LOG, line(1, tokens=False, **{"k" * 10**6: 1.0}, rewards={"w" * 10**6: 1.0}))
    notes = poll(tmp_path / LOG).records[0].notes
    assert ["has a name of 1,00" in note and len(note) < 200 for note in notes] == [True, True]
    assert str(LABEL_MAX) in notes[0]


def test_a_reason_does_not_repeat_the_whole_line(tmp_path: Path) -> None:
    columns = {"step": [1], "prompt": ["p"], "completion": ["c"], "k" * 10**6: 1}
    append(tmp_path / LOG, json.dumps(columns).encode() + b"\n")
    (chunk,) = JsonlFile(str(tmp_path / LOG), LOG, Columnar()).poll(1 << 28)
    assert [len(bad.reason) for bad in chunk.bad] == [REASON_CHARS]


def test_a_line_of_columns_with_too_many_values_is_no_sample() -> None:
    columns = {"step": [1] * 2000, "prompt": ["p"] * 2000} | {f"c{at}": [0] * 2000 for at in range(600)}
    with pytest.raises(LineError, match="1,204,000 values in one line; the limit is 1,000,000"):
        Columnar().read(columns, LOG, full=False)
