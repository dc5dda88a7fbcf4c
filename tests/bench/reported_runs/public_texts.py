"""Prompts with right and wrong solutions that models really wrote, as a second source of texts.

The file holds 320 questions of GSM8K; ``gsm8k_solutions.LICENSE`` names its source and licence (MIT).
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.reported_runs.task_texts import Prompt

#: Questions that a run may train on; the 48 after them are kept for its evaluation.
TRAINED = 272
_FILE = Path(__file__).with_name("gsm8k_solutions.json.xz")
_HELD = 10**6


@cache
def _questions() -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(_FILE.read_bytes()))


def public_prompt(number: int, draw: np.random.Generator) -> Prompt:
    """Return a question; numbers from a million on are those of the evaluation."""
    row = _questions()[number % _HELD + TRAINED * (number >= _HELD)]
    lines = len(row["right"][0].splitlines())
    labels = {"data_source": "gsm8k", "solution": "long" if lines > 3 else "short"}
    return Prompt(number, row["question"], row["truth"], labels, float(draw.normal()), {"row": row})


def public_wrong_answer(prompt: Prompt, draw: np.random.Generator) -> str:
    """Return an answer that a model gave and that is wrong."""
    wrong = prompt.words["row"]["wrong"]  # type: ignore[index]
    return str(wrong[int(draw.integers(len(wrong)))][1])


def public_solution(prompt: Prompt, lines: int, answer: str, draw: np.random.Generator) -> list[str]:
    """Return about as many lines of a model's solution as asked for, with lines of others before it.

    The lines of others make the responses of a group differ: the file has at most four of a question.
    """
    row: dict[str, Any] = prompt.words["row"]  # type: ignore[assignment]
    right = [text for text in row["right"] if answer == prompt.truth]
    texts = right or [text for text, given in row["wrong"] if given == answer]
    own = str(texts[int(draw.integers(len(texts)))]).splitlines()[-max(1, lines) :]
    scratch = []
    while len(own) + len(scratch) < lines + 1:
        other = _questions()[int(draw.integers(TRAINED))]["right"][0].splitlines()
        scratch.append(str(other[int(draw.integers(len(other)))]))
    return [*scratch, *own, f"The answer is \\boxed{{{answer}}}."]
