"""Generates logs of lines of 1 to 3 KB without token arrays, as most trainers dump them.

The texts are what policies write about mathematics and code: English, a fifth of them Chinese, with line
breaks, LaTeX, quotes, code and a few emoji. Eight samples share a prompt, which a chat template surrounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_ENGLISH = [
    "Let me think about this step by step.\n",
    "First, we note that the sum of the digits must be divisible by 9, so $n \\equiv 0 \\pmod{9}$. ",
    "Substituting $x = \\frac{3}{4}$ into the equation gives \\[ 2x + 5 = \\tfrac{13}{2}. \\]\n\n",
    'Wait, that is not right: the problem says "at most", not "exactly". ',
    "So the number of ways is $\\binom{12}{3} = 220$, and we have to subtract the 12 cases counted twice. ",
    "```python\ndef f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n```\n",
    "Therefore, the train travels 60 miles in the first hour and 45 miles in the second one. ",
    "Combining both inequalities, we find that $a < b$ whenever $c > 0$; the other case is symmetric. ",
    "The remaining cases follow in the same way, since the polynomial has no root modulo 7. ",
    "1. Compute the area of the triangle.\n2. Divide it by the base [in cm].\n3. Round to two digits.\n",
]
_CHINESE = [
    "首先,我们需要分析题目中给出的条件,然后逐步推导。",
    "设 $x$ 为所求的数,则根据题意可得方程 $3x + 7 = 22$,解得 $x = 5$。\n",
    "因此,这个数列的前 $n$ 项和为 $S_n = \\frac{n(n+1)}{2}$,代入即可。",
    "等等,这里似乎有一个错误,让我重新检查一下计算过程。\n\n",
    "综上所述,满足条件的整数共有十二个,其中最大的是九十九。",
]
_QUESTIONS = [
    "Tom has 12 apples and gives a third of them to his sister, who already had 5. ",
    "A train leaves Boston at 9:40 and travels at 60 mph for the first hour, then at 45 mph. ",
    "Let $f(x) = x^3 - 3x + 1$ and let $a, b, c$ be its roots. ",
    "How many ways are there to seat six people around a table if two of them refuse to sit together?\n",
    "Write a function that returns the longest palindrome in a list of strings [in Python]. ",
    "Give your answer as a common fraction in lowest terms. ",
]
_CHINESE_QUESTIONS = [
    "小明有十二个苹果,他把其中三分之一分给了妹妹,妹妹原来有五个。",
    "已知函数 $f(x) = x^2 - 4x + 3$ 在区间上的最小值为多少?\n",
    "一列火车从北京出发,第一个小时的速度是每小时六十公里。",
    "请用最简分数给出你的答案。",
]
_EMOJI = ["🙂 ", "🚀", "✅ Checked. ", "👩‍🔬 "]
_SYSTEM = "<|im_start|>system\nYou are a helpful assistant. Put the final answer in \\boxed{}.<|im_end|>\n"


@dataclass(frozen=True)
class ShortLines:
    """The size of a log, and the trainer whose keys it has: ``native`` or ``verl``."""

    trainer: str = "native"
    steps: int = 40
    samples: int = 1024
    seed: int = 0

    @property
    def rows(self) -> int:
        """Number of samples in the whole log."""
        return self.steps * self.samples


def write_short_lines(folder: Path, shape: ShortLines) -> None:
    """Write the log below ``folder``: verl's has one file per step, the native one a file per rank."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(shape.seed)
    row_of = _ROWS[shape.trainer]
    for step in range(1, shape.steps + 1):
        lines = [_line(row_of, draw, step, sample) for sample in range(shape.samples)]
        if shape.trainer == "verl":
            (folder / f"{step}.jsonl").write_bytes(b"".join(lines))
            continue
        for rank in range(4):
            with (folder / f"rollout_data_rank_{rank}.jsonl").open("ab") as file:
                file.write(b"".join(lines[rank::4]))


Row = dict[str, object]


def _line(row_of: Callable[[Row], Row], draw: np.random.Generator, step: int, sample: int) -> bytes:
    return json.dumps(row_of(_sample(draw, step, sample)), ensure_ascii=False).encode() + b"\n"


def _sample(draw: np.random.Generator, step: int, sample: int) -> Row:
    asked = np.random.default_rng([step, sample // 8])  # a group shares its prompt
    is_chinese = asked.random() < 0.2
    sentences, questions = (_CHINESE, _CHINESE_QUESTIONS) if is_chinese else (_ENGLISH, _QUESTIONS)
    question = _text(asked, questions, int(asked.integers(2, 7)))
    answer = int(asked.integers(1000))
    text = _text(draw, sentences, int(draw.integers(6, 22 if is_chinese else 24)))
    if draw.random() < 0.15:
        text += _EMOJI[draw.integers(len(_EMOJI))]
    score = float(draw.random() < 0.4)
    return {
        "prompt": f"{_SYSTEM}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
        "response": f"{text}\n\nThe answer is \\boxed{{{answer if score else answer + 1}}}.",
        "answer": str(answer),
        "score": score,
        "format": float(draw.random() < 0.9),
        "length_penalty": -round(float(draw.exponential(0.1)), 6),
        "prediction": str(answer if score else answer + 1),
        "step": step,
        "group": f"{step}-{sample // 8}",
    }


def english_text(draw: np.random.Generator, sentences: int) -> str:
    """Return so many sentences about mathematics or code."""
    return _text(draw, _ENGLISH, sentences)


def _text(draw: np.random.Generator, sentences: list[str], count: int) -> str:
    return "".join(sentences[at] for at in draw.integers(len(sentences), size=count).tolist())


def _native(sample: Row) -> Row:
    return {
        "step": sample["step"],
        "group": sample["group"],
        "prompt": sample["prompt"],
        "response": sample["response"],
        "ground_truth": sample["answer"],
        "reward": sample["score"],
        "rewards": {"format": sample["format"], "length": sample["length_penalty"]},
        "truncated": False,
    }


def _verl(sample: Row) -> Row:
    return {
        "input": sample["prompt"],
        "output": sample["response"],
        "gts": sample["answer"],
        "score": sample["score"],
        "step": sample["step"],
        "acc": bool(sample["score"]),
        "pred": sample["prediction"],
        "format_reward": sample["format"],
        "length_penalty": sample["length_penalty"],
    }


_ROWS: dict[str, Callable[[Row], Row]] = {"native": _native, "verl": _verl}
