"""Cells have the numbers of the heads, and tell what an agent did."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.panels.samples.grid_cells import AGENT_LINES, CELL_CHARS, COLUMN, sample_cells
from rlpanel.panels.samples.sample_table import columns_of, frame_of
from rlpanel.panels.tables.data_table import DataTable
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.texts.prompt_parts import TextStyle
from tests.factories import append, line

CALL = '<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>'


def test_cells_have_the_numbers_of_the_heads() -> None:
    frame = pd.DataFrame({"uid": list("abcde"), "reward": [1.5, 0.0, -0.4791, float("nan"), 123456789.0]})
    wanted = ["1.5", "0", "−0.479", "–", "123,456,789"]
    assert sample_cells(frame, "reward") == wanted


@pytest.mark.parametrize("agents", [False, True])
def test_a_cell_holds_what_a_column_shows_and_a_filter_sees_more(agents: bool) -> None:
    frame = pd.DataFrame({"uid": ["a"], "response": ["x" * 1990 + " end"]})
    frame.attrs[AGENT_LINES] = agents
    table = DataTable(columns_of(frame), cells=sample_cells)
    table.draw(frame)
    table.receive({"filters": {"response": "end"}})
    assert json.loads(table.rows)["cells"] == [["x" * CELL_CHARS + "…"]]


def test_a_thumbnail_is_not_cut() -> None:
    address = f"data:image/png;base64,{'A' * CELL_CHARS}"
    assert sample_cells(pd.DataFrame({COLUMN: [address]}), COLUMN) == [address]


@pytest.mark.parametrize("searched", [False, True])
def test_a_response_shows_its_calls_unless_it_was_searched(tmp_path: Path, searched: bool) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "log.jsonl", line(1, response=f"{CALL}It is 7.", tokens=False))
    view = rlpanel.open_run(folder, follow=False).view
    rows, tests = (
        view.snapshot.alive_rows,
        [TextPredicate("response", "contains", "arguments")] if searched else [],
    )
    texts = {0: {"prompt": "2+5?", "response": f"{CALL}It is 7."}}
    outcome = QueryResult(rows, 1, tests=tuple(tests))
    frame = frame_of(view, rows, texts, outcome, None, Display(), TextStyle(), whole_run=False)
    found = '…"arguments": {"a": 2}}</tool_call>It is 7.'
    assert sample_cells(frame, "response") == [found if searched else "add(a=2) → It is 7."]
    table = DataTable(columns_of(frame), cells=sample_cells)
    table.draw(frame)
    table.receive({"filters": {"response": "tool_call"}})
    assert len(table.current) == 1, "a column's filter looks at the text as logged"
