"""Small runs for tests; every line depends only on its step, rank and index, so runs are reproducible."""

from __future__ import annotations

import json
import os
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
    """Return a sample in the native format.

    Parameters
    ----------
    step, rank, index
        Position of the sample; its texts and numbers depend only on these.
    tokens : bool
        Whether the sample has tokens and token arrays.
    drop : names
        Keys to leave out.
    **fields
        Keys to replace or add; None becomes null.
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
    """Return a sample as a log line with its newline; the arguments are those of `sample`."""
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
    """Write a run and return its folder.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    steps : int or ints
        Number of steps (from 1), or the steps.
    ranks, samples : int
        Number of files, and of samples per rank and step.
    tokens, **fields
        See `sample`.
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


def rewrite(path: Path, *lines: bytes) -> None:
    """Write a log again from its start, long ago: with fewer rows it is complete only once it has rested."""
    path.write_bytes(b"".join(lines))
    os.utime(path, (1e9, 1e9))


def append(path: Path, *lines: bytes) -> None:
    """Append bytes to a log in one write, as a trainer does; the last line may be incomplete."""
    with path.open("ab") as file:
        file.write(b"".join(lines))
