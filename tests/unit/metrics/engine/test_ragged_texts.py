"""Texts that are missing are told apart from empty ones."""

from __future__ import annotations

from rlpanel.metrics.engine.ragged import empty_for_none, missing, text_lengths


def test_a_missing_text_is_not_an_empty_one() -> None:
    texts = ["ab", None, ""]
    assert (list(empty_for_none(texts)), missing(texts).tolist()) == (["ab", "", ""], [False, True, False])


def test_lengths_count_characters() -> None:
    assert text_lengths(["", "渔歌", "🙂"]).tolist() == [0, 2, 1]
