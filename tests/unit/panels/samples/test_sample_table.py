"""The grid's table: its columns share models, and pages do not."""

from __future__ import annotations

from typing import Any

import pandas as pd
from bokeh.document import Document
from bokeh.models.widgets.tables import NumberFormatter

from rlpanel.panels.samples.sample_table import table_of

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


def test_two_pages_of_one_table_share_no_model() -> None:
    table = table_of(FRAME)
    first, second = (table.get_root(Document()).references() for _ in range(2))
    assert {model.id for model in first}.isdisjoint({model.id for model in second})
