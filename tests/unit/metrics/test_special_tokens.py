"""Special tokens in responses are counted, except one that ends it and those of an answer's structure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.special_tokens import ENDS, TOKENS, last_between_special_tokens, special_token_counts


def count(text: str) -> float:
    return float(special_token_counts([text])[0])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The sum is 7.", 0),
        ("", 0),
        ("if a<b and c[0]>d: x |> y <| z", 0),
        ("The sum is 7.<|im_end|>", 0),
        ("The sum is 7.<|im_end|>\n", 0),
        ("The sum is 7.</s>", 0),
        ("七。<｜end▁of▁sentence｜>", 0),
        ("7<|endoftext|><|endoftext|><|endoftext|>", 2),
        ("7</s><pad><pad>", 3),
        ("7<|im_end|><|im_start|>user\nand 8?", 2),
        ("7<|im_start|>", 1),
        ("<pad>", 1),
        ("7[PAD][PAD]", 2),
        ("[INST] and 8? [/INST] <<SYS>>", 3),
        ("<s>7", 1),
        ("<｜begin▁of▁sentence｜><｜User｜>", 2),
        ("<start_of_turn>user<end_of_turn>", 1),
        ("a <|an unknown token|> <|unknown|>", 1),
        (f"<|{'x' * 41}|> <|{'x' * 40}|>", 1),
    ],
)
def test_special_tokens_are_counted_except_an_end_at_the_end(text: str, found: int) -> None:
    assert count(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "<think>hm</think><answer>7</answer>",
        '<tool_call>{"name": "add"}</tool_call><tool_response>7</tool_response>',
        "<|begin_of_thought|>hm<|end_of_thought|><|begin_of_solution|>7<|end_of_solution|>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>7<|return|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>add<|tool_call_end|>",
        "<｜tool▁calls▁begin｜>add<｜tool▁calls▁end｜>",
        "<|vision_start|><|image_pad|><|image_pad|><|vision_end|> a cat <image>",
        "[assistant] I add.\n[call] add({})\n[tool] 7\n[assistant] 7\n[image]",
        "<p>text</p> <s1> [1] [a] [Padding]",
    ],
)
def test_tokens_that_structure_an_answer_do_not_count(text: str) -> None:
    assert count(text) == 0


def test_every_token_of_the_table_counts_once() -> None:
    tokens = [token for tokens in TOKENS.values() for token in tokens]
    inside = [f"a {token} b" for token in {*tokens, *ENDS}]
    assert special_token_counts(inside).tolist() == [1] * len(inside)
    assert special_token_counts([f"a {token}" for token in ENDS]).tolist() == [0] * len(ENDS)
    assert special_token_counts([f"a{token * 3}" for token in ENDS]).tolist() == [2] * len(ENDS)


def test_a_missing_response_has_no_count() -> None:
    np.testing.assert_array_equal(special_token_counts([None, "<pad>", ""]), [np.nan, 1, 0])


def test_the_last_long_part_between_tokens_is_found() -> None:
    prompt = "<|im_start|>user\n3 < 4 [a]? <|im_end|>\n[INST]b"
    assert last_between_special_tokens(prompt, 1) == "b"
    assert last_between_special_tokens(prompt, 2) == "user\n3 < 4 [a]?"
    assert last_between_special_tokens(prompt, 17) == ""
    assert last_between_special_tokens(" plain ", 5) == "plain"


every_token = [token for tokens in TOKENS.values() for token in tokens]
others = ["", "\n", "a < b", "<", "[", "<|", "｜>", "<a|", "[I", "</", "<｜", "π", "🙂", "<think>", "<|x|>"]
words = st.sampled_from([*every_token, *others, *ENDS])
some_texts = st.lists(words, max_size=5).map("".join)


@given(st.lists(some_texts | st.none(), max_size=9), st.integers(1, 40))
def test_many_texts_are_searched_as_one_is(texts: list[str | None], size: int) -> None:
    found = special_token_counts(texts, at_once=size)
    expected = [special_token_counts([text])[0] for text in texts]
    np.testing.assert_array_equal(found, expected)
