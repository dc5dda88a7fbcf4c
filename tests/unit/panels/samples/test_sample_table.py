"""The grid's table: its columns share models, and pages do not."""

from __future__ import annotations

import pandas as pd
from bokeh.document import Document
from bokeh.models.widgets.tables import NumberFormatter

from rlpanel.panels.samples.sample_table import table_of

FRAME = pd.DataFrame(
    {"uid": ["a"], "prompt": ["p"], "reward": [0.5], "kl_k3_mean": [0.1], "response_tokens": [7.0]}
)


def formatters() -> dict[str, object]:
    columns = table_of(FRAME).get_root(Document()).columns
    return {column.title: column.formatter for column in columns}


def test_numbers_share_a_formatter_by_their_format() -> None:
    found = formatters()
    reward, kl, tokens = (found[name] for name in ("reward", "KL k3 mean", "response length"))
    assert reward is kl
    assert isinstance(reward, NumberFormatter)
    assert isinstance(tokens, NumberFormatter)
    assert (reward.format, tokens.format) == ("0,0.000", "0,0")


def test_two_pages_of_one_table_share_no_model() -> None:
    table = table_of(FRAME)
    first, second = (table.get_root(Document()).references() for _ in range(2))
    assert {model.id for model in first}.isdisjoint({model.id for model in second})
