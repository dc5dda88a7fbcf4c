"""Writes the log of a large run quickly: a million samples in some seconds.

The token arrays of a line are taken from a pool, because formatting numbers would take minutes. All other
values differ from line to line, and no response occurs twice in a step.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

#: Number of different responses.
POOL = 4096
RANKS = 8
SAMPLES_PER_STEP = 1000


def write_large_log(folder: Path, steps: int, tokens: int = 24) -> int:
    """Write `RANKS` files with 1,000 samples per step; return their bytes.

    Parameters
    ----------
    folder : Path
    steps : int
    tokens : int
        Tokens per response; 0 for lines without token arrays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    pool = [_response(draw, tokens) for _ in range(POOL)]
    logs = [(folder / f"rollout_data_rank_{rank}.jsonl").open("wb") for rank in range(RANKS)]
    for step in range(steps):
        learnt = step / max(1, steps - 1)
        rewards = np.tanh(draw.normal(2 * learnt - 0.5, 0.6, SAMPLES_PER_STEP)).tolist()
        chosen = draw.permutation(POOL)[:SAMPLES_PER_STEP].tolist()
        lines = [
            b'{"step": %d, "prompt": "<|user|>%d + %d = ?<|assistant|>", "ground_truth": "%d", '
            b'"group": "%d-%d", "reward": %a, %b'
            % (step, i // 8, step, i // 8 + step, step, i // 8, reward, pool[response])
            for i, (reward, response) in enumerate(zip(rewards, chosen, strict=True))
        ]
        for rank, log in enumerate(logs):
            log.write(b"".join(lines[rank::RANKS]))
    for log in logs:
        log.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def _response(draw: np.random.Generator, tokens: int) -> bytes:
    """Return the end of a line: response and token arrays."""
    words = [f" w{word}" for word in draw.integers(0, 30_000, max(tokens, 24)).tolist()]
    response: dict[str, object] = {"response": "".join(words)}
    if tokens:
        logprobs = -draw.exponential(0.8, tokens)
        ref_logprobs = logprobs - draw.normal(0.03, 0.1, tokens)
        response["response_tokens"] = words
        for name, values in (("logprobs", logprobs), ("ref_logprobs", ref_logprobs)):
            response[name] = values.astype(np.float32).tolist()  # float32 widened, as trainers log it
    return json.dumps(response)[1:].encode() + b"\n"
