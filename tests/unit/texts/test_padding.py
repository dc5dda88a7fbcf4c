"""Padding at the start and end of a text is found, and what says how a sequence ended is kept."""

from __future__ import annotations

import pytest

from rlpanel.texts.prompt_parts import PADS, unpadded


def without_padding(text: str, pad_token: str = "", *, common: bool = True) -> str:
    start, end = unpadded(text, pad_token, common=common)
    return text[start:end]


@pytest.mark.parametrize("pad", [*PADS, "<|endoftext|>"])
def test_runs_at_both_ends_are_padding(pad: str) -> None:
    assert without_padding(f"{pad * 3} {pad}\nhi{pad}\n{pad} {pad}").replace(pad, "", 1).strip() == "hi"


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>"])
def test_the_token_that_ended_a_response_is_kept(end: str) -> None:
    assert without_padding(f"hi{end}") == f"hi{end}"
    assert without_padding(f"hi{end * 4}") == f"hi{end}"
    assert without_padding(f"hi{end}<|pad|><|pad|>") == f"hi{end}"
    assert without_padding(f"{end}<|pad|>") == end


@pytest.mark.parametrize(
    "text", ["", "hi", " hi\n", "a <pad> b", "<|image_pad|>look<|vision_pad|>", "1 < 2 >", "[PADDING] x ]"]
)
def test_other_texts_stay(text: str) -> None:
    assert without_padding(text) == text


def test_only_padding_is_nothing() -> None:
    assert without_padding("<|pad|><|pad|>") == ""
    assert without_padding("<|pad|>\n").strip() == ""


def test_a_token_of_the_settings_is_padding_even_if_it_ends_sequences() -> None:
    assert without_padding("!!hi!!", "!") == "hi"
    assert without_padding("hi<|endoftext|>", "<|endoftext|>") == "hi"


def test_nothing_but_the_token_of_the_settings_is_padding_if_the_rest_is_switched_off() -> None:
    assert without_padding("<pad>!hi</s></s>!", "!", common=False) == "<pad>!hi</s></s>"
    assert without_padding("<pad>hi", common=False) == "<pad>hi"


@pytest.mark.parametrize(
    "text", ["<|pad|> " * 200_000, " " * 1_000_000, "<|pad|>" * 100_000 + "x" + " " * 500_000]
)
def test_long_runs_are_read_once(text: str) -> None:
    """A pattern that looked for runs anywhere would not come back from these."""
    assert without_padding(text).strip() in ("", "x")
