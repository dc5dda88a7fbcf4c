"""Numbers of the texts of one sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlpanel.analysis.step_texts import RunTexts, StepTexts, moments_of
from rlpanel.analysis.text_measures import numbers_of, response_words

PROMPT = "Which harbour supplies timber, copper and amber?"


@pytest.mark.parametrize(
    ("response", "share"),
    [
        ("Copper and timber come from a harbour.", 3 / 6),
        ("I cannot say.", 0.0),
        ("Which harbour supplies timber, copper, amber?", 1.0),
    ],
)
def test_the_overlap_with_the_prompt_is_the_share_of_its_longer_words(response: str, share: float) -> None:
    texts = {"prompt": PROMPT, "response": response}
    assert numbers_of(texts, response_words(texts))["prompt_words"] == pytest.approx(share)


def test_a_prompt_of_few_longer_words_has_no_overlap() -> None:
    texts = {"prompt": "What is 2 + 2?", "response": "What is it? 4"}
    assert "prompt_words" not in numbers_of(texts, response_words(texts))


def test_numbers_that_some_steps_lack_are_missing_there() -> None:
    groups, draw = np.array([0, 0, 1]), np.random.default_rng(0)
    texts, logged = RunTexts(), {1: ("a", "b"), 2: ("b",), 4: ("a", "b")}
    for step, names in logged.items():
        numbers = {name: draw.normal(size=3) for name in names}
        texts.steps[step] = StepTexts(np.arange(3), groups, 3, numbers, {}, {})
    found = texts.moments([1, 2, 3, 4])
    for name in "ab":
        for at, step in enumerate((1, 2, 3, 4)):
            if name in logged.get(step, ()):
                values = texts.steps[step].numbers[name]
                expected = moments_of(values, groups, np.zeros(3, int), 1)[0]
                assert found[name][at] == pytest.approx(expected)
                assert found[name][at][0] == pytest.approx(values.mean())
            else:
                assert all(math.isnan(value) for value in found[name][at])
    assert texts.sizes([1, 2, 3, 4]).tolist() == [3, 3, 0, 3]
