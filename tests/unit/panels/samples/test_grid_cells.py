"""Cells of the grid: what rows share is left out, and states have a sign."""

from __future__ import annotations

import pandas as pd

from rlpanel.panels.samples.grid_cells import (
    AGENT_LINES,
    DITTO,
    MATCH,
    sample_cells,
    without_shared_beginning,
)

CALL = '[assistant] [call] add({"a": 2})\n[tool] 4\n[assistant] It is 4.'


def test_a_prompt_stands_once_above_its_rows() -> None:
    page = pd.DataFrame({"prompt": ["one", "one", "two", "one", None, None]})
    assert sample_cells(page, "prompt") == ["one", DITTO, "two", "one", None, None]


def test_responses_begin_where_they_differ() -> None:
    texts = [f"<think>\nOkay, let me think. So {word}" for word in ("the sum", "they", "2+2")]
    assert without_shared_beginning([*texts, "Else"]) == ["…the sum", "…they", "…2+2", "Else"]
    assert without_shared_beginning([*texts[:2], "Else", "Other"]) == [*texts[:2], "Else", "Other"]
    assert without_shared_beginning(["the same text"] * 4) == ["the same text"] * 4
    assert without_shared_beginning(["a long beginning", *texts[:1]]) == ["a long beginning", *texts[:1]]
    assert without_shared_beginning(["a b c d e f g", "a b c d e f h", "a b c d e f "]) == [
        "…g",
        "…h",
        "a b c d e f ",
    ]


def test_states_and_matches_have_a_sign_beside_their_words() -> None:
    page = pd.DataFrame({"status": ["ok", "timeout", "odd", None], "match": ["yes", "no", "unclear", None]})
    assert sample_cells(page, "status") == ["✓ ok", "✗ timeout", "odd", None]
    assert sample_cells(page, "match") == ["yes", "no", "unclear", None]
    page.attrs[MATCH] = "match"
    assert sample_cells(page, "match") == ["✓ yes", "✗ no", "○ unclear", None]


def test_an_agents_error_stands_in_its_row_also_if_only_a_column_has_it() -> None:
    page = pd.DataFrame({"response": [CALL, CALL], "tool_errors": [0.0, 1.0]})
    page.attrs[AGENT_LINES] = True
    assert sample_cells(page, "response") == ["add(a=2) → It is 4.", "add(a=2) → ✗ error → It is 4."]


def test_small_numbers_keep_their_digits() -> None:
    page = pd.DataFrame({"gap": [2e-4, -3.1e-7, 0.0]})
    assert sample_cells(page, "gap") == ["0.0002", "−3.1e−7", "0"]
