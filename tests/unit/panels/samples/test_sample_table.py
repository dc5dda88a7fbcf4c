"""The grid's table: its columns share models, and pages do not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from bokeh.document import Document

import rlpanel
from rlpanel.panels.samples.sample_table import column_width, grid_columns, table_of
from tests.factories import append, line

FRAME = pd.DataFrame(
    {"uid": ["a"], "prompt": ["p"], "reward": [0.5], "kl_k3_mean": [0.1], "response_tokens": [7.0]}
)


@pytest.mark.parametrize(
    ("turns", "calls", "second"),
    [(1, 0, "response_tokens"), (3, 0, "turns"), (1, 2, "turns")],
)
def test_turns_and_tools_lead_where_there_are_any(
    tmp_path: Path, turns: int, calls: int, second: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    fields = {"turns": turns, "tool_calls": calls, "response_tokens": ["a", "b"]}
    append(folder / "log.jsonl", *(line(step, tokens=False, **fields) for step in range(2)))
    columns = grid_columns(rlpanel.open_run(folder, follow=False).snapshot, "kl_k3")
    assert columns[:2] == ["reward", second]
    assert {"turns", "tool_calls"} <= {*columns}


def test_a_title_of_usual_length_is_not_cut() -> None:
    values = pd.Series([0.5])
    assert column_width("reward_gap", values) > column_width("reward", values)
    assert column_width("x" * 200, values) < 200


def test_two_pages_of_one_table_share_no_model() -> None:
    table = table_of(FRAME)
    first, second = (table.get_root(Document()).references() for _ in range(2))
    assert {model.id for model in first}.isdisjoint({model.id for model in second})
