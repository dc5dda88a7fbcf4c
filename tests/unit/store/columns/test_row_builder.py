"""Records are collected and become rows; a missing value affects only its own row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.columns import row_builder
from rlpanel.store.columns.row_builder import RowBuilder
from rlpanel.store.columns.row_table import RowTable, counts
from tests.factories import append


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_builder, "BATCH_RECORDS", 2)


def chunks(folder: Path, *rows: dict[str, Any]) -> list[Chunk]:
    """A chunk for each row, as a reader gives them."""
    path, file = folder / "x.jsonl", JsonlFile(str(folder / "x.jsonl"), "x.jsonl", Native())
    found = []
    for row in rows:
        append(path, json.dumps({"step": 1, "prompt": "p"} | row).encode() + b"\n")
        found += list(file.poll(1 << 20))
    return found


def test_what_a_part_lacks_is_missing_in_its_rows(tmp_path: Path) -> None:
    stage = RowBuilder()
    for chunk in chunks(tmp_path, {"a": 1}, {"a": 2}, {"b": 3}, {"kind": "x"}, {"logprobs": [-4.0]}):
        stage.add_chunk(0, chunk)
    rows = stage.flush()
    assert rows is not None
    nan = np.nan
    np.testing.assert_array_equal(rows.numbers["a"], [1, 2, nan, nan, nan])
    np.testing.assert_array_equal(rows.numbers["b"], [nan, nan, 3, nan, nan])
    np.testing.assert_array_equal(rows.numbers["surprisal_sum"], [nan, nan, nan, nan, 4])
    assert rows.labels["kind"] == [None, None, None, "x", None]


def test_rows_know_their_file_and_place(tmp_path: Path) -> None:
    stage = RowBuilder()
    for file, chunk in enumerate(chunks(tmp_path, {"step": 7}, {"step": 8}, {"step": 9, "rank": 3})):
        stage.add_chunk(file, chunk)
    rows = stage.flush()
    assert rows is not None
    found = {name: rows.metadata[name].tolist() for name in ("file", "step", "rank", "line")}
    assert found == {"file": [0, 1, 2], "step": [7, 8, 9], "rank": [-1, -1, 3], "line": [1, 2, 3]}


def test_nothing_taken_gives_nothing() -> None:
    assert RowBuilder().flush() is None


def test_it_is_empty_after_it_gave(tmp_path: Path) -> None:
    stage = RowBuilder()
    for chunk in chunks(tmp_path, {}, {}, {}):
        stage.add_chunk(0, chunk)
    before = len(stage)
    stage.flush()
    assert (before, len(stage)) == (3, 0)


def test_rows_that_wait_die_with_their_file(tmp_path: Path) -> None:
    table = RowTable()
    table.files = ["a.jsonl", "b.jsonl"]
    first, second = chunks(tmp_path, {"reward": 1.0}, {"reward": 2.0})
    table.add_chunk(0, first, 1)
    table.add_chunk(1, second, 1)
    table.mark_dead([0], 1)
    assert (counts(table.state[:2]).tolist(), table.steps.freeze()["train"].mean("reward").tolist()) == (
        [False, True],
        [2.0],
    )
