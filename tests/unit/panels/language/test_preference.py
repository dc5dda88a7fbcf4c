"""The language of a page, by cookie and header."""

from __future__ import annotations

import pytest

from rlpanel.panels.language.labels import CHINESE, ENGLISH, preferred_language


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        (None, ENGLISH),
        ("", ENGLISH),
        ("zh-CN", CHINESE),
        ("zh", CHINESE),
        ("ZH-hans-CN, en;q=0.8", CHINESE),
        ("en-US, zh-CN;q=0.9", ENGLISH),
        ("en;q=0.5, zh-CN;q=0.9", CHINESE),
        ("fr, zh-CN;q=0.5", CHINESE),
        ("zh-TW, en;q=0.5", ENGLISH),
        ("zh-CN;q=0, en;q=0.1", ENGLISH),
        ("../../x", ENGLISH),
        ("zh-CN;q=much", ENGLISH),
        ("a" * 100_000 + ",zh-CN", ENGLISH),
    ],
)
def test_the_header_gives_the_language(accepted: str | None, language: str) -> None:
    assert preferred_language(None, accepted) == language


def test_a_choice_goes_first() -> None:
    assert preferred_language(ENGLISH, "zh-CN") == ENGLISH
    assert preferred_language(CHINESE, "en") == CHINESE


@pytest.mark.parametrize("cookie", ["../../x", "<script>", "zh_CN", "", "zh-CN/../en"])
def test_a_choice_that_names_no_language_is_ignored(cookie: str) -> None:
    assert preferred_language(cookie, "en") == ENGLISH
    assert preferred_language(cookie, "zh-CN") == CHINESE
