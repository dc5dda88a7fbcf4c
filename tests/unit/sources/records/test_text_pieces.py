"""Texts that are logged in pieces, and lists of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel import open_run
from rlpanel.sources.records.text_pieces import are_pieces

_PIECES = ["We", " can", " add", " one", ",", " then", " two", ".", "\n", "It", " is", " three", "."] * 4


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (_PIECES, True),
        (_PIECES[:20], False),
        ([f" {at}" for at in range(64)], False),
        (["Yes.", "No."] * 32, False),
        ([*_PIECES, 4], False),
        (["We can add one, then two. "] * 64, False),
    ],
)
def test_pieces_are_short_and_some_begin_with_a_space(values: list[object], expected: bool) -> None:
    assert are_pieces(values) is expected


def test_a_response_in_pieces_is_one_sample(tmp_path: Path) -> None:
    lines = [{"user_prompt": f"Add {at}.", "completion": _PIECES, "score": 1.0} for at in range(3)]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert list(rows["response"]) == ["".join(_PIECES)] * 3
