"""Cells have the numbers of the heads, and tell what an agent did."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.panels.samples.cell_texts import cells_of
from rlpanel.panels.samples.sample_frame import frame_of
from rlpanel.panels.samples.sample_table import table_of
from rlpanel.panels.ui.field_names import field_of
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.texts.prompt_parts import TextStyle
from tests.factories import append, line

CALL = '<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>'


def test_cells_have_the_numbers_of_the_heads() -> None:
    frame = pd.DataFrame({"uid": list("abcde"), "reward": [1.5, 0.0, -0.4791, float("nan"), 123456789.0]})
    wanted = ["1.5", "0", "−0.479", "–", "123,456,789"]
    assert cells_of(frame, "reward") == wanted
    assert table_of(frame).get_root().source.data[field_of("reward")] == wanted


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
    table = table_of(frame)
    shown = table.get_root().source.data[field_of("response")]
    found = '…"arguments": {"a": 2}}</tool_call>It is 7.'
    assert shown == [found if searched else "add(a=2) → It is 7."]
    table.filters = [{"field": "response", "type": "like", "value": "tool_call"}]
    assert len(table.current_view) == 1, "a column's filter looks at the text as logged"
