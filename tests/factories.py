"""Small runs to test with: every line is made from its step, rank and index alone, so runs repeat exactly."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WORDS = ("sun", "moon", "river", "stone", "月", "山", "bright", "slow", "wind", "🙂")
GROUP_SIZE = 4


def sample(
    step: Any = 1,
    *,
    rank: int = 0,
    index: int = 0,
    tokens: bool = True,
    drop: Iterable[str] = (),
    **fields: Any,
) -> dict[str, Any]:
    """One sample in the native format.

    Parameters
    ----------
    step, rank, index
        Place the sample; its texts and numbers follow from them.
    tokens : bool
        Whether it has tokens and token arrays.
    drop : names
        Keys left out.
    **fields
        Keys set to something else, or added; None becomes null.
    """
    chance = random.Random(f"{step}-{rank}-{index}")
    words = [chance.choice(WORDS) for _ in range(chance.randint(3, 9))]
    ref_words = [chance.choice(WORDS) for _ in range(5)]
    made: dict[str, Any] = {
        "prompt": f"prompt {index // GROUP_SIZE} of rank {rank}",
        "response": " ".join(words),
        "step": step,
        "rank": rank,
        "reward": round(chance.gauss(1.0, 0.5), 4),
        "ref_response": " ".join(ref_words),
        "ref_reward": round(chance.gauss(0.5, 0.5), 4),
        "ground_truth": f"truth {index // GROUP_SIZE}",
        "group": f"{rank}-{index // GROUP_SIZE}",
    }
    if tokens:
        made |= _token_fields(chance, words)
    made |= fields
    return {key: value for key, value in made.items() if key not in set(drop)}


def _token_fields(chance: random.Random, words: list[str]) -> dict[str, list[Any]]:
    def numbers(mean: float, spread: float) -> list[float]:
        return [round(chance.gauss(mean, spread), 5) for _ in words]

    ref_logprobs = [round(-chance.expovariate(1.0), 5) for _ in words]
    return {
        "response_tokens": [word if at == 0 else f" {word}" for at, word in enumerate(words)],
        "logprobs": [round(-chance.expovariate(1.5), 5) for _ in words],
        "ref_logprobs": ref_logprobs,
        "values": numbers(0.5, 0.2),
        "token_rewards": numbers(0.0, 0.1),
    }


def line(step: Any = 1, **fields: Any) -> bytes:
    """A sample as its line in a log, newline included; takes what `sample` takes."""
    return json.dumps(sample(step, **fields), ensure_ascii=False).encode() + b"\n"


def write_run(
    folder: Path,
    *,
    steps: int | Iterable[int] = 3,
    ranks: int = 1,
    samples: int = 8,
    tokens: bool = True,
    file_name: str = "rollout_data_rank_{rank}.jsonl",
    **fields: Any,
) -> Path:
    """Write a run and give its folder back.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    steps : int or ints
        How many (from 1), or which.
    ranks, samples : int
        Files, and samples of each rank in each step.
    tokens, **fields
        As `sample` takes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(1, steps + 1) if isinstance(steps, int) else list(steps)
    for rank in range(ranks):
        append(
            folder / file_name.format(rank=rank),
            *(
                line(step, rank=rank, index=index, tokens=tokens, **fields)
                for step in numbers
                for index in range(samples)
            ),
        )
    return folder


def append(path: Path, *lines: bytes) -> None:
    """Append bytes to a log as a trainer does, in one write; half a line is for the asking."""
    with path.open("ab") as file:
        file.write(b"".join(lines))
