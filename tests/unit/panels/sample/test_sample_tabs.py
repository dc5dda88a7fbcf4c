"""Which tab a sample opens with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.panels.sample.sample_tabs import tab_for
from tests.factories import append, line

TURNS = [
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes"},
]


@pytest.mark.parametrize(
    ("fields", "tab"),
    [
        ({"tokens": True}, "tokens"),
        ({"tokens": False}, "conversation"),
        ({"tokens": True, "messages": TURNS}, "conversation"),
    ],
)
def test_a_sample_without_tokens_opens_with_its_texts(
    tmp_path: Path, fields: dict[str, Any], tab: str
) -> None:
    append(tmp_path / "log.jsonl", line(1, **fields))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert tab_for(run.sample(run.samples()["uid"].iloc[0])) == tab


def test_without_a_sample_the_tokens_are_open() -> None:
    assert tab_for(None) == "tokens"
