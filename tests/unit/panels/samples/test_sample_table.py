"""Columns of the grid: their order, titles and widths."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import rlpanel
from rlpanel.panels.samples.sample_table import columns_of, grid_columns
from tests.factories import append, line


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
    values = {name: [0.5] for name in ("reward", "reward_gap", "x" * 200)}
    usual, longer, longest = (column.width for column in columns_of(pd.DataFrame(values)))
    assert usual < longer
    assert longest < 200
