"""Texts of tokens that were decoded one by one, aligned to the response that was decoded as a whole."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rlpanel.panels.tokens.token_view import pack_sample
from rlpanel.schema import Sample
from rlpanel.texts.display_text import TokenKind, align_texts, decode

CORPUS = [
    "The cat sat on the mat, and the dog sat by the door.",
    "def add(a, b):\n    return a + b\n",
    "国家 中文 词 😀 é naïve café Ünïcode",
    "So the answer is 42.\n\n<answer>42</answer>",
] * 4
TEXTS = st.text(
    st.sampled_from("the cat sat.,()<>/=+\n 国家中文词😀é1234567890")
    | st.characters(exclude_categories=["C"]),
    min_size=1,
    max_size=60,
)
Kind = Literal["byte-level", "sentencepiece"]


@cache
def tokenizer(kind: Kind) -> Tokenizer:
    """Train a small tokenizer of the kind that GPT-2 or Llama 2 has."""
    made = Tokenizer(models.BPE(byte_fallback=kind == "sentencepiece"))
    special = [f"<0x{byte:02X}>" for byte in range(256)]
    if kind == "byte-level":
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        special = []
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    alphabet = (
        pre_tokenizers.ByteLevel.alphabet() if kind == "byte-level" else list("▁abcdefghijklmnoprstuwy.,")
    )
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
@given(text=TEXTS)
@example(text="国家 😀 the cat")
@example(text=" the  cat\n\n sat ")
def test_tokens_decoded_one_by_one_add_up_to_the_response(kind: Kind, text: str) -> None:
    made = tokenizer(kind)
    ids = made.encode(text, add_special_tokens=False).ids
    response = made.decode(ids, skip_special_tokens=False)
    tokens = [made.decode([token], skip_special_tokens=False) for token in ids]
    aligned = align_texts(tokens, [False] * len(tokens), response)
    assert aligned is not None
    assert "".join(aligned) == response


@given(text=TEXTS)
def test_a_byte_level_token_gets_the_characters_that_end_in_it(text: str) -> None:
    """The oracle is the tokenizer's own offsets."""
    made = tokenizer("byte-level")
    encoded = made.encode(text, add_special_tokens=False)
    tokens = [made.decode([token]) for token in encoded.ids]
    aligned = align_texts(tokens, [False] * len(tokens), text)
    ends = np.cumsum([len(part) for part in aligned or []])
    whole = [index for index, token in enumerate(tokens) if "\ufffd" not in token]
    assert [ends[index] for index in whole] == [encoded.offsets[index][1] for index in whole]


@pytest.mark.parametrize(
    ("tokens", "response", "texts"),
    [
        (["Hello", "world"], "Hello world", ["Hello", " world"]),
        (["Ġa b", "Ġc d"], " a b c d", [" a b", " c d"]),
        (["a", "\ufffd", "\ufffd", "b"], "a国b", ["a", "", "国", "b"]),
        (["\ufffd"] * 4 + ["b"], "国家b", ["", "国", "", "家", "b"]),
        ([" \ufffd", "\ufffd", " b"], " 国 b", [" ", "国", " b"]),
        (["a", "<|im_end|>"], "a", ["a", "<|im_end|>"]),
        (["a", "<|im_end|>"], "a<|im_end|>", ["a", "<|im_end|>"]),
        (["a", "!", "!"], "a", ["a", "!", "!"]),
        ([" a", "\n"], "a", ["a", "\n"]),
        (["a", " ."], "a.", ["a", "."]),
        (["\ufffd"], "\ufffd", ["\ufffd"]),
        (["cat", "."], "cat", ["cat", "."]),
        (
            ["A word in the", " US", " changes"],
            "A word in the us changes",
            ["A word in the", " us", " changes"],
        ),
        (["unrelated"], "another text", ["unrelated"]),
        (["a"], "a and more that no token has", ["a"]),
    ],
)
def test_texts_follow_the_response_where_they_match(
    tokens: list[str], response: str, texts: list[str]
) -> None:
    assert decode(tokens, pad_token="!", response=response).texts == texts


def test_tokens_of_a_tool_keep_their_texts_if_the_response_leaves_them_out() -> None:
    tokens, mask = ["call", "(x)", "tool", "says", "so", "42"], np.array([1, 1, 0, 0, 1, 1.0])
    decoded = decode(tokens, response="call(x) so 42", loss_mask=mask)
    assert decoded.texts == ["call", "(x)", "tool", "says", " so", " 42"]


def test_the_parts_of_a_character_are_marked_as_such() -> None:
    decoded = decode(["a", "\ufffd", "\ufffd"], response="a国")
    assert decoded.kinds.tolist() == [TokenKind.PLAIN, TokenKind.FRAGMENT, TokenKind.PLAIN]
    assert decoded.replaced == 0


@given(st.lists(st.text(max_size=6), max_size=30), st.text(max_size=60))
def test_whatever_is_logged_no_token_is_lost(tokens: list[str], response: str) -> None:
    decoded = decode(tokens, response=response)
    assert len(decoded.texts) == len(decoded.kinds) == len(tokens)
    aligned = align_texts(tokens, [False] * len(tokens), response)
    if aligned is not None:
        # Every character of the response is shown, in order; other texts may stand between.
        rest = iter("".join(aligned))
        assert all(char in rest for char in response)


def test_a_sample_with_ids_only_shows_its_response_and_the_values_that_exist() -> None:
    packed = pack_sample(
        Sample(
            uid="a:0",
            step=1,
            response="It is 42.",
            response_token_ids=np.array([7.0, 8.0]),
            rollout_logprobs=np.array([-0.5, -0.25]),
        )
    )
    assert packed["state"] == "positions"
    assert packed["plain"] == "It is 42."
    assert packed["rows"]["name"] == ["engine_logprob"]
    assert not any("No token values" in note for note in packed["notes"])
