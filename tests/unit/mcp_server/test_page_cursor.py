"""A cursor leads to the next rows of its own question only."""

from __future__ import annotations

import base64

import pytest

from rlpanel.errors import SettingError
from rlpanel.mcp_server.answer import MAX_CHARS, PageCursor, question_digest, read, written

ASKED = {"run": "exp", "filter": "reward < 0", "columns": ["reward"], "limit": 20}


def test_a_cursor_is_read_as_it_was_written() -> None:
    digest = question_digest("samples", ASKED)
    text = written(PageCursor(40, 4480), digest)
    assert read(text, digest) == PageCursor(40, 4480)
    assert len(written(PageCursor(10**15 - 1, 10**15 - 1), digest)) <= MAX_CHARS
    assert read("", digest) == PageCursor()


@pytest.mark.parametrize(
    ("tool", "changed"),
    [
        ("groups", {}), ("samples", {"run": "other"}), ("samples", {"filter": ""}),
        ("samples", {"columns": None}), ("samples", {"split": "eval"}),
    ],
)  # fmt: skip
def test_a_cursor_of_another_question_is_refused(tool: str, changed: dict[str, object]) -> None:
    text = written(PageCursor(20, 100), question_digest("samples", ASKED))
    with pytest.raises(SettingError, match="another question"):
        read(text, question_digest(tool, ASKED | changed))


def test_the_number_of_rows_of_a_page_may_change() -> None:
    text = written(PageCursor(20, 100), question_digest("samples", ASKED))
    other = ASKED | {"limit": 500, "detail": "full", "cursor": text}
    assert read(text, question_digest("samples", other)).skip == 20


@pytest.mark.parametrize("text", ["x", "20", "====", "語", "a" * 100, "-1", "MTIz"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="no cursor"):
        read(text, question_digest("samples", ASKED))


def test_a_negative_place_is_refused() -> None:
    digest = question_digest("samples", ASKED)
    text = base64.urlsafe_b64encode(f"-5.10.{digest}".encode()).decode()
    with pytest.raises(SettingError, match="no cursor"):
        read(text, digest)
