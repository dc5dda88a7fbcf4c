"""The text of each token."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rlpanel.recording.trainers.rollout_rows import token_texts


def decode(ids: Sequence[int]) -> str:
    """Decode with a tokenizer whose tokens are bytes."""
    return bytes(ids).decode("utf-8", "replace")


def test_a_character_stands_with_its_last_token() -> None:
    assert token_texts(decode, list("月x".encode())) == ["", "", "月", "x"]


def test_an_end_within_a_character_keeps_its_text() -> None:
    assert token_texts(decode, list("x月".encode())[:3]) == ["x", "", "�"]


@given(st.text())
def test_pieces_of_a_text_are_the_text(text: str) -> None:
    assert "".join(token_texts(decode, list(text.encode()))) == text


@given(st.binary(max_size=40))
def test_there_is_a_piece_for_each_token_of_anything(data: bytes) -> None:
    assert len(token_texts(decode, list(data))) == len(data)


def test_long_responses_take_time_in_proportion() -> None:
    asked = 0

    def counting(ids: Sequence[int]) -> str:
        nonlocal asked
        asked += len(ids)
        return decode(ids)

    token_texts(counting, list(b"a" * 4096))
    assert asked < 5 * 4096
