"""A response that contains the second half of its prompt repeats it; one that restates its end does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.special_tokens import MAX_HALF, MIN_HALF, MIN_PROMPT, prompt_echoes

QUESTION = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. "
    "How many clips did Natalia sell altogether in April and May?"
)
ENDING = "How many clips did Natalia sell altogether in April and May?"
SHORT = "Say which of the two numbers is larger: 9.11 or 9.9"


def echo(prompt: str | None, response: str | None) -> float:
    return float(prompt_echoes([prompt], [response])[0])


@pytest.mark.parametrize(
    ("prompt", "response", "found"),
    [
        (QUESTION, f"{QUESTION} 72", 1),
        (QUESTION, f"So: {QUESTION[60:]}\n72", 1),
        (QUESTION, f"We are asked: {ENDING} It is 72.", 0),
        (QUESTION, "48 + 24 = 72", 0),
        (QUESTION, "", 0),
        (SHORT, f"{SHORT}? 9.9", 1),
        (SHORT, "9.9 is larger than 9.11, because 0.9 is larger than 0.11.", 0),
        (
            f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n",
            f"user\n{QUESTION}\nassistant\n72",
            1,
        ),
        (f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n", f"We are asked: {ENDING} 72", 0),
        (f"<s>[INST] <<SYS>>{'Be brief and polite. ' * 9}<</SYS>>{SHORT}[/INST]", f"{SHORT}: 9.9", 1),
        (f"\n {SHORT} \n", SHORT, 1),
        ("3 + 4 =", "3 + 4 = 7", np.nan),
        (QUESTION[:31], QUESTION, np.nan),
        (QUESTION[:33], QUESTION, 1),
        ("", "7", np.nan),
        (None, "7", np.nan),
        (QUESTION, None, np.nan),
        ("山" * 40, "山" * 39, 0),
        ("山" * 40, "山" * 40, 1),
        ("🙂\ufffd" * 20, "🙂\ufffd" * 20, 1),
    ],
)
def test_a_response_repeats_its_prompt(prompt: str | None, response: str | None, found: float) -> None:
    np.testing.assert_equal(echo(prompt, response), found)


def test_the_last_256_characters_of_a_long_prompt_are_enough() -> None:
    prompt = " ".join(map(str, range(100_000)))
    assert [echo(prompt, prompt[-size:]) for size in (255, 256)] == [0.0, 1.0]


def test_each_sample_is_compared_with_its_own_prompt() -> None:
    found = prompt_echoes([QUESTION, SHORT, None], [SHORT, SHORT, SHORT])
    np.testing.assert_array_equal(found, [0, 1, np.nan])


parts = st.sampled_from(
    ["How many clips did she sell? ", "渔歌?共有多少首歌曲", "x = 7. ", "π ", "🙂", " \n", "a" * 90]
)
long_texts = st.lists(parts, max_size=9).map("".join)
repeated = st.sampled_from([0, 1, 30, 64, 100, 256])


@given(st.lists(st.tuples(long_texts, long_texts, repeated), min_size=1, max_size=8))
def test_many_responses_are_searched_as_one_is(drawn: list[tuple[str, str, int]]) -> None:
    pairs = [(prompt, text + prompt[-end:]) for prompt, text, end in drawn]
    expected = []
    for prompt, response in pairs:
        asked = prompt[-4 * MAX_HALF :].strip()
        half = asked[-min(max(len(asked) // 2, MIN_HALF), MAX_HALF) :]
        echoed = float(len(asked) >= MIN_PROMPT and half in response)
        expected.append(echoed if len(prompt) >= MIN_PROMPT else np.nan)
    found = prompt_echoes([prompt for prompt, _ in pairs], [response for _, response in pairs])
    np.testing.assert_array_equal(found, expected)
