"""The grid's table: its columns share models, and pages do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bokeh.document import Document
from bokeh.models.widgets.tables import NumberFormatter

import rlpanel
from rlpanel.panels.samples.sample_table import _width, grid_columns, table_of
from tests.factories import append, line

FRAME = pd.DataFrame(
    {"uid": ["a"], "prompt": ["p"], "reward": [0.5], "kl_k3_mean": [0.1], "response_tokens": [7.0]}
)


def format_of(formatter: Any) -> str:
    """Return the number format; from Panel 1.10 on the browser gets a dict instead of a model."""
    return str(formatter["format"] if isinstance(formatter, dict) else formatter.format)


def test_numbers_share_a_formatter_by_their_format() -> None:
    table = table_of(FRAME).get_root(Document())
    found = {column.title: column.formatter for column in table.columns}
    formats = [format_of(found[name]) for name in ("reward", "KL k3 mean", "response length")]
    assert formats == ["0,0.000", "0,0.000", "0,0"]
    models = [model for model in table.references() if isinstance(model, NumberFormatter)]
    assert len(models) <= len(set(formats))


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
    assert _width("reward_gap", values) > _width("reward", values)
    assert _width("x" * 200, values) < 200


def test_two_pages_of_one_table_share_no_model() -> None:
    table = table_of(FRAME)
    first, second = (table.get_root(Document()).references() for _ in range(2))
    assert {model.id for model in first}.isdisjoint({model.id for model in second})
